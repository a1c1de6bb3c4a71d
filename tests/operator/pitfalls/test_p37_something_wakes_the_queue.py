"""P37: without any worker everything that is due wakes the queue within one poll."""

import time
from datetime import UTC, datetime, timedelta

import pytest

from awa.scaling import History, Reason, ScalingSpec, decide
from support.engine import Engine
from support.watched import served, watching

SPEC = ScalingSpec(concurrency=10, target_jobs_per_replica=10, min_replicas=0)
POLL = timedelta(milliseconds=300)


@pytest.fixture
async def engine(database, connect):
    return await Engine(database, connect).open()


def woken(signals) -> bool:
    decision = decide(SPEC, History(), signals, 0, 0, datetime.now(UTC))
    return decision.desired >= 1 and decision.reason is Reason.ACTIVATION


async def deferred(engine) -> float:
    """Return after how many seconds it is due, as the others do."""
    due = datetime.now(UTC) + timedelta(seconds=2)
    await engine.enqueue(engine.admin, 1, run_at=due)
    return 2.0


async def ready(engine) -> float:
    await engine.enqueue(engine.admin, 1)
    return 0.0


async def claimed_by_a_silent_worker(engine) -> float:
    worker = await engine.register(stale_after="1 second")
    await engine.enqueue(engine.admin, 1)
    await engine.hold(worker=worker)
    return 1.0


async def leased_by_a_dead_worker(engine) -> float:
    worker = await engine.register()
    await engine.enqueue(engine.admin, 1)
    await engine.hold(worker=worker)
    await engine.rotate()
    await engine.admin.fetchval(engine.sql["evacuate"], timedelta(0), 10)
    await engine.admin.fetchval(engine.sql["mark_dead"], worker, "its pod is gone")
    return 0.0


@pytest.mark.parametrize(
    "make", [deferred, ready, claimed_by_a_silent_worker, leased_by_a_dead_worker]
)
@pytest.mark.parametrize("is_waiting", [True, False])
async def test_what_is_due_wakes(engine, make, is_waiting):
    await engine.admin.fetchval(engine.sql["mark_dead"], engine.worker, "scaled to zero")
    async with watching() as watched:
        wanted = served(engine.database.dsn, poll_interval=POLL, is_waiting=is_waiting)
        watched.serve("a", wanted)
        assert not woken(await watched.reads("a"))
        told = watched.told["a"]
        seconds = await make(engine)
        due = time.monotonic() + seconds
        await watched.reads("a", woken, timedelta(seconds=4))
        assert watched.told["a"] > told
        # The first look at what is due sees it; another may end before this test does.
        assert watched.probes.begun_after(engine.database.dsn, due) <= 2
