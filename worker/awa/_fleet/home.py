"""The folder of a run: who runs it, and where its workers keep what their successors need.

<folder>/ run.lock     locked by the run; says who that is
          workers/     a state folder for each worker, by queue and number
"""

import fcntl
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote

from awa.errors import AwaError

LOCK = "run.lock"
WORKERS = "workers"
IGNORE = ".gitignore"


class FolderInUse(AwaError):
    """Another process runs this folder's workers. `pid` is that process, when it is known."""

    def __init__(self, folder: Path, what: str, pid: int | None) -> None:
        who = what if pid is None else f"{what} (process {pid})"
        super().__init__(
            f"{who} runs in {folder} already; stop it first, or use another folder with --dir"
        )
        self.pid = pid


class FolderUnusable(AwaError):
    """The folder of the run cannot be made or written to."""


@contextmanager
def hold(folder: Path, what: str) -> Iterator[None]:
    """Hold a folder for one run; `what` tells others who that is, such as `awa up`.

    Raises FolderInUse, and FolderUnusable.
    """
    try:
        if not folder.is_dir():
            folder.mkdir(parents=True, exist_ok=True)  # somebody else may be as far as this
            # State of one machine: never to be committed.
            (folder / IGNORE).write_text("*\n")
        lock = (folder / LOCK).open("a+")
    except OSError as error:
        raise FolderUnusable(
            f"cannot use {folder}: {error.strerror}; run as the user who made it, or use another "
            "folder with --dir"
        ) from None
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise FolderInUse(folder, *_holder(folder / LOCK)) from None
        lock.truncate(0)
        lock.write(json.dumps({"what": what, "pid": os.getpid()}) + "\n")
        lock.flush()
        yield


def state_of_queue(folder: Path, queue: str) -> Path:
    """Return where the workers of a queue keep their state; any name of a queue will do."""
    name = quote(queue, safe=" ")
    return (folder / WORKERS / name.replace(".", "%2E")).absolute()


def states_left(folder: Path) -> list[Path]:
    """Return the state folders of all workers that there ever were."""
    return sorted(path for path in (folder / WORKERS).glob("*/*") if path.is_dir())


def _holder(lock: Path) -> tuple[str, int | None]:
    try:
        said = json.loads(lock.read_text())
        return str(said["what"]), int(said["pid"])
    except (OSError, ValueError, KeyError, TypeError):
        return "another process", None  # it has not written itself down yet
