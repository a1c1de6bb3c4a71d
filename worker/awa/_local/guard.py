"""The guard: a small process between us and the server, so that no server outlives its owner.

Parties: the owner (the process that called `EmbeddedPostgres.start`), the guard, the postmaster
and its backends. The guard is the postmaster's parent, in a session of its own so that Ctrl-C in
a terminal reaches the owner only; the owner decides when the database stops.

What ends the server, and who notices:

- The owner calls stop: a line on the control socket.
- The owner ends in any way, also by kill -9: the control socket closes. A child forked off the
  owner may hold it open, so the guard also looks every second whose child it is.
- The guard is killed: on Linux the kernel sends the postmaster its death signal (SIGINT, a fast
  shutdown). Elsewhere the next start finds a server without a guard and ends it.
- The postmaster is killed: its backends see it, and the guard ends those too busy to look.
- All of them are killed: only a busy backend can be left; the next start ends it.

The lock of the data folder's home is an open file that the guard, the postmaster and every
backend inherit. So the kernel releases it exactly when the last of them is gone, and "the lock is
free" means "no process uses these data": the invariant on which restart relies. A second lock is
the guard's alone and tells in the same way whether it lives.

Run as a script with three file descriptors as arguments, and without site-packages: it needs the
standard library alone, and as root it gives up its rights before anything else; from then on it
imports nothing, since its interpreter may lie where the server's user cannot read.
"""

import contextlib
import json
import os
import select
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from types import FrameType

try:
    from ctypes import CDLL
except ImportError:  # an interpreter built without libffi: one safety net less
    CDLL = None  # type: ignore[assignment, misc]

LOOK_INTERVAL_SECONDS = 1.0
IMMEDIATE_LIMIT_SECONDS = 5.0
SET_PARENT_DEATH_SIGNAL = 1  # PR_SET_PDEATHSIG


@dataclass(frozen=True, slots=True)
class Task:
    """What a guard is told: whom to serve and what to run."""

    owner_pid: int
    uid: int | None
    gid: int | None
    initdb: tuple[str, ...]
    """Command that makes the data in `unfinished`; empty when they exist."""
    unfinished: str
    data: str
    password: str
    server: tuple[str, ...]
    temporary_folder: str | None
    """Folder outside the home that is removed at the end."""
    stop_limit_seconds: float

    def to_line(self) -> bytes:
        """Return the form that travels over the control socket."""
        return json.dumps(asdict(self)).encode() + b"\n"

    @classmethod
    def from_line(cls, line: bytes) -> "Task":
        """Read what `to_line` wrote."""
        fields = json.loads(line)
        fields["initdb"], fields["server"] = tuple(fields["initdb"]), tuple(fields["server"])
        return cls(**fields)


def server_processes(data: Path) -> tuple[int, ...]:
    """Return the PostgreSQL processes that work in `data`; always empty where there is no /proc."""
    found = []
    for entry in Path("/proc").glob("[0-9]*") if sys.platform == "linux" else ():
        # Processes of others, and those that have just ended, cannot be looked at.
        with contextlib.suppress(OSError):
            program = os.path.basename(os.readlink(entry / "exe")).removesuffix(" (deleted)")
            if program == "postgres" and os.readlink(entry / "cwd") == str(data):
                found.append(int(entry.name))
    return tuple(found)


def end_server_processes(data: Path, patience_seconds: float = IMMEDIATE_LIMIT_SECONDS) -> None:
    """End what a dead postmaster left behind; returns when it is gone.

    Only for the holder of the lock or when no postmaster lives: each process is sent SIGQUIT and,
    after `patience_seconds`, SIGKILL.
    """
    limit = time.monotonic() + patience_seconds
    sent: set[int] = set()
    while left := server_processes(data):
        late = time.monotonic() > limit
        for pid in left:
            if late or pid not in sent:
                sent.add(pid)
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL if late else signal.SIGQUIT)
        time.sleep(0.02)


