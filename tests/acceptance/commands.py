"""Commands as a user starts them, what they say, and the processes that they leave."""

import os
import pty
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from pathlib import Path

import psutil

from support.waiting import eventually_sync

LIMIT = timedelta(seconds=90)
"""For anything: the machine may be busy with other tests."""


class Command:
    """A running command; it is the leader of a process group, like one started from a shell."""

    def __init__(
        self, words: Sequence[str], folder: Path, environ: Mapping[str, str], *, terminal: bool
    ) -> None:
        self.folder = folder
        self._said = b""
        self._reading: int | None = None
        ours: int | None = None
        if terminal:
            self._reading, ours = pty.openpty()
            os.set_blocking(self._reading, False)
            target: int = ours
        else:
            self._file = folder / f"said-{os.urandom(4).hex()}.log"
            target = os.open(self._file, os.O_WRONLY | os.O_CREAT, 0o644)
        self._process = subprocess.Popen(
            words, cwd=folder, env=dict(environ), stdin=subprocess.DEVNULL,
            stdout=target, stderr=target, start_new_session=True,
            preexec_fn=_own_terminal(ours) if ours is not None else None,
        )  # fmt: skip
        os.close(target)

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def said(self) -> str:
        """Everything that it has written so far."""
        if self._reading is None:
            return self._file.read_text(errors="replace")
        try:
            while data := os.read(self._reading, 65536):
                self._said += data
        except OSError:  # nothing more now, or it has ended
            pass
        return self._said.decode(errors="replace")

    @property
    def has_ended(self) -> bool:
        return self._process.poll() is not None

    def until(self, holds: Callable[[], object], what: str) -> "Command":
        """Return when a condition holds; it must while the command runs."""

        def look() -> object:
            return holds() or (self.has_ended and "ended")

        found = eventually_sync(look, LIMIT, what=f"{what}; it said:\n{self.said}")
        assert found != "ended" or holds(), f"ended before: {what}; it said:\n{self.said}"
        return self

    def until_said(self, text: str, times: int = 1) -> "Command":
        return self.until(lambda: self.said.count(text) >= times, f"says {text!r}")

    def signal_group(self, number: signal.Signals) -> None:
        """Send a signal to the group, as a terminal does for Ctrl-C."""
        os.killpg(self.pid, number)

    def hang_up(self) -> None:
        """Close the terminal window."""
        assert self._reading is not None
        os.close(self._reading)
        self._reading = None
        self._file = self.folder / "nothing-more.log"
        self._file.write_bytes(self._said)

    def code(self) -> int:
        """Wait for its end and return its exit code."""
        # Read meanwhile: a command whose terminal takes nothing more would wait for that.
        eventually_sync(lambda: (self.said, self.has_ended)[1], LIMIT, what="the command ends")
        return self._process.wait()

    def kill(self) -> None:
        """Kill -9 it, if it still runs."""
        self._process.kill()
        self._process.wait(30)

    def close(self) -> None:
        self.kill()
        if self._reading is not None:
            os.close(self._reading)
            self._reading = None


def _own_terminal(descriptor: int) -> Callable[[], None]:
    def in_child() -> None:
        import fcntl  # noqa: PLC0415 - only between fork and exec
        import termios  # noqa: PLC0415

        fcntl.ioctl(descriptor, termios.TIOCSCTTY, 0)

    return in_child


def awa(*words: str) -> list[str]:
    """Return the words that run our command."""
    return [sys.executable, "-m", "awa", *words]


def processes_of(folder: Path) -> list[psutil.Process]:
    """Return every process that has to do with a folder: works in it, names it, was told of it."""
    found, name = [], str(folder)
    for process in psutil.process_iter():
        try:
            known = [
                process.cwd(), *process.cmdline(), *(f.path for f in process.open_files()),
                *(value for key, value in process.environ().items() if key != "OLDPWD"),
            ]  # fmt: skip
            is_zombie = process.status() == psutil.STATUS_ZOMBIE
        except (psutil.NoSuchProcess, psutil.AccessDenied):
            continue
        if not is_zombie and process.pid != os.getpid() and any(name in each for each in known):
            found.append(process)
    return found
