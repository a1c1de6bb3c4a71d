"""Reading the meters: CPU of process trees, and the server's own counters."""

import asyncio
import os
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Self

import asyncpg
import psutil

type Connection = asyncpg.Connection[asyncpg.Record]


def machine_cpu_seconds() -> float:
    """Return the CPU time that the whole machine has spent on work since it started."""
    spent = psutil.cpu_times()
    idle = spent.idle + getattr(spent, "iowait", 0.0)
    # Linux counts the time of guests a second time, within user and nice.
    guests = getattr(spent, "guest", 0.0) + getattr(spent, "guest_nice", 0.0)
    return sum(spent) - idle - guests


@dataclass(frozen=True, slots=True)
class Processes:
    """CPU seconds of every process (with the children it has reaped), and who its parent is."""

    spent: dict[int, float]
    children: dict[int, list[int]]

    @classmethod
    def now(cls) -> Self:
        spent: dict[int, float] = {}
        children: dict[int, list[int]] = {}
        for process in psutil.process_iter(["pid", "ppid", "cpu_times"]):
            if (cpu := process.info["cpu_times"]) is not None:
                spent[process.pid] = sum(cpu[:4])
                children.setdefault(process.info["ppid"], []).append(process.pid)
        return cls(spent, children)

    def tree(self, root: int) -> float:
        """Return the CPU seconds of `root` and everything below it."""
        below = sum(self.tree(child) for child in self.children.get(root, ()))
        return self.spent.get(root, 0.0) + below


@dataclass(frozen=True, slots=True)
class Reading:
    """All meters at one moment."""

    at: float
    wal_bytes: int
    commits: int
    server_cpu: float
    workers_cpu: float
    bench_cpu: float
    machine_cpu: float


@dataclass(slots=True)
class Meter:
    """Reads the meters of one server.

    The bench itself, the server and all drivers are one process tree, so what the machine spent
    beyond that tree is somebody else's work.
    """

    connection: Connection
    server_pid: int
    own_pid: int = field(default_factory=os.getpid)

    async def read(self, database: str, worker_pids: Iterable[int] = ()) -> Reading:
        """Read every meter; commits are those of `database`."""
        row = await self.connection.fetchrow(
            "select (pg_current_wal_insert_lsn() - '0/0'::pg_lsn)::bigint as wal_bytes,"
            " coalesce((select xact_commit from pg_stat_database where datname = $1), 0)"
            " as commits",
            database,
        )
        if row is None:
            raise LookupError("the server answered a select of constants with no row")
        seen = Processes.now()
        return Reading(
            at=time.time(),
            wal_bytes=row["wal_bytes"],
            commits=row["commits"],
            server_cpu=seen.tree(self.server_pid),
            workers_cpu=sum(seen.tree(pid) for pid in worker_pids),
            bench_cpu=seen.tree(self.own_pid),
            machine_cpu=machine_cpu_seconds(),
        )


def foreign_cores(before: Reading, after: Reading) -> float:
    """Return how many cores were kept busy by anything that is not this benchmark."""
    elapsed = after.at - before.at
    others = (after.machine_cpu - before.machine_cpu) - (after.bench_cpu - before.bench_cpu)
    return max(0.0, others / elapsed)


async def wait_for_quiet(limit_seconds: float, quiet_cores: float = 0.2) -> None:
    """Return when the machine uses less than `quiet_cores` for a second, or after the limit."""
    deadline = time.monotonic() + limit_seconds
    while time.monotonic() < deadline:
        before, began = machine_cpu_seconds(), time.monotonic()
        await asyncio.sleep(1.0)
        if machine_cpu_seconds() - before < quiet_cores * (time.monotonic() - began):
            return


async def killed_tuples(dsn: str) -> int:
    """Return how many row versions were updated or deleted in the user tables of a database.

    The count does not shrink when vacuum has come by, and it has no delay once the sessions that
    did the work are closed.
    """
    connection = await asyncpg.connect(dsn)
    try:
        return int(
            await connection.fetchval(
                "select coalesce(sum(n_tup_upd + n_tup_del), 0)::bigint from pg_stat_user_tables"
            )
        )
    finally:
        await connection.close()
