"""Sessions that speak to the engine one statement at a time: a test decides what overlaps."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import asyncpg

from support.postgres import Connect, Database

QUEUE = "q"
LANE_LOCK = "hashtext('awa')"


@dataclass(frozen=True)
class Taken:
    """What one claim call took: (claim id, slot, lane number) by the job's own number `n`."""

    jobs: dict[int, tuple[int, int, int]]
    in_flight: bool


class Engine:
    """The engine of one database, driven by hand."""

    def __init__(self, database: Database, connect: Connect) -> None:
        self.database = database
        self._connect = connect
        self.worker = 0
        self.lane = 0
        self._token = 100

    async def open(self) -> "Engine":
        """Register a worker and the lane of the tests' queue."""
        self.admin = await self.session()
        self.worker = await self.admin.fetchval(
            "select awa.register_worker_v1('test', '0', 'host', 1, array[$1::text], '{k}', '90s')",
            QUEUE,
        )
        self.lane = await self.admin.fetchval("select awa.register_lane_v1($1, 2::smallint)", QUEUE)
        return self

    async def session(self) -> asyncpg.Connection:
        """Open a session."""
        return await self._connect(self.database.dsn)

    async def enqueue(
        self, session: asyncpg.Connection, *numbers: int, kind: str = "k"
    ) -> list[int]:
        """Enqueue one job for each number, in the session's transaction if it has one."""
        ids: list[int] = await session.fetchval(
            "select awa.enqueue_v1($1, 2::smallint, array[$2::text],"
            " array(select jsonb_build_object('n', n) from unnest($3::int[]) n))",
            QUEUE, kind, list(numbers),
        )  # fmt: skip
        return ids

    async def claim(self, session: asyncpg.Connection | None = None, limit: int = 100) -> Taken:
        """Claim for the worker."""
        self._token += 1
        rows = await (session or self.admin).fetch(
            "select claim_id, slot, seqs, args, in_flight"
            " from awa.claim_v1($1, $2, array[$3::text], array[$4::int], '{0}', '{60}', '{k}')",
            self.worker, self._token, QUEUE, limit,
        )  # fmt: skip
        jobs = {}
        for row in rows[:-1]:
            for seq, args in zip(row["seqs"], row["args"], strict=True):
                jobs[int(args.split(":")[1].strip(" }"))] = (row["claim_id"], row["slot"], seq)
        return Taken(jobs, rows[-1]["in_flight"])

    async def claim_everything(self, rounds: int = 10) -> set[int]:
        """Claim until nothing comes any more."""
        taken: set[int] = set()
        for _ in range(rounds):
            taken |= set((await self.claim()).jobs)
        return taken

    async def rotate(self) -> None:
        """Enter the next slot; the current one must not be empty."""
        assert (
            await self.admin.fetchval("select awa.rotate_v1('1h', 1e15::bigint, true)") == "rotated"
        )

    async def holes(self) -> tuple[int, int]:
        """Return how many ranges the old and the new generation of holes have."""
        row = await self.admin.fetchrow(
            "select coalesce((select count(*) from unnest(holes_old)), 0) as old,"
            " coalesce((select count(*) from unnest(holes_new)), 0) as new"
            " from awa.claim_batches where lane_id = $1 order by claim_id desc limit 1",
            self.lane,
        )
        assert row is not None
        return row["old"], row["new"]

    async def change(self, function: str, *changes: tuple[str, str]) -> None:
        """Replace text in a function of the schema; every text must be there exactly once."""
        source: str = await self.admin.fetchval(
            "select pg_get_functiondef(('awa.' || $1)::regproc)", function
        )
        for old, new in changes:
            assert source.count(old) == 1, f"{function} has {source.count(old)} times: {old}"
            source = source.replace(old, new)
        await self.admin.execute(source)

    async def waits_for_lock(self, pid: int) -> None:
        """Return when the session with this pid waits for a lock."""
        await holds(
            lambda: self.admin.fetchval(
                "select exists (select from pg_locks where pid = $1 and not granted)", pid
            )
        )


async def holds(question: Callable[[], Awaitable[bool]]) -> None:
    """Ask the database until it says yes; ten seconds at most."""
    async with asyncio.timeout(10):
        for _ in iter(int, 1):
            if await question():
                return


type MakeEngine = Callable[[], Awaitable[Engine]]


async def begun(session: asyncpg.Connection) -> Any:
    """Begin a transaction and take its id, as every producer does first."""
    transaction = session.transaction()
    await transaction.start()
    await session.fetchval("select pg_current_xact_id()::text")
    return transaction
