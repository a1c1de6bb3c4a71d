"""Dead workers, overdue attempts, lost claims: whose attempts go where, and what they cost."""

from datetime import timedelta

import pytest

from awa._store.faults import WorkerDeclaredDead
from awa.outcome import Snoozed
from support.engine import Held

DEAD = "select awa.mark_dead_v1($1, $2)"


async def silence(engine, worker: int) -> None:
    """Let a worker have been silent for longer than it may."""
    await engine.admin.execute(
        "update awa.runtime_instances set last_seen = now() - stale_after - interval '1 s'"
        " where worker_id = $1", worker,
    )  # fmt: skip


async def test_a_silent_worker_s_started_attempts_count_and_the_others_do_not(engine):
    worker, other = await engine.register(), await engine.register()
    started, waiting = await engine.enqueue(engine.admin, 1, 2)
    held = await engine.hold(worker=worker)
    (alive,) = await engine.enqueue(engine.admin, 3)
    await engine.hold(worker=other)
    await engine.beat(worker, [held], started=held.part([started]))
    assert await engine.rescue() == {}
    await silence(engine, worker)
    assert await engine.rescue() == {worker: 2}
    assert [entry["error"] for entry in await engine.errors(started)] == [
        "heartbeat stale: worker presumed dead"
    ]
    assert (await engine.state(started), (await engine.job(started))["attempt"]) == ("retryable", 1)
    assert (await engine.state(waiting), (await engine.job(waiting))["attempt"]) == ("available", 0)
    assert await engine.errors(waiting) == []
    assert await engine.state(alive) == "running"
    assert await engine.rescue() == {}


async def test_a_worker_marked_dead_is_not_waited_for(engine):
    worker = await engine.register()
    await engine.enqueue(engine.admin, 1)
    held = await engine.hold(worker=worker)
    assert await engine.admin.fetchval(DEAD, worker, "pod gone") is True
    assert await engine.admin.fetchval(DEAD, worker, "pod gone") is False
    assert await engine.beat(worker, [held]) == (False, 0)
    assert await engine.rescue() == {worker: 1}
    assert await engine.finish(held) == set(held.ids)


async def test_a_claim_of_a_worker_that_nobody_knows_is_abandoned(engine):
    worker = await engine.register()
    (job_id,) = await engine.enqueue(engine.admin, 1)
    await engine.hold(worker=worker)
    await engine.admin.execute("delete from awa.runtime_instances where worker_id = $1", worker)
    assert await engine.rescue() == {worker: 1}
    assert await engine.state(job_id) == "available"


async def test_a_crash_at_the_last_attempt_fails_the_job(engine):
    worker = await engine.register()
    (job_id,) = await engine.enqueue(engine.admin, 1, max_attempts=1)
    held = await engine.hold(worker=worker)
    await engine.beat(worker, [held], started=held)
    await silence(engine, worker)
    await engine.rescue()
    assert await engine.state(job_id) == "failed"
    assert (await engine.errors(job_id))[0]["terminal"] is True


async def test_attempts_that_never_show_a_start_go_back_as_often_as_there_are_attempts(engine):
    """A job that kills its process before anybody hears of its start must end some time."""
    (job_id,) = await engine.enqueue(engine.admin, 1, max_attempts=3)
    seen = []
    while await engine.state(job_id) == "available":
        worker = await engine.register()
        await engine.hold(worker=worker)
        await engine.admin.fetchval(DEAD, worker, "killed")
        await engine.rescue()
        seen.append((await engine.state(job_id), (await engine.job(job_id))["attempt"]))
    assert seen == [("available", 0)] * 3 + [("retryable", 1)]


async def test_a_finish_in_between_begins_the_count_of_returns_again(engine):
    (job_id,) = await engine.enqueue(engine.admin, 1, max_attempts=2)
    for _ in range(2):
        worker = await engine.register()
        await engine.hold(worker=worker)
        await engine.admin.fetchval(DEAD, worker, "killed")
        await engine.rescue()
    assert (await engine.job(job_id))["payload"] is None  # the count is of no interest to users
    await engine.finish(await engine.hold(), Snoozed(timedelta(0)))
    await engine.promote()
    for _ in range(2):
        worker = await engine.register()
        await engine.hold(worker=worker)
        await engine.admin.fetchval(DEAD, worker, "killed")
        await engine.rescue()
    assert (await engine.state(job_id), (await engine.job(job_id))["attempt"]) == ("available", 0)


async def test_what_a_dead_worker_had_finished_stays_finished(engine):
    worker = await engine.register()
    done, open_ = await engine.enqueue(engine.admin, 1, 2)
    held = await engine.hold(worker=worker)
    await engine.finish(held.part([done]))
    await engine.admin.fetchval(DEAD, worker, "killed")
    assert await engine.rescue() == {worker: 1}
    assert (await engine.state(done), await engine.state(open_)) == ("completed", "available")


