"""Write what each image installs: the part of requirements.lock that a member needs to run.

`--check` fails when a file is stale. The environment of `make setup` says who needs whom.
"""

import re
import sys
from collections.abc import Iterator
from importlib.metadata import distribution
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parent.parent
IMAGES = {"worker": "awa-worker", "operator": "awa-operator"}
OURS = {"awa-migrations", "awa-worker", "awa-operator"}
# Images are of Linux; what another platform needs is left out.
PLATFORM = {"sys_platform": "linux", "platform_system": "Linux", "os_name": "posix"}
HEADER = "# Made from requirements.lock by `make lock`; installed by {image}/Dockerfile.\n"


def needed(name: str, extras: frozenset[str] = frozenset()) -> Iterator[tuple[str, frozenset[str]]]:
    """Yield what a distribution asks for directly, with the extras that it asks for."""
    for line in distribution(name).requires or ():
        requirement = Requirement(line)
        for extra in extras | {""}:
            if requirement.marker is None or requirement.marker.evaluate(
                {**PLATFORM, "extra": extra}
            ):
                yield canonicalize_name(requirement.name), frozenset(requirement.extras)
                break


def closure(name: str) -> set[str]:
    """Return the names of everything that a distribution needs, without ours."""
    seen: set[tuple[str, frozenset[str]]] = set()
    ahead = [(name, frozenset[str]())]
    while ahead:
        one = ahead.pop()
        if one not in seen:
            seen.add(one)
            ahead += needed(*one)
    return {found for found, _ in seen} - OURS


def part_of_lock(names: set[str]) -> str:
    """Return the entries of requirements.lock with these names. Raises LookupError."""
    entries = re.findall(
        r"^([\w.-]+)(==(?:.*\\\n)*.*\n)", (ROOT / "requirements.lock").read_text(), re.MULTILINE
    )
    found = {str(canonicalize_name(name)): name + rest for name, rest in entries}
    if missing := names - set(found):
        raise LookupError(f"not in requirements.lock: {', '.join(sorted(missing))}")
    return "".join(found[name] for name in sorted(names))


def main(arguments: list[str]) -> int:
    """Write or check the files; 1 when one is stale."""
    stale = False
    for image, name in IMAGES.items():
        file = ROOT / image / "image.lock"
        wanted = HEADER.format(image=image) + part_of_lock(closure(name))
        if arguments == ["--check"]:
            if not file.exists() or file.read_text() != wanted:
                print(f"{file.relative_to(ROOT)} is stale. Run: make lock", file=sys.stderr)
                stale = True
        else:
            file.write_text(wanted)
    return int(stale)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
