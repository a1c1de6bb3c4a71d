"""Unique keys: held exactly in the states of the mask, on every way from one state to another."""

from datetime import timedelta

import asyncpg
import pytest

from awa._store.attempts import GIVEN_BACK
from awa.outcome import COMPLETED, Cancelled, Failed, Snoozed
from support.engine import PAST, Unique

STATES = ("scheduled", "available", "running", "completed", "retryable", "failed", "cancelled")
KEY = b"k" * 16


async def become(engine, job_id: int, state: str) -> None:
    """Bring a fresh job into a state, the way it goes there in life."""
    ends = {
        "completed": COMPLETED,
        "retryable": Failed("x"),
        "failed": Failed("x", terminal=True),
        "cancelled": Cancelled("x"),
        "scheduled": Snoozed(timedelta(hours=1)),
    }
    if state == "available":
        return
    held = await engine.hold()
    assert held.ids == [job_id]
    if state != "running":
        await engine.finish(held, ends[state])


@pytest.mark.parametrize("state", STATES)
@pytest.mark.parametrize("kept", [True, False], ids=["in the mask", "not in the mask"])
async def test_a_key_is_held_exactly_while_the_state_is_in_the_mask(engine, state, kept):
    mask = Unique((state,) if kept else tuple(other for other in STATES if other != state))
    (job_id,) = await engine.enqueue(engine.admin, 1, unique=mask)
    await become(engine, job_id, state)
    assert await engine.state(job_id) == state
    assert await engine.holder() == (job_id if kept else None)


@pytest.mark.parametrize("state", ["retryable", "scheduled"])
@pytest.mark.parametrize("kept", [True, False], ids=["in the mask", "not in the mask"])
async def test_a_key_follows_its_job_through_promotion(engine, state, kept):
    mask = Unique((state, "available") if kept else (state,))
    (job_id,) = await engine.enqueue(engine.admin, 1, unique=mask)
    await become(engine, job_id, state)
    assert await engine.holder() == job_id
    await engine.make_due()
    await engine.promote()
    assert await engine.state(job_id) == "available"
    assert await engine.holder() == (job_id if kept else None)


@pytest.mark.parametrize("start", [None, PAST], ids=["ready", "scheduled"])
async def test_a_second_job_of_a_held_key_is_refused_whole_or_left_out(engine, start):
    mask = Unique(("scheduled", "available"))
    (holder,) = await engine.enqueue(engine.admin, 1, unique=mask, run_at=start)
    with pytest.raises(asyncpg.UniqueViolationError) as refused:
        await engine.enqueue(engine.admin, 2, unique=mask)
    assert refused.value.constraint_name == "idx_awa_jobs_unique"
    assert f"holder={holder} " in refused.value.detail
    assert await engine.enqueue(engine.admin, 2, unique=mask, skip=True) == [None]
    other = Unique(mask.states, b"o" * 16)
    (taken,) = await engine.enqueue(engine.admin, 3, unique=other, skip=True)
    assert await engine.holder(other.key) == taken
    assert sum((await engine.counts()).values()) == 2


async def test_two_of_one_key_in_a_batch_leave_the_first(engine):
    first, second = await engine.enqueue(
        engine.admin, 1, 2, unique=Unique(("available",)), skip=True
    )
    assert second is None
    assert await engine.holder() == first


