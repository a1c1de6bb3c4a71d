"""The measured steps that the scenarios are made of: enqueue in bulk, and drain."""

import asyncio
import time
from collections.abc import Mapping

import asyncpg

from bench.contender import Facts, Run
from bench.crew import Crew, Progress
from bench.meter import Connection, Meter, Reading, foreign_cores
from bench.ticks import until

DRAIN_LIMIT_SECONDS = 300.0
PAYLOAD_BYTES = 100
MICRO = 1e6


def per_job(before: Reading, after: Reading, jobs: int) -> dict[str, float]:
    """Return what one job cost between two readings."""
    return {
        "wal_bytes": (after.wal_bytes - before.wal_bytes) / jobs,
        "server_us": MICRO * (after.server_cpu - before.server_cpu) / jobs,
        "worker_us": MICRO * (after.workers_cpu - before.workers_cpu) / jobs,
    }


async def enqueue(
    meter: Meter, run: Run, database: str, jobs: int, delay: tuple[float, float] | None = None
) -> dict[str, float]:
    """Insert `jobs` with the bulk call and return the rate and the cost of one job.

    The driver times itself, without start-up and connecting. With a delay each job is due
    that many seconds ahead, chosen between the two bounds.
    """
    spread = ("--delay-min", str(delay[0]), "--delay-max", str(delay[1])) if delay else ()
    before = await meter.read(database)
    said = await run.call(
        "enqueue", "--count", str(jobs), "--batch", str(run.contender.batch),
        "--payload", str(PAYLOAD_BYTES), *spread,
    )  # fmt: skip
    after = await meter.read(database)
    cost = per_job(before, after, jobs)
    return {
        "enqueue_per_s": jobs / said["seconds"],
        "enqueue_wal_bytes": cost["wal_bytes"],
        "enqueue_client_us": MICRO * said["cpu"] / jobs,
        "enqueue_server_us": cost["server_us"],
    }


async def drain(
    meter: Meter, run: Run, facts: Facts, database: str, jobs: int, workers: int
) -> tuple[dict[str, float], float]:
    """Let `workers` processes finish `jobs` and return the figures and the foreign cores.

    The clock runs from the first handler start until the queue's own tables say that every job
    is durably finished. Raises DriverError when the handlers ran more or fewer jobs than there
    were, and OutOfTimeError when the drain does not end.
    """
    watch = await asyncpg.connect(run.dsn)
    try:
        async with Crew(run, workers) as crew:
            before = await meter.read(database, crew.pids)
            crew.go()
            await wait_for_jobs(crew, jobs, DRAIN_LIMIT_SECONDS)
            done_at = await _all_finished(watch, facts, jobs)
            after = await meter.read(database, crew.pids)
    finally:
        await watch.close()
    closed = await meter.read(database)
    seen = Progress.read(run.folder)
    if seen.handled != jobs:
        raise run.failure(f"{jobs} jobs, but {seen.handled} handler starts")
    cost = per_job(before, after, jobs)
    figures = {
        "drain_per_s": jobs / (done_at - seen.first_start),
        "tail_s": done_at - seen.last_start,
        "drain_wal_bytes": cost["wal_bytes"],
        "worker_us": cost["worker_us"],
        "server_us": cost["server_us"],
        "commits_per_job": (closed.commits - before.commits) / jobs,
    }
    return figures, foreign_cores(before, after)


async def _all_finished(watch: Connection, facts: Facts, jobs: int) -> float:
    """Return the moment at which no job was left: the middle of the query that saw it."""

    async def finished() -> float | None:
        asked = time.time()
        left = await watch.fetchval(facts.left_sql(jobs))
        return (asked + time.time()) / 2 if left <= 0 else None

    return await until(
        finished, what=f"{jobs} jobs finish", limit_seconds=DRAIN_LIMIT_SECONDS, every_seconds=0.005
    )


async def wait_for_jobs(crew: Crew, jobs: int, limit_seconds: float) -> None:
    """Wait until the crew's handlers have started `jobs` jobs."""

    async def started() -> bool | None:
        return crew.progress().handled >= jobs or None

    await until(started, what=f"{jobs} jobs start", limit_seconds=limit_seconds)


async def settle() -> None:
    """Let the server's background processes finish what the last step left them to do."""
    await asyncio.sleep(0.3)


def total_wal(figures: Mapping[str, float]) -> float:
    """Return the WAL of a job's whole life."""
    return figures["enqueue_wal_bytes"] + figures["drain_wal_bytes"]
