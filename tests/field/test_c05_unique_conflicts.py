"""C05: two jobs of one unique key meet; the loser ends by itself and never stops its neighbours."""

from datetime import timedelta

from awa import JobState
from awa.outcome import Failed
from support.engine import PAST, Unique
from support.fleet.tasks import QUEUE, Task
from support.waiting import eventually

PENDING = ("scheduled", "available", "retryable")


NOW = "select clock_timestamp()"
SECOND = timedelta(seconds=1)


async def test_a_replaced_job_that_fails_ends_as_duplicate_and_the_newer_one_runs(fleet, engine):
    options = {"states": PENDING, "by_args": False}
    older = await fleet.client.insert(Task("a", "fail_at_gate"), queue=QUEUE, unique_opts=options)
    await fleet.embedded("w")
    await fleet.started("a")
    # The newer one must hold its key, so wait, until the older one's end is written.
    await fleet.client.pause_queue(QUEUE)
    newer = await fleet.client.insert(Task("b"), queue=QUEUE, unique_opts=options)
    opened_at = await engine.admin.fetchval(NOW)
    fleet.open_gate()
    await eventually(fleet.ends)
    found = await fleet.client.get_job(older.id)
    assert found.state is JobState.Cancelled
    assert found.finalized_at - opened_at < SECOND
    resumed_at = await engine.admin.fetchval(NOW)
    await fleet.client.resume_queue(QUEUE)
    await fleet.quiet()
    assert found.errors[-1]["error"] == (
        "rescheduled as duplicate: unique claim held by a newer job"
    )
    ran = await fleet.client.get_job(newer.id)
    assert ran.state is JobState.Completed
    assert ran.attempted_at - resumed_at < SECOND
    assert fleet.keys_started() == {"a": 1, "b": 1}


async def test_ninety_nine_neighbours_of_a_duplicate_are_rescued_in_the_same_tick(engine):
    worker = await engine.register()
    unique = Unique(PENDING)
    await engine.enqueue(engine.admin, *range(99))
    (older,) = await engine.enqueue(engine.admin, 99, unique=unique)
    held = await engine.hold(worker=worker)
    assert len(held.ids) == 100
    await engine.beat(worker, [held], started=held)
    (newer,) = await engine.enqueue(engine.admin, 100, unique=unique)
    await engine.admin.fetchval("select awa.mark_dead_v1($1, 'killed')", worker)
    assert await engine.rescue() == {worker: 100}
    assert [await engine.state(job_id) for job_id in held.ids].count("retryable") == 99
    assert (await engine.state(older), await engine.state(newer)) == ("cancelled", "available")
    assert (await engine.errors(older))[-1]["error"] == (
        "rescued as duplicate: unique claim held by a newer job"
    )
    assert await engine.holder() == newer


async def test_an_overdue_job_behind_twelve_thousand_without_deadline_is_rescued(engine):
    for start in range(0, 12_000, 4_000):
        await engine.enqueue(engine.admin, *range(start, start + 4_000))
    for _ in range(12):
        assert len((await engine.hold(limit=1000)).ids) == 1000
    await engine.enqueue(engine.admin, 12_000)
    overdue = await engine.hold(deadline=0.001)
    await eventually(
        lambda: engine.admin.fetchval(
            "select deadline_at < clock_timestamp() from awa.claim_batches"
            " where deadline_at is not null"
        )
    )
    rescued = await engine.admin.fetch("select job_id from awa.rescue_overdue_v1()")
    assert [row["job_id"] for row in rescued] == overdue.ids
    assert [error["error"] for error in await engine.errors(overdue.ids[0])] == [
        "hard deadline exceeded"
    ]


async def test_duplicates_due_in_one_promotion_do_not_stop_the_others(engine):
    """Masks without the waiting states: both wait beside each other, one can become ready."""
    unique = Unique(("available",))
    ids = await engine.enqueue(engine.admin, *range(20), run_at=PAST)
    (scheduled,) = await engine.enqueue(engine.admin, 20, run_at=PAST, unique=unique)
    (retried,) = await engine.enqueue(engine.admin, 21, unique=unique)
    await engine.finish(await engine.hold(), Failed("as told"))
    assert await engine.state(retried) == "retryable"
    await engine.make_due()
    assert await engine.promote() == 22
    assert {await engine.state(job_id) for job_id in ids} == {"available"}
    pair = [await engine.state(scheduled), await engine.state(retried)]
    assert sorted(pair) == ["available", "cancelled"]
    assert await engine.holder() == [scheduled, retried][pair.index("available")]
