"""C07: a stop ends every attempt: finished or given back.

Single signals (lines 1, 3 and 4) are in tests/worker/process/test_stopping.py.
"""

import asyncio
import random
import signal
from collections import Counter
from datetime import timedelta

import pytest

import awa
from support.fleet.tasks import QUEUE, Blocking, Handlers, Task, quick
from support.sizes import sized
from support.waiting import eventually


@pytest.mark.slow
@pytest.mark.timeout(600)
async def test_five_hundred_stops_at_any_moment_lose_nothing_and_repeat_no_completion(fleet):
    chance = random.Random(11)  # noqa: S311 - chance, not secrets
    enqueued: list[str] = []
    settings = quick(max_workers=8, drain_timeout=timedelta(milliseconds=5))
    async with awa.AsyncClient(fleet.dsn, 4) as client:
        handlers = Handlers(fleet.folder, "w")
        handlers.register(client)
        for number in range(500):
            if number % 10 == 0:
                keys = [f"t{number}-{at}" for at in range(40)]
                jobs = [Task(key, chance.choice(("ok", "nap", "nap"))) for key in keys]
                await fleet.client.insert_many(jobs, queue=QUEUE)
                enqueued += keys
            await client.start(settings=settings, name="w")
            handlers.watch(client.worker)
            await asyncio.sleep(chance.random() * 0.03)  # the moment, which is the point
            assert await client.shutdown()
            assert (await fleet.counts()).running == 0
        await client.start(settings=settings, name="w")
        handlers.watch(client.worker)
        await fleet.quiet(seconds=60)
    assert fleet.completions() == Counter(enqueued)
    assert fleet.ends("stale") == []
    assert (await fleet.counts()).completed == len(enqueued)


@pytest.mark.slow
@pytest.mark.timeout(1800)
async def test_processes_told_to_end_at_any_moment_lose_nothing_and_repeat_no_completion(fleet):
    """By a signal: from before a process can hear it to the moment when its jobs end."""
    chance = random.Random(12)  # noqa: S311 - chance, not secrets
    enqueued: list[str] = []
    for number in range(sized(12, 500)):
        keys = [f"t{number}-{at}" for at in range(20)]
        jobs = [Task(key, chance.choice(("ok", "nap", "nap"))) for key in keys]
        await fleet.client.insert_many(jobs, queue=QUEUE)
        enqueued += keys
        name = f"p{number}"
        process = await fleet.process(name, max_workers=8, drain_timeout_ms=5)
        if number % 2:
            await eventually(lambda name=name: name in {run.worker for run in fleet.runs()})
        # The moment, which is the point: while it works, or while it starts.
        await asyncio.sleep(chance.random() * (0.03 if number % 2 else 1.0))
        assert await process.stop() in {0, -signal.SIGTERM}
        assert (await fleet.counts()).running == 0
    await fleet.embedded("last")
    await fleet.quiet(seconds=60)
    assert fleet.completions() == Counter(enqueued)
    assert fleet.ends("stale") == []
    assert (await fleet.counts()).completed == len(enqueued)


async def test_a_leader_that_stops_in_the_middle_of_a_handler_is_followed_at_once(fleet, engine):
    client = await fleet.embedded("w", leader_lease=timedelta(minutes=5))
    await fleet.client.insert(Blocking("stuck"), queue=QUEUE)
    await fleet.started("stuck")
    await eventually(lambda: client.worker.maintenance.leads, what="the worker to lead")
    assert await client.shutdown(0) is False
    assert await engine.admin.fetchval("select count(*) from awa.leader") == 0
    fleet.open_gate()
