"""C03: a worker is declared dead while it lives; its ends and the rescue exclude each other."""

import asyncio
import itertools
import random
import time
from collections import Counter
from datetime import timedelta

import pytest

from awa import JobState, UniqueConflict
from support.fleet.tasks import QUEUE, Blocking, Task
from support.sizes import sized
from support.waiting import eventually, passed


async def test_the_end_of_a_suspended_worker_is_refused_after_another_one_has_finished(fleet):
    unique = {"states": ["available", "running"]}
    job = await fleet.client.insert(Blocking("a"), queue=QUEUE, unique_opts=unique)
    first = await fleet.process("w1", max_workers=1)
    await fleet.started("a")
    first.freeze()
    fleet.open_gate()  # whoever runs from now on ends at once
    second = await fleet.embedded("w2")
    await fleet.quiet()
    await passed(sized(0, 30))
    await fleet.client.pause_queue(QUEUE)
    holder = await fleet.client.insert(Blocking("a"), queue=QUEUE, unique_opts=unique)
    first.thaw()
    await eventually(lambda: fleet.ends("stale"), what="the late end to be refused")
    assert fleet.ends() == [("a", "w2", "Completed")]
    assert fleet.ends("stale") == [("a", "w1", "Completed")]
    # The key that the late end would have given back is held by another job now.
    with pytest.raises(UniqueConflict):
        await fleet.client.insert(Blocking("a"), queue=QUEUE, unique_opts=unique)
    assert (await fleet.client.get_job(holder.id)).state is JobState.Available
    found = await fleet.client.get_job(job.id)
    assert (found.state, found.output) == (JobState.Completed, {"by": "w2", "key": "a"})
    assert (await fleet.counts()).completed == 1
    await fleet.client.resume_queue(QUEUE)
    await fleet.quiet()
    assert (await fleet.client.get_job(holder.id)).state is JobState.Completed

    # The suspended worker works on under another identity, and its one place is still one.
    await second.shutdown()
    keys = [f"b{number}" for number in range(20)]
    await fleet.client.insert_many([Task(key, "nap") for key in keys], queue=QUEUE)
    await fleet.quiet()
    runs = sorted((run for run in fleet.runs() if run.key in keys), key=lambda run: run.started_ns)
    assert {(run.key, run.worker) for run in runs} == {(key, "w1") for key in keys}
    for run, following in itertools.pairwise(runs):
        assert run.ended_ns is not None
        assert run.ended_ns <= following.started_ns


async def test_an_end_that_waits_to_be_written_is_refused_after_the_rescue(fleet):
    job = await fleet.client.insert(Task("a"), queue=QUEUE)
    first = await fleet.process("w1", finish_flush_interval_ms=5_000)
    await eventually(lambda: [r for r in fleet.runs() if r.ended_ns], what="the handler to return")
    first.freeze()
    await fleet.embedded("w2")
    await fleet.quiet()
    first.thaw()
    await eventually(lambda: fleet.ends("stale"), what="the late end to be refused")
    assert fleet.ends() == [("a", "w2", "Completed")]
    assert fleet.ends("stale") == [("a", "w1", "Completed")]
    assert (await fleet.client.get_job(job.id)).output == {"by": "w2", "key": "a"}


