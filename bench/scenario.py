"""The scenarios: what is done in each case, and which figures come out."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass

import asyncpg

from bench.contender import Facts, Run
from bench.crew import Crew
from bench.latency import latency_figures
from bench.measure import (
    PAYLOAD_BYTES,
    drain,
    enqueue,
    per_job,
    settle,
    total_wal,
    wait_for_jobs,
)
from bench.meter import Meter, foreign_cores, killed_tuples

HOUR = 3600.0
MONTH = 30 * 24 * HOUR
HOLD_MS = 10


@dataclass(frozen=True, slots=True)
class Sizes:
    """How much work each scenario does."""

    jobs: int = 50_000
    pinned_jobs: int = 200_000
    future_jobs: int = 1_000_000
    rate: int = 200
    seconds: float = 30.0


@dataclass(frozen=True, slots=True)
class Bench:
    """Everything that a case needs to run once: a fresh database, a driver, meters."""

    meter: Meter
    run: Run
    facts: Facts
    database: str
    sizes: Sizes


Measured = tuple[Mapping[str, float], float]
Measure = Callable[[Bench], Awaitable[Measured]]


@dataclass(frozen=True, slots=True)
class Case:
    """One line of a scenario's table.

    `future` asks for a database that already holds the configured number of future jobs.
    """

    name: str
    measure: Measure
    future: bool = False


def throughput(workers: int) -> Measure:
    """Enqueue in bulk, then drain with that many worker processes."""

    async def measure(bench: Bench) -> Measured:
        return await _life(bench, bench.sizes.jobs, workers)

    return measure


async def pinned(bench: Bench) -> Measured:
    """Drain beside a session that holds an old snapshot, so that vacuum can remove nothing."""
    async with _held_snapshot(bench.run.dsn):
        return await _life(bench, bench.sizes.pinned_jobs, workers=1)


async def unpinned(bench: Bench) -> Measured:
    """Drain as many jobs as `pinned`, without the snapshot."""
    return await _life(bench, bench.sizes.pinned_jobs, workers=1)


async def _life(bench: Bench, jobs: int, workers: int) -> Measured:
    """Enqueue and drain, and add what only the whole life of the jobs shows."""
    enqueued = await enqueue(bench.meter, bench.run, bench.database, jobs)
    await settle()
    drained, foreign = await drain(
        bench.meter, bench.run, bench.facts, bench.database, jobs, workers
    )
    figures = {**enqueued, **drained}
    figures["wal_bytes"] = total_wal(figures)
    figures["killed_per_job"] = await killed_tuples(bench.run.dsn) / jobs
    return figures, foreign


@asynccontextmanager
async def _held_snapshot(dsn: str) -> AsyncIterator[None]:
    holder = await asyncpg.connect(dsn)
    try:
        async with holder.transaction(isolation="repeatable_read"):
            await holder.fetchval("select count(*) from pg_class")
            yield
    finally:
        await holder.close()


async def latency(bench: Bench) -> Measured:
    """Insert single jobs at a fixed rate, whatever the answers take, beside one worker."""
    run, sizes = bench.run, bench.sizes
    async with Crew(run, 1, latency=True) as crew:
        crew.go()
        # The worker has to be awake before the clock runs.
        await asyncio.sleep(2.0)
        before = await bench.meter.read(bench.database, crew.pids)
        said = await run.call(
            "produce", "--rate", str(sizes.rate), "--seconds", str(sizes.seconds),
            "--payload", str(PAYLOAD_BYTES),
        )  # fmt: skip
        await wait_for_jobs(crew, said["jobs"], limit_seconds=30)
        after = await bench.meter.read(bench.database, crew.pids)
    try:
        figures = latency_figures(run.folder, warm_up=sizes.rate)
    except ValueError as problem:
        raise run.failure(str(problem)) from problem
    return {**figures, **per_job(before, after, said["jobs"])}, foreign_cores(before, after)


def producers(count: int) -> Measure:
    """Commit one-job transactions that stay open for a while, with `count` of them at a time."""

    async def measure(bench: Bench) -> Measured:
        before = await bench.meter.read(bench.database)
        said = await bench.run.call(
            "hold", "--producers", str(count), "--hold-ms", str(HOLD_MS),
            "--seconds", str(min(5.0, bench.sizes.seconds)), "--payload", str(PAYLOAD_BYTES),
        )  # fmt: skip
        after = await bench.meter.read(bench.database)
        stored = await _fetch_count(bench.run.dsn, bench.facts.stored_sql)
        if stored != said["jobs"]:
            raise bench.run.failure(f"{said['jobs']} jobs committed, {stored} stored")
        return {"commits_per_s": said["jobs"] / said["seconds"]}, foreign_cores(before, after)

    return measure


async def _fetch_count(dsn: str, sql: str) -> int:
    connection = await asyncpg.connect(dsn)
    try:
        return int(await connection.fetchval(sql))
    finally:
        await connection.close()


SCENARIOS: Mapping[str, tuple[Case, ...]] = {
    "throughput": (Case("1 worker", throughput(1)), Case("2 workers", throughput(2))),
    "latency": (Case("open loop", latency),),
    "backlog": (
        Case("empty", throughput(1)),
        Case("future rows", throughput(1), future=True),
    ),
    "pinned": (Case("free", unpinned), Case("snapshot held", pinned)),
    "producers": (Case("1 producer", producers(1)), Case("16 producers", producers(16))),
}
