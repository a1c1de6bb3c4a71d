"""Print every requirement that the workspace asks for, sorted: what the lock must answer."""

import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def requirements() -> list[str]:
    """Return the requirements of the members, their extras and the development group."""
    asked: list[str] = []
    for member in ("migrations", "worker", "operator"):
        project = tomllib.loads((ROOT / member / "pyproject.toml").read_text())["project"]
        asked += project.get("dependencies", [])
        for extra in project.get("optional-dependencies", {}).values():
            asked += extra
    groups = tomllib.loads((ROOT / "pyproject.toml").read_text())["dependency-groups"]
    return sorted({*asked, *groups["dev"]})


if __name__ == "__main__":
    print("\n".join(requirements()))
