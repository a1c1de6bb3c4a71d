"""C32: jobs that are due later, or tried again later, stand in nobody's way and start once.

Two that promote at once (line 4) and a cancel beside a promotion are in
tests/worker/engine/test_promote.py and tests/worker/engine/test_admin.py; what future jobs cost a
claim is in tests/worker/engine/test_plans.py and the benchmark `future`.
"""

import asyncio
import itertools
import time
from datetime import UTC, datetime, timedelta
from functools import partial

import pytest

import awa
from awa.outcome import Failed
from support.engine import PAST, begun
from support.fleet.fleet import WorkerProcess
from support.fleet.tasks import QUEUE, Task
from support.waiting import eventually

LEADER_SLEEPS = (
    "select exists (select from pg_locks where locktype = 'advisory' and mode = 'ShareLock' and"
    " granted and objid = 1000000 and database ="
    " (select oid from pg_database where datname = current_database()))"
)
REGISTERED = "select exists (select from awa.runtime_instances where name = $1)"

WRITE_WHILE_AWAKE = (
    "with late as (insert into awa.deferred_jobs (job_id, run_at, created_at, lane_id, attempt,"
    " max_attempts, state, reason, kind, args) select 1024000, now(), now(), $1::integer, 0, 25,"
    " 'scheduled'::awa.job_state, 'scheduled', 'task',"
    """ '{"key": "late", "does": "ok"}'::jsonb"""
    " from pg_advisory_lock(hashtext('awa'), 1000000) returning lane_id)"
    " select pg_advisory_unlock(hashtext('awa'), 1000000) from late"
)
"""Waits until the leader is awake, writes, and lets it sleep again, all on the server."""


@pytest.mark.slow
async def test_a_thousand_jobs_start_once_and_in_time_while_workers_come_and_go(fleet, engine):
    """The oldest of three stops as soon as a fourth one is there."""
    due = time.monotonic() + 10
    jobs = [Task(f"t{n}") for n in range(1000)]
    run_at = datetime.now(UTC) + timedelta(seconds=10)
    await fleet.client.insert_many(jobs, queue=QUEUE, run_at=run_at)
    workers: list[WorkerProcess] = []

    async def add() -> None:
        name = f"w{next(numbers)}"
        workers.append(
            await fleet.process(
                name, max_workers=50, heartbeat_interval_ms=300, heartbeat_staleness_ms=1000,
                leader_lease_ms=600, leader_check_interval_ms=200,
            )
        )  # fmt: skip
        await eventually(partial(engine.admin.fetchval, REGISTERED, name), timedelta(seconds=30))

    async def come_and_go() -> None:
        while True:
            await add()
            await workers.pop(0).stop()

    numbers = itertools.count()
    for _ in range(3):
        await add()
    changes = asyncio.create_task(come_and_go())
    try:
        await eventually(lambda: len(fleet.completions()) == len(jobs), timedelta(seconds=60))
    finally:
        changes.cancel()
    assert next(numbers) > 3, "no worker was replaced"
    assert set(fleet.keys_started().values()) == {1}
    waits = [run.started_ns / 1e9 - due for run in fleet.runs()]
    assert min(waits) > -0.05
    assert max(waits) < 1


async def test_ten_thousand_jobs_that_come_due_at_once_are_ready_within_two_seconds(fleet, engine):
    """The worker that promotes serves another queue, so that they stay where they are put."""
    await fleet.client.insert(Task("other"), queue="other")
    await fleet.embedded("w", queues=(awa.QueueSettings(name="other"),))
    await fleet.started("other")
    due = time.monotonic() + 4
    await engine.enqueue(
        engine.admin, *range(10_000), run_at=datetime.now(UTC) + timedelta(seconds=4)
    )
    due = max(due, time.monotonic())

    async def all_ready() -> bool:
        return not await engine.admin.fetchval("select exists (select from awa.deferred_jobs)")

    assert not await all_ready()
    await eventually(all_ready, timedelta(seconds=20))
    assert time.monotonic() - due < 2
    assert (await engine.counts())["available"] == 10_000