async def test_a_deadline_ends_the_attempts_of_a_live_worker_and_no_others(engine):
    (over,) = await engine.enqueue(engine.admin, 1)
    await engine.hold(deadline=0.001)
    (long,) = await engine.enqueue(engine.admin, 2)
    await engine.hold(deadline=3600)
    (endless,) = await engine.enqueue(engine.admin, 3)
    await engine.hold(deadline=0)
    await engine.admin.fetchval("select pg_sleep(0.01)")  # the deadline, on the server's clock
    rows = await engine.admin.fetch(engine.sql["rescue_overdue"])
    assert [row["job_id"] for row in rows] == [over]
    states = [await engine.state(job_id) for job_id in (over, long, endless)]
    assert states == ["retryable", "running", "running"]
    (entry,) = await engine.errors(over)
    assert (entry["error"], entry["attempt"]) == ("hard deadline exceeded", 1)
    assert await engine.admin.fetch(engine.sql["rescue_overdue"]) == []


async def test_a_heartbeat_gives_back_claims_that_its_worker_does_not_know(engine):
    worker = await engine.register()
    (known,) = await engine.enqueue(engine.admin, 1)
    held = await engine.hold(worker=worker)
    (lost,) = await engine.enqueue(engine.admin, 2)
    await engine.hold(worker=worker)
    assert await engine.beat(worker, [held], grace="1 hour") == (True, 0)  # may be on its way
    assert await engine.state(lost) == "running"
    assert await engine.beat(worker, [held], grace="0") == (True, 1)
    assert (await engine.state(known), await engine.state(lost)) == ("running", "available")
    assert (await engine.job(lost))["attempt"] == 0


async def test_a_lost_claim_below_one_that_is_held_is_still_given_back_later(engine):
    """The watermark of the worker must not pass it by: it was young when the others were named."""
    worker = await engine.register()
    (lost,) = await engine.enqueue(engine.admin, 1)
    await engine.hold(worker=worker)
    await engine.enqueue(engine.admin, 2)
    held = await engine.hold(worker=worker)
    for _ in range(3):
        assert await engine.beat(worker, [held], grace="1 hour") == (True, 0)
    assert await engine.beat(worker, [held], grace="0") == (True, 1)
    assert await engine.state(lost) == "available"


async def test_a_heartbeat_names_what_somebody_else_has_ended_in_the_ring_and_outside(engine):
    worker = await engine.register()
    kept, cancelled, late, done = await engine.enqueue(engine.admin, 1, 2, 3, 4)
    held = await engine.hold(worker=worker)
    assert await engine.beat_of(worker, held) == set()
    await engine.admin.fetchval(engine.sql["cancel"], cancelled)
    await engine.finish(held.part([done]))
    assert await engine.beat_of(worker, held) == {cancelled, done}
    await engine.rotate()
    await engine.admin.fetchval(engine.sql["evacuate"], timedelta(0), 100)
    assert await engine.beat_of(worker, held) == {cancelled, done}
    await engine.admin.fetchrow(engine.sql["prune"], timedelta(0), 10**15)
    assert await engine.beat_of(worker, held) == {cancelled, done}
    await engine.admin.fetchval(engine.sql["cancel"], late)
    assert await engine.beat_of(worker, held) == {cancelled, done, late}
    assert await engine.state(kept) == "running"


async def test_a_claim_is_given_back_by_its_token_alone(engine):
    worker = await engine.register()
    (job_id,) = await engine.enqueue(engine.admin, 1)
    held = await engine.hold(worker=worker)
    token = held.attempts[job_id][0].token
    assert await engine.admin.fetchval(engine.sql["give_back"], worker, token + 1) == 0
    assert await engine.admin.fetchval(engine.sql["give_back"], engine.worker, token) == 0
    assert await engine.admin.fetchval(engine.sql["give_back"], worker, token) == 1
    assert await engine.admin.fetchval(engine.sql["give_back"], worker, token) == 0
    assert await engine.state(job_id) == "available"


async def test_settling_a_dead_process_counts_exactly_what_had_started(engine):
    worker, other = await engine.register(), await engine.register()
    ids = await engine.enqueue(engine.admin, *range(6))
    held = Held((await engine.hold(worker=worker, limit=3)).attempts)
    held.attempts.update((await engine.hold(worker=worker, limit=3)).attempts)
    foreign = await engine.enqueue(engine.admin, 9)
    await engine.hold(worker=other)
    await engine.finish(held.part(ids[:1]))
    started = [held.attempts[ids[1]], held.attempts[ids[4]]]
    settled = await engine.admin.fetchval(
        engine.sql["settle"], worker, "killed by signal 9",
        [claim.claim_id for claim, _ in started], [seq for _, seq in started],
    )  # fmt: skip
    assert settled == 5
    jobs = [await engine.job(job_id) for job_id in ids]
    assert [(job["state"], job["attempt"]) for job in jobs] == [
        ("completed", 1), ("retryable", 1), ("available", 0), ("available", 0), ("retryable", 1),
        ("available", 0),
    ]  # fmt: skip
    assert (await engine.errors(ids[1]))[0]["error"] == "worker process died: killed by signal 9"
    assert await engine.state(foreign[0]) == "running"
    assert await engine.finish(held.part(ids[1:])) == set(ids[1:])
    assert await engine.rescue() == {}


async def test_a_dead_worker_claims_nothing_more(engine):
    worker = await engine.register()
    await engine.enqueue(engine.admin, 1)
    await engine.admin.fetchval(DEAD, worker, "x")
    with pytest.raises(WorkerDeclaredDead):
        await engine.hold(worker=worker)
    assert await engine.counts() == {"available": 1}
