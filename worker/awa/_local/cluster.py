"""What is known about one home: its lock, its password, who runs its server.

Whoever holds the lock may start a server there. It is an open file that the guard and every
server process inherit (see `guard`), so it is free exactly when nobody uses the data.
"""

import fcntl
import json
import os
import re
import secrets
import socket
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from urllib.parse import quote

from awa._local.account import running_as_root
from awa._local.binaries import Binaries
from awa._local.errors import PasswordLost
from awa._local.place import Place

SUPERUSER = "awa"
DATABASE = "awa"
HOST = "127.0.0.1"
LOG_LIMIT_BYTES = 10 << 20
# The shortest limit of the systems we run on (macOS: 104 with the final NUL).
SOCKET_PATH_LIMIT_BYTES = 103
# A comma ends a host in a connection string, and not every client decodes the rest well.
PLAIN_PATH = re.compile(r"[A-Za-z0-9._/-]+")
READY = "ready"


@dataclass(frozen=True, slots=True)
class Owner:
    """The process that started the server, as it wrote itself down."""

    pid: int
    guard_pid: int
    program: str
    major: int
    port: int
    version: str
    binaries: str

    def __str__(self) -> str:
        return f"{self.program} (process {self.pid})"


@dataclass(frozen=True, slots=True)
class Postmaster:
    """What `postmaster.pid` says."""

    pid: int
    port: int
    socket_folder: Path
    is_ready: bool


@dataclass(frozen=True, slots=True)
class Address:
    """How to connect. Its text form has no password."""

    port: int
    socket_folder: Path
    password: str

    def __repr__(self) -> str:
        return f"Address(port={self.port}, socket_folder={str(self.socket_folder)!r})"

    @property
    def socket_dsn(self) -> str:
        """Connection string over the Unix socket, the fastest way."""
        return (
            f"postgresql://{self._login}@/{DATABASE}"
            f"?host={quote(str(self.socket_folder), safe='/')}&port={self.port}"
        )

    @property
    def tcp_dsn(self) -> str:
        """Connection string over TCP, for programs that know nothing else."""
        return f"postgresql://{self._login}@{HOST}:{self.port}/{DATABASE}"

    @property
    def _login(self) -> str:
        return f"{SUPERUSER}:{quote(self.password, safe='')}"


