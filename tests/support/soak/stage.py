"""Everything that a soak runs: the server, the proxies before it, and processes that come back."""

import asyncio
import math
import os
import signal
import sys
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import asyncpg
import psutil

from awa_migrations import migrate
from support.pgwire import PostgresProxy
from support.pooler import Pool
from support.postgres import DURABLE_SETTINGS, SUPERUSER, Server
from support.soak.disk import Disk
from support.soak.handlers import STEADY
from support.soak.knobs import environment

SETTINGS = {
    **DURABLE_SETTINGS,
    "max_connections": "60",
    "track_functions": "pl",
    "wal_keep_size": "512MB",
    "wal_retrieve_retry_interval": "200ms",
}
DATABASE = "soak"
COMMAND, PROCESSES = "command", 2
POOLED_CONNECTIONS = 8
CALLS = {
    "hand_back_unknown": "hand-backs of unknown kinds",
    "leave_holes": "holes left to the leader",
    "defer_unknown": "moves from holes",
}
"""What is counted of the engine, by the function that is called once each time."""
STOP_LIMIT_SECONDS = 40.0
STATEMENT_TIMEOUT_SECONDS = "5"


TAKE_CALLS = """
select funcname, calls, pg_stat_reset_single_function_counters(funcid)
  from pg_stat_user_functions where schemaname = 'awa' and funcname = any ($1)
"""


@dataclass(eq=False)
class Member:
    """One process of the soak, behind a proxy of its own; it is started again when it ends."""

    module: str
    arguments: tuple[object, ...]
    proxy: PostgresProxy
    environment: dict[str, str] = field(default_factory=dict)
    process: asyncio.subprocess.Process | None = None
    starts: int = 0
    may_end: bool = False
    """Whether it is not started again after it has ended by itself."""

    @property
    def is_running(self) -> bool:
        """Whether the process exists."""
        return self.process is not None and self.process.returncode is None

    @property
    def pids(self) -> list[int]:
        """The processes that run jobs, or whatever it is that this member does."""
        if self.process is None or not self.is_running:
            return []
        return _children(self.process.pid) if self.is_command else [self.process.pid]

    @property
    def is_command(self) -> bool:
        """Whether it is an `awa worker`, a supervisor with processes of its own."""
        return self.module == COMMAND

    def words(self, dsn: str, folder: Path) -> list[str]:
        """Return what to start it with."""
        if self.is_command:
            words = ["awa", "worker", "support.soak.app", "--processes", str(PROCESSES)]
        else:
            words = [f"support.soak.{self.module}", dsn, str(folder), *map(str, self.arguments)]
        return [sys.executable, "-m", *words]

    def variables(self, dsn: str, folder: Path) -> dict[str, str]:
        """Return the variables that it is started with."""
        if not self.is_command:
            return self.environment
        (seconds,) = self.arguments
        return {
            **environment(float(str(seconds))), **self.environment,
            "AWA_DATABASE_URL": dsn, "AWA_STATE_FOLDER": str(folder / "state"),
            "SOAK_FOLDER": str(folder),
        }  # fmt: skip

    @property
    def is_steady(self) -> bool:
        """Whether it is the worker that nobody kills."""
        return STEADY in self.environment


def _children(pid: int) -> list[int]:
    with suppress(psutil.NoSuchProcess):
        return [
            child.pid
            for child in psutil.Process(pid).children()
            if child.status() != psutil.STATUS_ZOMBIE
        ]
    return []


