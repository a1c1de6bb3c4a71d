"""Sessions that speak to the engine one statement at a time: a test decides what overlaps."""

import asyncio
import json
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import asyncpg

from awa._store import jobs
from awa._store.attempts import Claim, Flush, GivenBack, SealedAttempt
from awa._store.database import load_statements
from awa._store.jobs import ClaimRequest
from awa.outcome import COMPLETED, Outcome
from awa.unique import mask_of
from support.postgres import Connect, Database

QUEUE = "q"
LANE_LOCK = "hashtext('awa')"


@dataclass(frozen=True)
class Taken:
    """What one claim call took: (claim id, slot, lane number) by the job's own number `n`."""

    jobs: dict[int, tuple[int, int, int]]
    in_flight: bool


@dataclass(frozen=True)
class Held:
    """What a worker holds: attempts by job, in the order in which they were handed out."""

    attempts: dict[int, tuple[Claim, int]]
    in_flight: bool = False
    passed: int = 0

    @property
    def ids(self) -> list[int]:
        """Return the jobs."""
        return list(self.attempts)

    def body(self, job_id: int) -> Any:
        """Return what came with a job: id, kind, created, due, attempt, max attempts, payload."""
        claim, seq = self.attempts[job_id]
        return claim.items[claim.seqs.index(seq)]

    def part(self, ids: Iterable[int]) -> "Held":
        """Return some of it."""
        return Held({job_id: self.attempts[job_id] for job_id in ids})


@dataclass(frozen=True)
class Unique:
    """A unique key and the states in which a job holds it."""

    states: tuple[str, ...]
    key: bytes = b"k" * 16
    mask: int = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "mask", mask_of(self.states))