@dataclass(frozen=True, slots=True)
class Cluster:
    """The files of one home."""

    place: Place

    @property
    def lock_file(self) -> Path:
        """The file whose lock says that somebody uses the data."""
        return self.place.home / "lock"

    @property
    def _guard_lock_file(self) -> Path:
        return self.place.home / "guard.lock"

    @property
    def password_file(self) -> Path:
        """The password of the superuser; only its owner may read it."""
        return self.place.home / "password"

    @property
    def log(self) -> Path:
        """What initdb, the server and the guard have said."""
        return self.place.home / "server.log"

    @property
    def service_file(self) -> Path:
        """How to connect, in the form that psql and every other libpq program reads."""
        return self.place.home / "service.conf"

    @property
    def _owner_file(self) -> Path:
        return self.place.home / "owner.json"

    def try_lock(self) -> int | None:
        """Return the locked file, or None when somebody uses the data."""
        descriptor = open_private(self.lock_file, os.O_RDWR)
        if _try_flock(descriptor, fcntl.LOCK_EX):
            return descriptor
        os.close(descriptor)
        return None

    def lock_for_guard(self) -> int:
        """Return the locked file that a guard holds alone; for the holder of the lock."""
        descriptor = open_private(self._guard_lock_file, os.O_RDWR)
        fcntl.flock(descriptor, fcntl.LOCK_EX)  # no guard lives: free, or somebody just looks
        return descriptor

    def is_in_use(self) -> bool:
        """Say whether any process uses the data."""
        return _is_locked(self.lock_file)

    def is_guarded(self) -> bool:
        """Say whether a guard lives. A process id would not tell: it may be a zombie's, or new."""
        return _is_locked(self._guard_lock_file)

    def password(self) -> str:
        """Return the password; a new one is made as long as there are no data."""
        try:
            return self.password_file.read_text().strip()
        except FileNotFoundError:
            if self.place.data_majors():
                raise PasswordLost(self.password_file) from None
        password = secrets.token_urlsafe(32)
        write_private(self.password_file, password + "\n")
        return password

    def read_owner(self) -> Owner | None:
        """Return who started the server last; it need not live any more."""
        try:
            return Owner(**json.loads(self._owner_file.read_text()))
        except (FileNotFoundError, ValueError, TypeError):
            return None  # never started, or cut off while writing

    def forget_owner(self) -> None:
        """Remove the entry of the last owner."""
        self._owner_file.unlink(missing_ok=True)

    def write_owner(self, guard_pid: int, binaries: Binaries, address: Address) -> Owner:
        """Write down this process as the owner, and how to connect for libpq programs."""
        owner = Owner(
            pid=os.getpid(),
            guard_pid=guard_pid,
            program=Path(sys.argv[0]).name or "python",  # no more: arguments may hold secrets
            major=binaries.major,
            port=address.port,
            version=binaries.version,
            binaries=str(binaries.folder),
        )
        write_private(self._owner_file, json.dumps(asdict(owner)) + "\n")
        write_private(
            self.service_file,
            f"[{DATABASE}]\nhost={address.socket_folder}\nport={address.port}\n"
            f"user={SUPERUSER}\npassword={address.password}\ndbname={DATABASE}\n",
        )
        return owner

    def read_postmaster(self, major: int) -> Postmaster | None:
        """Return what the server says of itself; None when it says nothing (yet)."""
        try:
            lines = (self.place.data(major) / "postmaster.pid").read_text().splitlines()
            pid, port, folder, state = int(lines[0]), int(lines[3]), Path(lines[4]), lines[7]
        except (FileNotFoundError, ValueError, IndexError):
            return None
        return Postmaster(pid, port, folder, state.strip() == READY)

    def open_log(self) -> int:
        """Return the log opened for appending; a long one is set aside first."""
        with suppress(FileNotFoundError):
            if self.log.stat().st_size > LOG_LIMIT_BYTES:
                self.log.replace(self.log.with_suffix(".log.1"))
        return open_private(self.log, os.O_WRONLY | os.O_APPEND)

    def log_from(self, offset: int) -> str:
        """Return what was logged after the first `offset` bytes."""
        with self.log.open("rb") as file:
            file.seek(offset)
            return file.read().decode(errors="replace")

    def make_folders(self, major: int) -> Path:
        """Make what the server's user writes to, and return the folder for the socket."""
        user = self.place.user
        folders = [self.place.major_folder(major)]
        socket_folder = folders[0] / "run"
        if not _can_hold_socket(socket_folder):
            socket_folder = self._short_folder()
        folders.append(socket_folder)
        for folder in folders:
            folder.mkdir(mode=0o700, exist_ok=True)
            if user is not None:
                # Not through a link: the server's user can put one into its own folder.
                os.chown(folder, user.uid, user.gid, follow_symlinks=False)
        return socket_folder

    def _short_folder(self) -> Path:
        """Return a temporary folder with a short path; one that a crash has left is used again."""
        note = self.place.home / "socket-folder"
        with suppress(FileNotFoundError):
            known = Path(note.read_text().strip())
            uid = os.geteuid() if self.place.user is None else self.place.user.uid
            if known.is_dir() and not known.is_symlink() and known.stat().st_uid == uid:
                return known
        base = tempfile.gettempdir()
        if len(os.fsencode(base)) > SOCKET_PATH_LIMIT_BYTES // 2:
            base = "/tmp"  # noqa: S108 - the folder inside has an unpredictable name
        made = Path(tempfile.mkdtemp(prefix="awa-", dir=base))
        write_private(note, f"{made}\n")
        return made


def _can_hold_socket(folder: Path) -> bool:
    """Say whether a socket's path fits, and every client understands it in a connection string."""
    length = len(os.fsencode(folder / ".s.PGSQL.65535"))
    return length <= SOCKET_PATH_LIMIT_BYTES and PLAIN_PATH.fullmatch(str(folder)) is not None


def open_private(file: Path, flags: int) -> int:
    """Open a file that only its owner can read; it is made when missing."""
    descriptor = os.open(file, flags | os.O_CREAT | os.O_NOFOLLOW, 0o600)
    _give_to_owner(descriptor, file.parent)
    return descriptor


def write_private(file: Path, text: str) -> None:
    """Write a file as a whole that only its owner can read."""
    descriptor, name = tempfile.mkstemp(prefix=f".{file.name}-", dir=file.parent)
    with os.fdopen(descriptor, "w") as scratch:
        _give_to_owner(descriptor, file.parent)
        scratch.write(text)
    os.replace(name, file)


def _give_to_owner(descriptor: int, folder: Path) -> None:
    """Let root leave nothing behind that the owner of the folder could not use later."""
    if running_as_root():
        owner = folder.stat()
        os.fchown(descriptor, owner.st_uid, owner.st_gid)


def _try_flock(descriptor: int, how: int) -> bool:
    try:
        fcntl.flock(descriptor, how | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _is_locked(file: Path) -> bool:
    with closing(open_private(file, os.O_RDWR)) as descriptor:
        return not _try_flock(descriptor, fcntl.LOCK_SH)


def is_alive(pid: int) -> bool:
    """Say whether a process has this id."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def is_free(port: int) -> bool:
    """Say whether nobody listens on the port of 127.0.0.1."""
    with socket.socket() as probe:
        # As the server does: a port whose last connection has just been closed is free.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError:
            return False
    return True


def free_port() -> int:
    """Return a port of 127.0.0.1 that nobody listened on just now."""
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        return int(probe.getsockname()[1])


@contextmanager
def closing(descriptor: int) -> Iterator[int]:
    """Close a file descriptor at the end."""
    try:
        yield descriptor
    finally:
        os.close(descriptor)