async def test_a_job_with_an_hour_of_backoff_holds_up_nothing(engine):
    (urgent,) = await engine.enqueue(engine.admin, 1, priority=1)
    await engine.finish(await engine.hold(), Failed("x"))
    await engine.admin.execute("update awa.deferred_jobs set run_at = now() + interval '1 hour'")
    assert await engine.state(urgent) == "retryable"
    ready = await engine.enqueue(engine.admin, 2, 3, priority=1)
    ready += await engine.enqueue(engine.admin, 4, priority=4)
    assert await engine.promote() == 0
    assert (await engine.hold()).ids == ready


async def test_a_retry_beside_a_promotion_of_the_same_job_runs_it_once(engine):
    (job_id,) = await engine.enqueue(engine.admin, 1, run_at=PAST)
    promoting = await engine.session()
    transaction = await begun(promoting)
    assert (await promoting.fetchrow(engine.sql["promote"], 10))["promoted"] == 1
    assert await engine.admin.fetchval(engine.sql["retry"], job_id) == "scheduled"
    await transaction.commit()
    assert await engine.admin.fetchval(engine.sql["retry"], job_id) == "available"
    assert await engine.promote() == 0
    assert (await engine.hold()).ids == [job_id]
    assert (await engine.hold()).ids == []


@pytest.fixture
async def sleeper(quiet_engine, quiet_database, make_fleet):
    """A fleet of one worker that leads maintenance, and a function that waits until it sleeps."""
    fleet = make_fleet(quiet_database)
    await fleet.embedded("w")

    async def sleeps() -> None:
        await eventually(lambda: quiet_engine.admin.fetchval(LEADER_SLEEPS))

    return fleet, sleeps


async def test_a_sleeping_leader_is_told_of_a_job_that_is_due_soon(sleeper):
    """By itself it looks five seconds after it fell asleep."""
    fleet, sleeps = sleeper
    await sleeps()
    due = time.monotonic() + 0.5
    await fleet.client.insert(
        Task("soon"), queue=QUEUE, run_at=datetime.now(UTC) + timedelta(milliseconds=500)
    )
    await fleet.started("soon")
    assert -0.05 < fleet.runs()[0].started_ns / 1e9 - due < 1


async def test_a_leader_does_not_sleep_beside_a_transaction_that_may_hold_a_due_job(
    sleeper, quiet_engine
):
    fleet, sleeps = sleeper
    await sleeps()
    session = await quiet_engine.session()
    transaction = await begun(session)
    await session.execute("create table other (n int)")
    # It waits in line before the leader wakes up: that one is awake for a moment only.
    writing = asyncio.create_task(session.fetchval(WRITE_WHILE_AWAKE, quiet_engine.lane))
    await quiet_engine.waits_for_lock(session.get_server_pid())
    await fleet.client.insert(Task("a"), queue=QUEUE, run_at=datetime.now(UTC))
    await fleet.started("a")
    await writing
    await sleeps()
    await transaction.commit()
    committed = time.monotonic()
    await fleet.started("late")
    assert fleet.runs()[-1].started_ns / 1e9 - committed < 2


async def test_a_sleeping_leader_is_told_of_a_retry_and_of_a_queue_that_is_resumed(sleeper):
    fleet, sleeps = sleeper
    later = datetime.now(UTC) + timedelta(hours=1)
    jobs = await fleet.client.insert_many([Task("a"), Task("b")], queue=QUEUE, run_at=later)
    await sleeps()
    asked = time.monotonic()
    await fleet.client.retry(jobs[0].id)
    await fleet.started("a")
    assert time.monotonic() - asked < 3
    await fleet.client.pause_queue(QUEUE)
    await fleet.client.retry(jobs[1].id)
    await sleeps()
    asked = time.monotonic()
    await fleet.client.resume_queue(QUEUE)
    await fleet.started("b")
    assert time.monotonic() - asked < 3