@pytest.mark.slow
@pytest.mark.timeout(600)
async def test_a_job_seen_completed_never_changes_when_its_length_is_the_staleness_limit(engine):
    rounds, crew, took = 20, 50, 0.0
    chance = random.Random(3)  # noqa: S311 - chance, not secrets
    sessions = [await engine.session() for _ in range(4)]
    completed: list[int] = []
    outcomes: Counter[str] = Counter()
    for _ in range(rounds):
        workers = [await engine.register(stale_after="30 milliseconds") for _ in range(crew)]
        await engine.enqueue(engine.admin, *range(crew))
        claims = [await engine.hold(worker=worker, limit=1) for worker in workers]
        await asyncio.sleep(0.03)  # the job's length, which is the staleness limit

        async def finish(session, part, pause):
            await asyncio.sleep(pause)  # the moment, which is the point
            return [await engine.finish(claim, session=session) for claim in part]

        # The rescue begins with the first worker, the ends with the last one: they meet.
        parts = [claims[at::-3] for at in (-1, -2, -3)]
        *answers, rescued = await asyncio.gather(
            *(
                finish(session, part, took * chance.random())
                for session, part in zip(sessions, parts, strict=False)
            ),
            sessions[3].fetch("select * from awa.rescue_v1()"),
        )
        for part, stale in zip(parts, answers, strict=True):
            for claim, refused in zip(part, stale, strict=True):
                (job_id,) = claim.ids
                state = await engine.state(job_id)
                # Nobody had said that it had started: its attempt does not count.
                assert state == ("available" if refused else "completed")
                outcomes[state] += 1
                if not refused:
                    completed.append(job_id)
        assert sum(row["rescued"] for row in rescued) <= crew
        began = time.monotonic()
        await engine.rescue()
        took = time.monotonic() - began
        await engine.drain()
        # As minutes later: the next rescue begins with the next crew, and not with this one.
        await engine.admin.execute("update awa.runtime_instances set settled_below = 2 ^ 62")
    assert {await engine.state(job_id) for job_id in completed} == {"completed"}
    assert outcomes.total() == rounds * crew
    assert outcomes.keys() == {"available", "completed"}, "each side has to win now and then"


async def test_a_server_killed_under_a_hundred_jobs_completes_each_once(
    durable_database, make_fleet
):
    server = durable_database.server
    fleet = make_fleet(durable_database)
    keys = [f"t{number}" for number in range(100)]
    jobs = await fleet.client.insert_many([Task(key, "gate") for key in keys], queue=QUEUE)
    await fleet.embedded("w1", max_workers=100, heartbeat_staleness=timedelta(seconds=10))
    await fleet.started(*keys)
    await asyncio.to_thread(server.kill)
    await asyncio.to_thread(server.start)
    fleet.open_gate()
    await fleet.quiet(seconds=40)
    assert fleet.completions() == Counter(keys)
    for job in jobs:
        assert (await fleet.client.get_job(job.id)).state is JobState.Completed


async def test_who_is_the_first_to_get_through_after_an_outage_declares_nobody_dead(fleet, engine):
    """It has heard nobody, because nobody else has had the time to say anything."""
    alive = await engine.register(stale_after="1 second")
    await engine.enqueue(engine.admin, 1)
    held = await engine.hold(worker=alive)
    await engine.beat(alive, [held], started=held)
    silent = (
        "update awa.runtime_instances set last_seen = now() - interval '1 h' where worker_id = $1"
    )
    await engine.admin.execute(silent, alive)
    first = await fleet.embedded("first", heartbeat_staleness=timedelta(minutes=1))
    await eventually(lambda: first.worker.metrics.duties[("rescue", "done")] > 2)
    assert await engine.beat(alive, [held], started=held) == (True, 0)
    await engine.finish(held)
    assert await engine.counts() == {"completed": 1}


async def test_a_worker_that_would_be_taken_for_dead_itself_calls_nobody_dead(fleet, connect):
    staleness = timedelta(seconds=1.5)
    worker = (await fleet.embedded("w", heartbeat_staleness=staleness)).worker
    await eventually(lambda: worker.heartbeat.is_steady, what="it may judge")
    session = await connect(fleet.dsn)
    transaction = session.transaction()
    await transaction.start()
    await session.execute("select from awa.runtime_instances for update")  # no heartbeat passes
    judged: list[float] = []

    def judges_no_more() -> bool:
        silent = time.monotonic() - worker.heartbeat.said_at
        if worker.heartbeat.is_steady:
            judged.append(silent)
        return not worker.heartbeat.is_steady

    await eventually(judges_no_more, timedelta(seconds=30))
    await transaction.rollback()
    assert max(judged) < staleness.total_seconds()
