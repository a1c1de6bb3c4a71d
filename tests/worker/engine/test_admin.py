"""Cancel and retry of single jobs, in every state; and the races that they can lose."""

import asyncio
import json

import pytest

from awa._store.faults import translated
from awa.errors import IsolationUnsupported
from awa.outcome import COMPLETED, Cancelled, Failed
from support.engine import FUTURE, LANE_LOCK, PAST

ENDED = ("completed", "failed", "cancelled")


async def in_state(engine, state: str) -> int:
    run_at = FUTURE if state == "scheduled" else None
    (job_id,) = await engine.enqueue(engine.admin, 1, run_at=run_at)
    if state not in {"scheduled", "available"}:
        held = await engine.hold()
        if state != "running":
            await engine.finish(
                held,
                {
                    "completed": COMPLETED,
                    "retryable": Failed("x"),
                    "failed": Failed("x", terminal=True),
                    "cancelled": Cancelled("x"),
                }[state],
            )
    return job_id


@pytest.mark.parametrize(
    "state", ["scheduled", "available", "running", "completed", "retryable", "failed", "cancelled"]
)
async def test_cancel_ends_what_has_not_ended_and_leaves_the_rest(engine, state):
    job_id = await in_state(engine, state)
    before = await engine.job(job_id)
    assert await engine.admin.fetchval(engine.sql["cancel"], job_id) == state
    after = await engine.job(job_id)
    if state in ENDED:
        assert after == before
    else:
        assert after["state"] == "cancelled"
        assert after["finalized_at"] is not None
        assert after["attempt"] == before["attempt"]
    assert await engine.counts() == {after["state"]: 1}
    assert (await engine.hold()).ids == []
    assert await engine.admin.fetchval(engine.sql["cancel"], job_id) == after["state"]


@pytest.mark.parametrize("state", ["scheduled", "retryable"])
async def test_retry_makes_a_waiting_job_due_now(engine, state):
    job_id = await in_state(engine, state)
    before = await engine.job(job_id)
    assert await engine.admin.fetchval(engine.sql["retry"], job_id) == state
    assert await engine.promote() == 1
    held = await engine.hold()
    assert held.ids == [job_id]
    assert held.body(job_id)[4] == before["attempt"]


@pytest.mark.parametrize("state", ["failed", "cancelled"])
async def test_retry_runs_an_ended_job_again_from_the_first_attempt_with_its_history(engine, state):
    job_id = await in_state(engine, state)
    errors = await engine.errors(job_id)
    assert await engine.admin.fetchval(engine.sql["retry"], job_id) == state
    held = await engine.hold()
    assert (held.ids, held.body(job_id)[4]) == ([job_id], 0)
    assert await engine.errors(job_id) == errors
    await engine.finish(held)
    assert await engine.counts() == {"completed": 1}


@pytest.mark.parametrize("state", ["available", "running", "completed"])
async def test_retry_leaves_what_is_on_its_way_or_has_succeeded(engine, state):
    job_id = await in_state(engine, state)
    before = await engine.job(job_id)
    assert await engine.admin.fetchval(engine.sql["retry"], job_id) == state
    assert await engine.job(job_id) == before
    assert await engine.counts() == {state: 1}


async def test_a_running_job_s_worker_is_told_which_attempt_was_cancelled(engine):
    job_id = await in_state(engine, "running")
    lease = (await engine.job(job_id))["run_lease"]
    session, told = await engine.session(), asyncio.Queue()
    await session.add_listener("awa:cancel", lambda *args: told.put_nowait(args[-1]))
    await engine.admin.fetchval(engine.sql["cancel"], job_id)
    text = await asyncio.wait_for(told.get(), 10)
    assert json.loads(text) == {"job_id": job_id, "run_lease": lease}


@pytest.mark.parametrize("action", ["cancel", "retry"])
async def test_single_job_actions_refuse_a_transaction_that_has_written(engine, action):
    job_id = await in_state(engine, "available")
    session = await engine.session()
    await session.execute("begin; select pg_current_xact_id()")
    with pytest.raises(IsolationUnsupported, match="a transaction of its own"), translated():
        await session.fetchval(engine.sql[action], job_id)
    await session.execute("rollback")
    assert await engine.state(job_id) == "available"


async def test_cancelled_places_are_passed_over_without_a_gap(quiet_engine):
    engine = quiet_engine
    ids = await engine.enqueue(engine.admin, *range(6))
    for job_id in ids[::2]:
        await engine.admin.fetchval(engine.sql["cancel"], job_id)
    held = await engine.hold()
    assert held.ids == ids[1::2]
    assert await engine.holes() == (0, 0)
    assert not held.in_flight


# --- races, forced by locks ----------------------------------------------------------------------


async def test_a_cancel_that_waits_for_a_claim_cancels_the_attempt(engine):
    """It saw a ready job, waited for the lane, and looks again: the job runs by then."""
    (job_id,) = await engine.enqueue(engine.admin, 1)
    claimer, canceller = await engine.session(), await engine.session()
    transaction = claimer.transaction()
    await transaction.start()
    held = await engine.hold(claimer)
    cancelling = asyncio.create_task(canceller.fetchval(engine.sql["cancel"], job_id))
    await engine.waits_for_lock(canceller.get_server_pid())
    await transaction.commit()
    assert await cancelling == "running"
    assert await engine.state(job_id) == "cancelled"
    assert await engine.finish(held) == {job_id}
    assert await engine.counts() == {"cancelled": 1}