class Guard:
    """Runs one server for one owner and ends with whichever ends first."""

    def __init__(self, control: socket.socket, lock: int) -> None:
        self._control = control
        self._lock = lock
        self._told_to_stop = False
        self._wakeups = self._watch_signals()
        self._task = Task.from_line(self._read_line())

    def run(self) -> int:
        """Return the exit code of the process: 0 when the server was stopped on demand."""
        self._give_up_rights()
        if self._task.initdb and not self._make_data():
            return 1
        server = self._spawn(self._task.server, signal.SIGINT)
        self._tell(event="started", pid=server.pid)
        self._wait_for(server)
        ended_alone = server.poll() is not None
        self._end(
            server,
            (signal.SIGINT, self._task.stop_limit_seconds),
            (signal.SIGQUIT, IMMEDIATE_LIMIT_SECONDS),
        )
        end_server_processes(Path(self._task.data))
        if self._task.temporary_folder is not None:
            _remove_tree(Path(self._task.temporary_folder))
        self._tell(event="ended", code=server.returncode)
        return 1 if ended_alone else 0

    def _make_data(self) -> bool:
        """Make the data beside their place and move them there: they exist whole or not at all."""
        unfinished = Path(self._task.unfinished)
        password_file = unfinished.with_name("initial-password")
        _remove_tree(unfinished)
        password_file.unlink(missing_ok=True)
        password_file.touch(mode=0o600)
        password_file.write_text(self._task.password)
        initdb = self._spawn(self._task.initdb, signal.SIGTERM)
        self._wait_for(initdb)
        asked = initdb.poll() is None
        self._end(initdb, (signal.SIGTERM, IMMEDIATE_LIMIT_SECONDS))
        password_file.unlink(missing_ok=True)
        if asked or initdb.returncode != 0:
            _remove_tree(unfinished)
            self._tell(event="initdb failed", code=initdb.returncode)
            return False
        unfinished.rename(self._task.data)
        return True

    def _spawn(
        self, argv: Sequence[str], at_guards_death: signal.Signals
    ) -> "subprocess.Popen[bytes]":
        return subprocess.Popen(  # noqa: S603 - the owner's own command
            argv,
            stdin=subprocess.DEVNULL,
            pass_fds=(self._lock,),
            preexec_fn=_die_with_parent(at_guards_death),
        )

    def _wait_for(self, child: "subprocess.Popen[bytes]") -> None:
        """Return when the child has ended, or has to."""
        while child.poll() is None and not self._must_stop():
            ready, _, _ = select.select(
                [self._control, self._wakeups], [], [], LOOK_INTERVAL_SECONDS
            )
            if self._wakeups in ready:
                self._wakeups.recv(4096)
            if self._control in ready:
                # A line or the end of the stream: both mean stop.
                self._told_to_stop = True

    def _must_stop(self) -> bool:
        return self._told_to_stop or os.getppid() != self._task.owner_pid

    @staticmethod
    def _end(child: "subprocess.Popen[bytes]", *steps: tuple[signal.Signals, float]) -> None:
        for how, patience_seconds in steps:
            if child.poll() is None:
                child.send_signal(how)
                with contextlib.suppress(subprocess.TimeoutExpired):
                    child.wait(patience_seconds)
        if child.poll() is None:
            child.kill()
            child.wait()

    def _give_up_rights(self) -> None:
        if self._task.uid is not None and self._task.gid is not None:
            os.setgroups([])
            os.setgid(self._task.gid)
            os.setuid(self._task.uid)
        os.umask(0o077)

    def _watch_signals(self) -> socket.socket:
        ours, pythons = socket.socketpair()
        for end in (ours, pythons):
            end.setblocking(False)
        signal.set_wakeup_fd(pythons.detach())
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, self._on_stop_signal)
        signal.signal(signal.SIGCHLD, lambda _number, _frame: None)
        return ours

    def _on_stop_signal(self, _number: int, _frame: FrameType | None) -> None:
        self._told_to_stop = True

    def _read_line(self) -> bytes:
        line = b""
        while not line.endswith(b"\n"):
            part = self._control.recv(65536)
            if not part:
                sys.exit(1)
            line += part
        return line

    def _tell(self, **event: object) -> None:
        with contextlib.suppress(OSError):  # the owner is gone: nobody to tell
            self._control.sendall(json.dumps(event).encode() + b"\n")


def _die_with_parent(how: signal.Signals) -> Callable[[], None] | None:
    if sys.platform != "linux" or CDLL is None:
        return None
    guard, set_option = os.getpid(), CDLL(None).prctl

    def in_child() -> None:
        set_option(SET_PARENT_DEATH_SIGNAL, int(how))
        if os.getppid() != guard:
            os._exit(1)

    return in_child


def _remove_tree(folder: Path) -> None:
    if not folder.exists():
        return
    for parent, folders, files in os.walk(folder, topdown=False):
        for name in files:
            os.unlink(os.path.join(parent, name))
        for name in folders:
            os.rmdir(os.path.join(parent, name))
    folder.rmdir()


def main(control_number: str, lock_number: str, own_lock_number: str) -> int:
    """Serve one owner over the given file descriptors."""
    control = socket.socket(fileno=int(control_number))
    control.set_inheritable(False)
    os.set_inheritable(int(own_lock_number), False)
    return Guard(control, int(lock_number)).run()


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
