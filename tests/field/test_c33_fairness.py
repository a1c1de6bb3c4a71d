"""C33: a flood delays others by a bounded time, and costs other queues nothing.

Order and aging without workers are in tests/worker/engine/test_order.py, shares by weight in
tests/worker/execute/test_permits.py. There are no partitioned queues: a queue for each tenant is
what line 3 comes to.
"""

import asyncio
import time
from contextlib import asynccontextmanager
from datetime import timedelta
from functools import partial
from statistics import median

import pytest

import awa
from awa.queue_settings import RateLimit
from support.fleet.tasks import QUEUE, Task
from support.waiting import eventually

BODIES_READ = (
    "select coalesce(sum(idx_tup_fetch + seq_tup_read), 0)::bigint from pg_stat_user_tables"
    " where relname like 'ready\\_entries\\___'"
)

LOOKED_AT = "select count(*) from awa.claim_batches where lane_id = $1"

A_MOMENT = 0.005
"""Seconds that a busy machine may add to a wait of some milliseconds."""


@asynccontextmanager
async def flooded(fleet, ready: int = 200):
    """Keep so many urgent jobs waiting all the time."""

    async def pour() -> None:
        made = 0
        while True:
            missing = ready - (await fleet.counts()).available if made else ready
            if missing > 0:
                await fleet.client.insert_many(
                    [Task(f"flood-{made + n}", "nap") for n in range(missing)],
                    queue=QUEUE, priority=1,
                )  # fmt: skip
                made += missing
            await asyncio.sleep(0)

    pouring = asyncio.create_task(pour())
    try:
        yield
    finally:
        pouring.cancel()


@pytest.mark.slow
async def test_a_low_priority_ages_past_a_constant_flood_of_urgent_jobs(fleet):
    """Priority 4 needs three intervals of a second to count as 1, where who is older is first."""
    queues = (
        awa.QueueSettings(
            name=QUEUE, max_workers=4, claim_batch_size=4,
            priority_aging_interval=timedelta(seconds=1),
        ),
    )  # fmt: skip
    async with flooded(fleet):
        await fleet.embedded("w", queues=queues)
        await eventually(lambda: len(fleet.runs()) > 100)
        enqueued = time.monotonic()
        await fleet.client.insert(Task("low"), queue=QUEUE, priority=4)
        await fleet.started("low", seconds=30)
        waited = run_of(fleet, "low").started_ns / 1e9 - enqueued
        # It was the flood that it waited for, and the flood has not ended.
        assert 2 < waited < (4 - 1) + 1
        assert (await fleet.counts()).available > 0


def run_of(fleet, key: str):
    (run,) = (run for run in fleet.runs() if run.key == key)
    return run


@pytest.mark.parametrize("shared", [False, True])
async def test_ten_jobs_start_beside_a_hundred_thousand_of_another_queue(fleet, engine, shared):
    """With places of its own at once; with shared ones as soon as a running job has ended."""
    for _ in range(5):
        await engine.admin.execute(
            "select awa.enqueue_v1('a', 2::smallint, '{task}', array(select jsonb_build_object("
            "'key', 'a' || n, 'does', 'nap') from generate_series(1, 20000) n))"
        )
    places = None if shared else 4
    await fleet.embedded(
        "w",
        queues=tuple(awa.QueueSettings(name=name, max_workers=places) for name in "ab"),
        global_max_workers=8 if shared else None,
    )
    await eventually(lambda: len(fleet.runs()) > 100)
    few = [Task(f"few-{n}", "nap") for n in range(10)]
    began = time.monotonic_ns()
    await fleet.client.insert_many(few, queue="b")
    await fleet.started(*(task.key for task in few))
    names = {task.key for task in few}
    runs = [run for run in fleet.runs() if run.started_ns > began]
    starts = [run.key in names for run in runs]
    # Between the first and the last of them the flood had its share, and no more than that.
    between = starts[starts.index(True) : len(starts) - starts[::-1].index(True)]
    assert between.count(False) <= 10 * between.count(True)
    assert (await engine.counts("a"))["available"] > 50_000
    first = next(run for run in runs if run.key in names)
    assert first.started_ns - began < 10**9


async def test_seven_queues_start_beside_a_flood_of_the_eighth_as_soon_as_without_it(fleet, engine):
    crowded, *others = (f"q{number}" for number in range(8))
    client = await fleet.embedded(
        "w",
        queues=tuple(awa.QueueSettings(name=name, max_workers=4) for name in (crowded, *others)),
    )
    await waits(fleet, others)  # what the start costs is over
    idle = await waits(fleet, others)
    await engine.admin.execute(
        "select awa.enqueue_v1($1, 2::smallint, '{task}', array(select jsonb_build_object("
        "'key', 'flood' || n, 'does', 'nap') from generate_series(1, 20000) n))",
        crowded,
    )
    await eventually(lambda: client.worker.metrics.claimed[crowded] > 100)
    beside = await waits(fleet, others)
    assert (await engine.counts(crowded))["available"] > 1000
    assert median(beside) < 2 * median(idle) + A_MOMENT


async def waits(fleet, queues: list[str]) -> list[float]:
    """Return for how many seconds jobs of some queues waited for their claims, by the server."""
    found = []
    for number in range(10 * len(queues)):
        made = await fleet.client.insert(Task("other"), queue=queues[number % len(queues)])
        job = await eventually(partial(completed, fleet, made.id))
        found.append((job.attempted_at - job.created_at).total_seconds())
    return found


async def completed(fleet, job_id: int):
    job = await fleet.client.get_job(job_id)
    return job if job.state is awa.JobState.Completed else None


@pytest.mark.parametrize("what", ["full", "limited"])
async def test_a_queue_that_may_start_nothing_is_not_looked_at(fleet, engine, what):
    stuck = awa.QueueSettings(
        name="stuck",
        max_workers=1,
        rate_limit=RateLimit(0.001, 1) if what == "limited" else None,
    )
    jobs = [Task("first", "stay" if what == "full" else "ok")]
    await fleet.client.insert_many(jobs + [Task(f"s{n}") for n in range(5000)], queue="stuck")
    await fleet.embedded("w", queues=(stuck, awa.QueueSettings(name=QUEUE)))
    await fleet.started("first")
    lane = await engine.admin.fetchval("select lane_id from awa.lanes where queue = 'stuck'")
    before = await engine.admin.fetchval(LOOKED_AT, lane)
    # Claims go on for the other queue.
    for number in range(20):
        await fleet.client.insert(Task(f"a{number}"), queue=QUEUE)
        await fleet.started(f"a{number}")
    await engine.publish_statistics()
    assert await engine.admin.fetchval(LOOKED_AT, lane) == before == 1
    assert await engine.admin.fetchval(BODIES_READ) < 1000
    assert (await engine.counts("stuck"))["available"] == 5000
