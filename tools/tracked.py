"""The files the repository consists of: tracked ones and new ones that are not ignored."""

import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def files(*patterns: str) -> list[Path]:
    """Return existing files that match any of the git patterns (all files without one)."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", *patterns]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    paths = (ROOT / name for name in sorted(set(listed.split("\0"))) if name)
    return [path for path in paths if path.is_file()]
