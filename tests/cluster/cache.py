"""Things that take long to make, kept from run to run under a name that says what is in them.

A thing is a folder `NAME-KEY`, where KEY is a digest of everything that decides its content. It is
made next to its place and moved there as a whole, by one process at a time.
"""

import fcntl
import hashlib
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path


def cache_root() -> Path:
    """Return the folder of all things; it may not exist yet."""
    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(home) / "awa-testcluster"


def digest(*parts: str | bytes | Path) -> str:
    """Return 16 hex digits for texts and for the contents of files and folders."""
    total = hashlib.sha256()
    for part in parts:
        for chunk in _chunks(part):
            total.update(len(chunk).to_bytes(8, "big") + chunk)
    return total.hexdigest()[:16]


def _chunks(part: str | bytes | Path) -> Iterable[bytes]:
    if isinstance(part, str):
        yield part.encode()
    elif isinstance(part, bytes):
        yield part
    elif part.is_dir():
        for path in sorted(part.rglob("*")):
            if path.is_file() and "__pycache__" not in path.parts:
                yield str(path.relative_to(part)).encode()
                yield path.read_bytes()
    else:
        yield part.name.encode()
        yield part.read_bytes()


def cached(name: str, key: str, make: Callable[[Path], None], *, keep: int | None = None) -> Path:
    """Return the folder `name-key`; when it is missing, `make` fills an empty one first.

    Others who want the same meanwhile wait. What an interrupted `make` left is removed by the next.
    With `keep`, only so many things of this name stay: those that were used last.
    """
    root = cache_root()
    place = root / f"{name}-{key}"
    if place.is_dir():
        os.utime(place)
        return place
    root.mkdir(parents=True, exist_ok=True)
    with (root / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not place.is_dir():
            for rest in root.glob(f".{name}-*"):
                shutil.rmtree(rest)
            made = Path(tempfile.mkdtemp(prefix=f".{name}-", dir=root))
            made.chmod(0o755)
            make(made)
            made.rename(place)
            if keep is not None:
                _remove_old(root, name, keep)
    return place


def _remove_old(root: Path, name: str, keep: int) -> None:
    things = [path for path in root.glob(f"{name}-*") if len(path.name) == len(name) + 17]
    for old in sorted(things, key=lambda path: path.stat().st_mtime, reverse=True)[keep:]:
        shutil.rmtree(old, ignore_errors=True)


def is_cached(name: str, key: str) -> bool:
    """Whether `cached` would return at once."""
    return (cache_root() / f"{name}-{key}").is_dir()


def say(text: str) -> None:
    """Tell whoever started the run why it takes long, past what pytest captures."""
    stream = sys.__stderr__
    if stream is not None:
        stream.write(f"cluster: {text}\n")
        stream.flush()