class Engine:
    """The engine of one database, driven by hand."""

    def __init__(self, database: Database, connect: Connect) -> None:
        self.database = database
        self.sql = load_statements("awa")
        self._connect = connect
        self._sessions: list[asyncpg.Connection] = []
        self.worker = 0
        self.lane = 0
        self._token = 100

    async def open(self) -> "Engine":
        """Register a worker and the lane of the tests' queue."""
        self.admin = await self.session()
        self.worker = await self.admin.fetchval(
            "select awa.register_worker_v1('test', '0', 'host', 1, array[$1::text], '{k}', '1h')",
            QUEUE,
        )
        self.lane = await self.admin.fetchval("select awa.register_lane_v1($1, 2::smallint)", QUEUE)
        return self

    async def session(self) -> asyncpg.Connection:
        """Open a session."""
        session = await self._connect(self.database.dsn)
        self._sessions.append(session)
        return session

    async def publish_statistics(self) -> None:
        """Have every session report to the server's counters what it did until now."""
        for session in self._sessions:
            await session.execute("select pg_stat_force_next_flush()")
        await self.admin.execute("select pg_stat_clear_snapshot()")

    async def enqueue(  # noqa: PLR0913 - the options of a job
        self,
        session: asyncpg.Connection,
        *numbers: int,
        kind: str = "k",
        queue: str = QUEUE,
        priority: int = 2,
        run_at: datetime | None = None,
        unique: Unique | None = None,
        max_attempts: int | None = None,
        payload: Mapping[str, Any] | None = None,
        skip: bool = False,
    ) -> list[int]:
        """Enqueue one job for each number, in the session's transaction if it has one."""
        count = len(numbers)
        ids: list[int] = await session.fetchval(
            self.sql["enqueue"], queue, priority, [kind],
            [json.dumps({"n": number}) for number in numbers],
            None if run_at is None else [run_at] * count,
            None if max_attempts is None else [max_attempts] * count,
            None if payload is None else [json.dumps(payload)] * count,
            None if unique is None else [unique.key] * count,
            None if unique is None else [unique.mask] * count,
            skip,
        )  # fmt: skip
        return ids

    async def register(
        self,
        *,
        stale_after: str = "1 hour",
        kinds: Sequence[str] = ("k",),
        queues: Sequence[str] = (QUEUE,),
        name: str = "test",
    ) -> int:
        """Register another worker."""
        worker: int = await self.admin.fetchval(
            "select awa.register_worker_v1($1, '0', 'host', 1, $2, $3, $4::text::interval)",
            name, list(queues), list(kinds), stale_after,
        )  # fmt: skip
        return worker

    async def hold(
        self,
        session: asyncpg.Connection | None = None,
        *,
        worker: int | None = None,
        limit: int = 10_000,
        deadline: float = 0.0,
        aging: float = 60.0,
        kinds: Sequence[str] = ("k",),
        queues: Sequence[str] = (QUEUE,),
    ) -> Held:
        """Claim as a worker does; `limit`, `deadline` and `aging` are those of each queue."""
        self._token += 1
        count = len(queues)
        claims, beyond = await jobs.claim(
            session or self.admin, self.sql, worker or self.worker, self._token,
            ClaimRequest(
                tuple(queues), (limit,) * count, (deadline,) * count, (aging,) * count,
                tuple(kinds),
            ),
        )  # fmt: skip
        return Held(
            {
                item[0]: (claim, seq)
                for claim in claims
                for item, seq in zip(claim.items, claim.seqs, strict=True)
            },
            beyond.in_flight,
            beyond.passed,
        )

    async def finish(
        self,
        held: Held,
        outcome: Outcome | GivenBack = COMPLETED,
        *,
        session: asyncpg.Connection | None = None,
        outputs: Mapping[int, str] | None = None,
        progress: str | None = None,
        store_outputs: bool = True,
    ) -> set[int]:
        """End every attempt in one flush, outputs by job; return the jobs that were stale."""
        sealed = [
            SealedAttempt(claim, seq, outcome, (outputs or {}).get(job_id), progress)
            for job_id, (claim, seq) in held.attempts.items()
        ]
        return await self.flush(sealed, held, session=session, store_outputs=store_outputs)

    async def flush(
        self,
        sealed: list[SealedAttempt],
        held: Held,
        *,
        session: asyncpg.Connection | None = None,
        store_outputs: bool = True,
    ) -> set[int]:
        """Write a flush of attempts that are held; return the jobs that were stale."""
        if not sealed:
            return set()
        stale = await jobs.finish(
            session or self.admin, self.sql, Flush(sealed), store_outputs=store_outputs
        )
        places = {(claim.claim_id, seq): job_id for job_id, (claim, seq) in held.attempts.items()}
        return {places[place] for place in stale}

    async def drain(self) -> int:
        """Claim and complete until nothing is ready; return how many."""
        done = 0
        while True:
            held = await self.hold()
            if held.attempts:
                await self.finish(held)
                done += len(held.attempts)
            elif not (held.in_flight or held.passed):
                return done

    async def beat(
        self, worker: int, held: Iterable[Held] = (), started: Held | None = None, grace: str = "1h"
    ) -> tuple[bool, int]:
        """Send a heartbeat; return whether the worker lives and how much was given back."""
        row = await self._beat(worker, held, started, grace)
        return row["alive"], row["given_back"]

    async def beat_of(self, worker: int, held: Held) -> set[int]:
        """Send a heartbeat of a worker that runs all it holds; return the jobs it has lost."""
        row = await self._beat(worker, [held], held, "1h")
        places = {(claim.claim_id, seq): job_id for job_id, (claim, seq) in held.attempts.items()}
        lost = zip(row["ended_claims"] or (), row["ended_seqs"] or (), strict=True)
        return {places[place] for place in lost}

    async def _beat(
        self, worker: int, held: Iterable[Held], started: Held | None, grace: str
    ) -> asyncpg.Record:
        running = started.attempts.values() if started else ()
        row = await self.admin.fetchrow(
            "select * from awa.heartbeat_v1($1, $2, $3, $4, $5, $6::text::interval)",
            worker,
            sorted({claim.claim_id for one in held for claim, _ in one.attempts.values()}),
            [claim.slot for claim, _ in running],
            [claim.claim_id for claim, _ in running],
            [seq for _, seq in running],
            grace,
        )
        assert row is not None
        return row

    async def make_due(self) -> None:
        """Let every deferred job be due."""
        await self.admin.execute("update awa.deferred_jobs set run_at = now() - interval '1 s'")

    async def promote(self, limit: int = 10_000) -> int:
        """Make due jobs ready."""
        promoted: int = await self.admin.fetchval("select promoted from awa.promote_v1($1)", limit)
        return promoted

    async def rescue(self) -> dict[int, int]:
        """Take the work of dead workers; return how many of each."""
        rows = await self.admin.fetch("select * from awa.rescue_v1()")
        return {row["worker_id"]: row["rescued"] for row in rows}

    async def job(self, job_id: int) -> Any:
        """Return a job as it is, None when it is gone."""
        return await self.admin.fetchrow(self.sql["get_job_with_output"], job_id)

    async def state(self, job_id: int) -> str | None:
        """Return the state of a job, None when it is gone."""
        job = await self.job(job_id)
        return None if job is None else job["state"]

    async def errors(self, job_id: int) -> list[dict[str, Any]]:
        """Return the error entries of a job."""
        payload = (await self.job(job_id))["payload"]
        errors: list[dict[str, Any]] = json.loads(payload or "{}").get("errors", [])
        return errors

    async def counts(self, queue: str = QUEUE) -> dict[str, int]:
        """Return the counts of a queue by state, without those that are zero."""
        row = await self.admin.fetchrow(self.sql["queue_counts"], queue)
        assert row is not None
        states = set(row.keys()) - {"queue", "paused", "oldest_available_at", "unknown_kinds"}
        return {state: row[state] for state in sorted(states) if row[state]}

    async def holder(self, key: bytes = b"k" * 16) -> int | None:
        """Return the job that holds a unique key."""
        holder: int | None = await self.admin.fetchval(
            "select job_id from awa.job_unique_claims where unique_key = $1", key
        )
        return holder

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
        """Enter the next slot; the current one must not be empty.

        Tried again, as the leader does, while somebody who looks at the slot is in the way.
        """
        outcome = "locked"
        async with asyncio.timeout(10):
            while outcome == "locked":
                outcome = await self.admin.fetchval(
                    "select awa.rotate_v1('1h', 1e15::bigint, true)"
                )
        assert outcome == "rotated"

    async def rotate_anyway(self) -> str:
        """Try to enter the next slot, and say what happened; an empty one gets a job first."""
        size = "select pg_relation_size(format('awa.ready_entries_%s', to_char(slot, 'FM00')))"
        last = "from awa.ring_rotations order by generation desc limit 1"
        if not await self.admin.fetchval(f"{size} {last}"):
            await self.enqueue(self.admin, 0, queue="filler")
            await self.finish(await self.hold(queues=("filler",)))
        answer: str = await self.admin.fetchval("select awa.rotate_v1('1h', 1e15::bigint, true)")
        return answer

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


PAST = datetime(2020, 1, 1, tzinfo=UTC)
FUTURE = datetime(2100, 1, 1, tzinfo=UTC)
