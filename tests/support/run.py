"""What the processes of one test run share: a folder, things made once, a keeper that cleans up."""

import fcntl
import json
import secrets
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import IO

import psutil
import pytest

KEEPER = Path(__file__).with_name("keeper.py")
MEMORY = Path("/dev/shm")
ROOM_BYTES = 8 * 2**30


class Run:
    """The folder of a test run, seen by its main process and every xdist worker."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._alive: IO[str] | None = None

    @classmethod
    def begin(cls) -> "Run":
        """Make the folder, in the run's main process; `end` must be called there too."""
        folder = Path(tempfile.mkdtemp(prefix="awa-tests-", dir=_memory()))
        # Servers run as another user when we are root.
        folder.chmod(0o755)
        run = cls(folder)
        run._alive = (folder / "alive").open("w")
        fcntl.flock(run._alive, fcntl.LOCK_EX)
        return run

    def once[T](self, name: str, make: Callable[[], T]) -> T:
        """Return what `make` returned in the first process that asked for `name`.

        The value travels as JSON. A `make` that raises is tried again by the next one who asks.
        """
        with (self.folder / f"{name}.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            made = self.folder / f"{name}.json"
            if not made.exists():
                made.write_text(json.dumps(make()))
            value: T = json.loads(made.read_text())
            return value

    def new_path(self, prefix: str) -> Path:
        """Return a path in the run's folder that nothing else uses; nothing is made there."""
        return self.folder / f"{prefix}-{secrets.token_hex(4)}"

    def ensure_keeper(self) -> None:
        """Start the keeper if no process of this run has; call before starting a server."""
        self.once("keeper-started", self._start_keeper)

    def end(self) -> None:
        """Release the run and return when its servers are gone and the folder is removed."""
        if self._alive is None:
            raise RuntimeError("only the main process, which began the run, can end it")
        if not (self.folder / "keeper-started.json").exists():
            self._alive.close()
            shutil.rmtree(self.folder)
            return
        # Opened before the keeper removes the folder: a lock belongs to the open file.
        with (self.folder / "keeper.lock").open() as lock:
            self._alive.close()
            fcntl.flock(lock, fcntl.LOCK_SH)

    def _start_keeper(self) -> bool:
        keeper = subprocess.Popen(
            [sys.executable, KEEPER, self.folder],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True, start_new_session=True,
        )  # fmt: skip
        if keeper.stdout is None or keeper.stdout.readline() != "ready\n":
            raise AssertionError("the keeper of the test run did not start")
        keeper.stdout.close()
        # It must outlive this process; nobody here may report it as forgotten.
        keeper.returncode = 0
        return True


def _memory() -> str | None:
    """Return a folder that lies in memory, if it has room for the servers of a run.

    Each of thousands of tests has a database of its own, which is hundreds of files: on a disk that
    is most of what some of them take.
    """
    if not MEMORY.is_dir():
        return None
    room = min(shutil.disk_usage(MEMORY).free, psutil.virtual_memory().available)
    return str(MEMORY) if room > ROOM_BYTES else None


RUN = pytest.StashKey[Run]()
"""Where the configuration of pytest keeps the run, in every process of it."""