@pytest.mark.parametrize("end", ["retry", "rescue", "give back", "snooze"])
async def test_a_job_that_must_take_its_key_back_and_cannot_ends_and_its_neighbours_do_not(
    engine, end
):
    mask = Unique(("scheduled", "available", "retryable"))
    (unique,) = await engine.enqueue(engine.admin, 1, unique=mask)
    neighbours = await engine.enqueue(engine.admin, *range(2, 12))
    worker = await engine.register()
    held = await engine.hold(worker=worker)
    (rival,) = await engine.enqueue(engine.admin, 20, unique=mask)
    if end == "rescue":
        await engine.beat(worker, [held], started=held)
        await engine.admin.fetchval("select awa.mark_dead_v1($1, 'x')", worker)
        assert await engine.rescue() == {worker: 11}
    else:
        outcome = {"retry": Failed("x"), "give back": GIVEN_BACK,
                   "snooze": Snoozed(timedelta(hours=1))}[end]  # fmt: skip
        assert await engine.finish(held, outcome) == set()
    assert await engine.state(unique) == "cancelled"
    assert (await engine.errors(unique))[-1]["error"] == (
        f"{'rescued' if end == 'rescue' else 'rescheduled'} as duplicate: "
        "unique claim held by a newer job"
    )
    expected = {"retry": "retryable", "rescue": "retryable", "give back": "available",
                "snooze": "scheduled"}[end]  # fmt: skip
    assert {await engine.state(job_id) for job_id in neighbours} == {expected}
    assert await engine.holder() == rival


async def test_a_job_that_takes_its_key_by_running_ends_when_another_one_has_it(engine):
    mask = Unique(("running",))
    one, two = await engine.enqueue(engine.admin, 1, 2, unique=mask)
    (neighbour,) = await engine.enqueue(engine.admin, 3)
    held = await engine.hold()
    assert sorted(held.ids) == [one, neighbour]
    assert await engine.holder() == one
    assert await engine.state(two) == "cancelled"
    await engine.finish(held)
    assert await engine.holder() is None


async def test_a_job_that_takes_its_key_by_completing_completes_in_any_case(engine):
    mask = Unique(("available", "completed"))
    (one,) = await engine.enqueue(engine.admin, 1, unique=mask)
    held = await engine.hold()
    assert await engine.holder() is None
    (two,) = await engine.enqueue(engine.admin, 2, unique=mask)
    await engine.finish(held)
    assert (await engine.state(one), await engine.holder()) == ("completed", two)
    await engine.finish(await engine.hold())
    assert await engine.holder() == two
    with pytest.raises(asyncpg.UniqueViolationError):
        await engine.enqueue(engine.admin, 3, unique=mask)


async def test_a_cancelled_and_a_retried_job_move_their_key(engine):
    mask = Unique(("available",))
    (job_id,) = await engine.enqueue(engine.admin, 1, unique=mask)
    await engine.admin.fetchval(engine.sql["cancel"], job_id)
    assert await engine.holder() is None
    await engine.admin.fetchval(engine.sql["retry"], job_id)
    assert await engine.holder() == job_id


async def test_a_retry_by_hand_is_refused_while_another_job_has_the_key(engine):
    mask = Unique(("available",))
    (job_id,) = await engine.enqueue(engine.admin, 1, unique=mask)
    await engine.admin.fetchval(engine.sql["cancel"], job_id)
    (rival,) = await engine.enqueue(engine.admin, 2, unique=mask)
    with pytest.raises(asyncpg.UniqueViolationError):
        await engine.admin.fetchval(engine.sql["retry"], job_id)
    assert await engine.state(job_id) == "cancelled"
    assert await engine.holder() == rival


@pytest.mark.parametrize("state", ["completed", "failed", "cancelled"])
async def test_a_key_goes_with_its_job_when_its_retention_is_over(engine, state):
    (job_id,) = await engine.enqueue(engine.admin, 1, unique=Unique((state,)))
    await become(engine, job_id, state)
    assert await engine.holder() == job_id
    await engine.rotate()
    await engine.admin.execute("update awa.ring_rotations set rotated_at = now() - interval '1 d'")
    await engine.admin.fetchrow("select * from awa.prune_v1('1 hour', 1e15::bigint)")
    await engine.admin.execute("update awa.done_entries set finalized_at = now() - interval '1 d'")
    await engine.admin.fetchval("select awa.retire_v1('1 hour', '1 hour', 100)")
    assert await engine.state(job_id) is None
    assert await engine.holder() is None