class Stage:
    """The server and every process of a soak."""

    def __init__(self, folder: Path, binaries: Path, retention_seconds: float) -> None:
        self.retention_seconds = retention_seconds
        self.folder = folder
        self.disk = Disk(folder / "disk")
        self.server = Server(folder / "server", binaries, SETTINGS)
        self.generation = 0
        self.until = math.inf
        """Until when faults may last, by the machine's steady clock."""
        self.workers: list[Member] = []
        self.producers: list[Member] = []
        self.manager: Member | None = None
        self.counts: Counter[str] = Counter()
        self.worst_updates = 0
        self._proxies: list[PostgresProxy] = []
        self._pool: Pool | None = None
        self._to_pool: list[PostgresProxy] = []
        self._leaving: list[Member] = []
        self._nanny: asyncio.Task[None] | None = None

    @property
    def dsn(self) -> str:
        """Where the database is now, past all proxies."""
        return self.server.dsn(DATABASE)

    @property
    def members(self) -> list[Member]:
        """Every process."""
        managers = [] if self.manager is None else [self.manager]
        return [*self.producers, *managers, *self.workers]

    def space(self, generation: int) -> Path:
        """Where the database's files are in a generation of the server."""
        return self.disk.folder / f"space-{generation}"

    async def set_up(self) -> None:
        """Start the server and make the database, on the small disk if there is one."""
        await asyncio.to_thread(self.disk.mount)
        await asyncio.to_thread(self.server.create)
        await asyncio.to_thread(self.server.start)
        place = ""
        async with self.session("postgres") as session:
            if self.disk.mounted:
                self.make_space(0)
                await session.execute(f"create tablespace soak location '{self.space(0)}'")
                place = "tablespace soak"
            await session.execute(f"create database {DATABASE} {place}")
        await migrate(self.dsn)

    def make_space(self, generation: int) -> None:
        """Make the folder of a tablespace, for the user that the server runs as."""
        space = self.space(generation)
        space.mkdir()
        owner = (self.server.folder).stat()
        os.chown(space, owner.st_uid, owner.st_gid)

    @asynccontextmanager
    async def session(self, database: str = DATABASE) -> AsyncIterator[Any]:
        """Lend a session straight to the server, one that may write whatever the default is."""
        session = await asyncpg.connect(
            self.server.dsn(database), server_settings={"default_transaction_read_only": "off"}
        )
        try:
            yield session
        finally:
            with suppress(asyncpg.PostgresError, OSError, asyncpg.InterfaceError, TimeoutError):
                await session.close(timeout=5)

    async def configure(self, name: str, value: str | None) -> None:
        """Change a setting of the running server, or set it back."""
        change = f"set {name} = '{value}'" if value is not None else f"reset {name}"
        async with self.session("postgres") as session:
            await session.execute(f"alter system {change}")
            await session.execute("select pg_reload_conf()")

    def proxy(self) -> PostgresProxy:
        """Start a proxy to the server."""
        proxy = PostgresProxy(self.server.host, self.server.port)
        proxy.start()
        self._proxies.append(proxy)
        return proxy

    def proxy_to_pool(self) -> PostgresProxy:
        """Start a proxy to a PgBouncer before the server."""
        if self._pool is None:
            # Who waits in it is turned away soon: one more fault.
            self._pool = Pool(
                self.folder / "pgbouncer", self.proxy(), "transaction", POOLED_CONNECTIONS,
                wait_seconds=2,
            )  # fmt: skip
        proxy = PostgresProxy("127.0.0.1", self._pool.port)
        proxy.start()
        self._to_pool.append(proxy)
        return proxy

    def lead_to(self, server: Server) -> None:
        """Let every proxy lead to another server from now on."""
        self.server = server
        for proxy in self._proxies:
            proxy.lead_to(server.host, server.port)
            proxy.cut()

    async def start(self, member: Member) -> None:
        """Start the process of a member."""
        member.starts += 1
        dsn = f"postgresql://{SUPERUSER}@{member.proxy.address}/{DATABASE}"
        with (self.folder / f"{member.module}.log").open("ab") as log:
            member.process = await asyncio.create_subprocess_exec(
                *member.words(dsn, self.folder), stdout=log, stderr=log,
                env={
                    **os.environ, "PYTHONPATH": str(Path(__file__).parents[2]),
                    "AWA_STATEMENT_TIMEOUT_SECONDS": STATEMENT_TIMEOUT_SECONDS,
                    "AWA_LOG_LEVEL": "warning",
                    **member.variables(dsn, self.folder),
                },
            )  # fmt: skip

    def keep_up(self) -> None:
        """Start whoever has ended, until `let_be`."""
        self._nanny = asyncio.create_task(self._restart())

    async def let_be(self, members: list[Member]) -> None:
        """End processes for good, as a deploy does it."""
        self._leaving.extend(members)
        await asyncio.gather(*(self.end(member) for member in members))

    async def end(self, member: Member) -> bool:
        """Ask a process to stop; one that does not is counted and killed. True when it stopped."""
        process = member.process
        if process is None or not member.is_running:
            return False
        with suppress(ProcessLookupError):
            process.terminate()
        try:
            async with asyncio.timeout(STOP_LIMIT_SECONDS):
                await process.wait()
        except TimeoutError:
            self.counts[f"{member.module} did not stop"] += 1
            await self.kill(member)
            return False
        return True

    async def kill(self, member: Member) -> bool:
        """End a process from one instruction to the next; True when that is how it ended."""
        if member.process is None or not member.is_running:
            return False
        with suppress(ProcessLookupError):
            member.process.kill()
        return await member.process.wait() == -signal.SIGKILL

    async def look_at_statistics(self) -> None:
        """Read what the server counted: it forgets that when it is killed.

        These are rows of partitioned tables that were updated or deleted since the start, and
        calls of functions since the last look.
        """
        async with self.session() as session:
            await session.execute("select pg_stat_force_next_flush()")
            for row in await session.fetch(TAKE_CALLS, list(CALLS)):
                self.counts[CALLS[row["funcname"]]] += row["calls"]
            found = await session.fetchval(
                "select coalesce(sum(n_tup_upd + n_tup_del), 0) from pg_stat_user_tables s"
                " join pg_class c on c.oid = s.relid where c.relispartition"
            )
        self.worst_updates = max(self.worst_updates, int(found))

    async def tear_down(self) -> None:
        """End everything at once."""
        if self._nanny is not None:
            self._nanny.cancel()
        for member in self.members:
            await self.kill(member)
        for proxy in self._to_pool:
            await asyncio.to_thread(proxy.stop)
        if self._pool is not None:
            await asyncio.to_thread(self._pool.stop)
        for proxy in self._proxies:
            await asyncio.to_thread(proxy.stop)
        await asyncio.to_thread(self.remove, self.server)
        await asyncio.to_thread(self.disk.unmount)

    def remove(self, server: Server) -> None:
        """End a server and remove its files; its log stays."""
        server.kill()
        if (server.folder / "log").exists():
            (self.folder / f"{server.folder.name}.log").write_text(server.log)
        server.destroy()

    async def _restart(self) -> None:
        while True:
            for member in self.members:
                if member in self._leaving:
                    continue
                if member.is_running or member.process is None:
                    continue
                if member.may_end and member.process.returncode == 0:
                    continue
                self.counts[f"{member.module} started again"] += 1
                await self.start(member)
            await asyncio.sleep(0.2)