async def test_a_claim_that_waits_for_a_cancel_does_not_get_the_job(engine):
    (job_id,) = await engine.enqueue(engine.admin, 1)
    canceller, claimer = await engine.session(), await engine.session()
    transaction = canceller.transaction()
    await transaction.start()
    await canceller.fetchval(engine.sql["cancel"], job_id)
    claiming = asyncio.create_task(engine.hold(claimer))
    await engine.waits_for_lock(claimer.get_server_pid())
    await transaction.commit()
    assert (await claiming).ids == []
    assert await engine.counts() == {"cancelled": 1}


@pytest.mark.parametrize("end", [COMPLETED, Failed("x"), Failed("x", terminal=True)])
@pytest.mark.parametrize("first", ["cancel", "finish"])
async def test_of_a_cancel_and_a_finish_the_first_wins_and_the_second_sees_it(engine, first, end):
    (job_id,) = await engine.enqueue(engine.admin, 1)
    held = await engine.hold()
    one, two = await engine.session(), await engine.session()
    calls = {
        "cancel": lambda session: session.fetchval(engine.sql["cancel"], job_id),
        "finish": lambda session: engine.finish(held, end, session=session),
    }
    second = "finish" if first == "cancel" else "cancel"
    transaction = one.transaction()
    await transaction.start()
    answers = {first: await calls[first](one)}
    waiting = asyncio.create_task(calls[second](two))
    await engine.waits_for_lock(two.get_server_pid())
    await transaction.commit()
    answers[second] = await waiting
    state = await engine.state(job_id)
    if first == "cancel":
        assert (answers, state) == ({"cancel": "running", "finish": {job_id}}, "cancelled")
    else:
        assert answers["finish"] == set()
        # A cancel that comes after a failure stops the retry; after an end it changes nothing.
        expected = {"completed": "completed", "retryable": "cancelled", "failed": "failed"}
        assert state == expected[answers["cancel"]]
    assert sum((await engine.counts()).values()) == 1


@pytest.mark.parametrize("other", ["rescue", "finish", "settle"])
async def test_of_two_that_end_an_attempt_one_does(engine, other):
    """Two rescuers, a rescue and a finish, a rescue and the supervisor's settling."""
    worker = await engine.register()
    (job_id,) = await engine.enqueue(engine.admin, 1)
    held = await engine.hold(worker=worker)
    await engine.beat(worker, [held], started=held)
    await engine.admin.fetchval("select awa.mark_dead_v1($1, 'x')", worker)
    gate, one, two = [await engine.session() for _ in range(3)]
    (claim, seq) = held.attempts[job_id]
    lock = gate.transaction()
    await lock.start()
    await gate.execute(
        "select from awa.claim_batches where claim_id = $1 for no key update", claim.claim_id
    )
    first = asyncio.create_task(one.fetch(engine.sql["rescue"], True))
    await engine.waits_for_lock(one.get_server_pid())
    second = asyncio.create_task(
        {
            "rescue": lambda: two.fetch(engine.sql["rescue"], True),
            "finish": lambda: engine.finish(held, session=two),
            "settle": lambda: two.fetchval(
                engine.sql["settle"], worker, "x", [claim.claim_id], [seq]
            ),
        }[other]()
    )
    if other != "rescue":  # a second rescuer passes over a worker that somebody is busy with
        await engine.waits_for_lock(two.get_server_pid())
    await lock.commit()
    rescued = sum(row["rescued"] for row in await first)
    answer = await second
    ended = {
        "rescue": lambda: sum(row["rescued"] for row in answer),
        "finish": lambda: int(answer == set()),
        "settle": lambda: answer,
    }[other]()
    assert rescued + ended == 1
    state = await engine.state(job_id)
    assert state == ("completed" if other == "finish" and ended else "retryable")
    assert sum((await engine.counts()).values()) == 1


async def test_a_cancel_of_a_deferred_job_and_its_promotion_exclude_each_other(engine):
    (job_id,) = await engine.enqueue(engine.admin, 1, run_at=PAST)
    promoter, canceller = await engine.session(), await engine.session()
    transaction = promoter.transaction()
    await transaction.start()
    assert (await promoter.fetchrow(engine.sql["promote"], 10))["promoted"] == 1
    cancelling = asyncio.create_task(canceller.fetchval(engine.sql["cancel"], job_id))
    await engine.waits_for_lock(canceller.get_server_pid())
    await transaction.commit()
    assert await cancelling == "available"
    assert await engine.counts() == {"cancelled": 1}
    assert (await engine.hold()).ids == []


async def test_a_claim_waits_only_for_a_lane_when_there_is_no_other(engine):
    """A busy lane is passed over while another has work, and waited for when it is the only one."""
    (low,) = await engine.enqueue(engine.admin, 1, priority=4)
    await engine.enqueue(engine.admin, 2)
    gate = await engine.session()
    await gate.execute(f"select pg_advisory_lock({LANE_LOCK}, {engine.lane})")
    held = await engine.hold()
    assert (held.ids, held.in_flight) == ([low], True)
