"""Reads: a job is found in every state and place, at every moment, once."""

import asyncio
import json
from datetime import timedelta

import pytest

from awa._store.attempts import GIVEN_BACK
from awa.outcome import COMPLETED, Cancelled, Failed, Snoozed
from support.engine import FUTURE, PAST

STATES = ("scheduled", "available", "running", "completed", "retryable", "failed", "cancelled")


async def in_state(engine, number: int, state: str, **options) -> int:
    """Make a job that is in a state."""
    run_at = FUTURE if state == "scheduled" else None
    (job_id,) = await engine.enqueue(engine.admin, number, run_at=run_at, **options)
    if state in {"scheduled", "available"}:
        return job_id
    queue = options.get("queue", "q")
    held = await engine.hold(queues=(queue,), kinds=(options.get("kind", "k"),), limit=10_000)
    assert held.ids == [job_id]
    ends = {
        "completed": COMPLETED,
        "retryable": Failed("x"),
        "failed": Failed("x", terminal=True),
        "cancelled": Cancelled("x"),
    }
    if state != "running":
        await engine.finish(held, ends[state])
    return job_id


@pytest.mark.parametrize("state", STATES)
async def test_a_job_is_read_with_everything_it_was_given(engine, state):
    payload = {"tags": ["a", "b"], "metadata": {"m": [1, None]}}
    job_id = await in_state(
        engine, 7, state, queue="other", priority=3, max_attempts=9, payload=payload
    )
    job = await engine.job(job_id)
    assert (job["id"], job["kind"], job["queue"], job["state"]) == (job_id, "k", "other", state)
    assert (job["priority"], job["max_attempts"]) == (3, 9)
    assert json.loads(job["args"]) == {"n": 7}
    found = json.loads(job["payload"])
    assert {key: found[key] for key in payload} == payload
    ran = state not in {"scheduled", "available"}
    assert job["attempt"] == ran
    assert (job["run_lease"] > 0) == ran
    assert (job["finalized_at"] is not None) == (state in set(STATES[3:]))
    assert job["created_at"] is not None


async def test_nobody_is_found_by_a_number_that_stands_for_nothing(engine):
    (job_id,) = await engine.enqueue(engine.admin, 1)
    for other in (0, -1, 1, job_id + 1, job_id + 1024, 2**63 - 1):
        assert await engine.job(other) is None
        assert await engine.admin.fetchval(engine.sql["cancel"], other) is None
        assert await engine.admin.fetchval(engine.sql["retry"], other) is None


async def test_a_job_is_found_on_its_whole_way_through_the_engine(engine):
    """Every place that a job can be in, one after the other, with one identity."""
    (job_id,) = await engine.enqueue(engine.admin, 1, run_at=PAST)
    seen = [await engine.state(job_id)]
    await engine.promote()
    for end in (GIVEN_BACK, Failed("x"), Snoozed(timedelta(0)), COMPLETED):
        seen.append(await engine.state(job_id))
        held = await engine.hold()
        assert held.ids == [job_id]
        seen.append(await engine.state(job_id))
        if end is COMPLETED:
            await engine.rotate()
            await engine.admin.fetchval(engine.sql["evacuate"], timedelta(0), 10)
            seen.append(await engine.state(job_id))
        await engine.finish(held, end)
        seen.append(await engine.state(job_id))
        await engine.make_due()
        await engine.promote()
    assert seen == [
        "scheduled",
        "available", "running", "available",
        "available", "running", "retryable",
        "available", "running", "scheduled",
        "available", "running", "running", "completed",
    ]  # fmt: skip
    rows = await engine.admin.fetch(engine.sql["list_jobs"], None, None, None, 100)
    assert [(row["id"], row["state"]) for row in rows] == [(job_id, "completed")]


async def test_a_job_in_a_hole_and_a_spilled_one_are_available(quiet_engine):
    engine = quiet_engine
    late, early = await engine.session(), await engine.session()
    transaction = late.transaction()
    await transaction.start()
    (hidden,) = await engine.enqueue(late, 1)
    await engine.enqueue(early, 2)
    await engine.finish(await engine.hold())
    assert await engine.state(hidden) is None
    await transaction.commit()
    assert await engine.state(hidden) == "available"
    assert await engine.counts() == {"available": 1, "completed": 1}
    await engine.admin.execute(
        "insert into awa.lane_holes select lane_id, holes_old, bound_old from awa.claim_batches"
        " where holes_old is not null order by claim_id desc limit 1;"
        " update awa.claim_batches set holes_old = null"
    )
    assert await engine.counts() == {"available": 1, "completed": 1}
    (row,) = await engine.admin.fetch(engine.sql["list_jobs"], "available", None, None, 10)
    assert row["id"] == hidden


async def test_readers_find_every_job_while_others_work(engine):
    """Every reader's every look finds each job, in one state, and counts that add up."""
    ids = await engine.enqueue(engine.admin, *range(30), max_attempts=1000)
    done, all_look = asyncio.Event(), asyncio.Barrier(3)

    async def work() -> None:
        session = await engine.session()
        await all_look.wait()
        for turn in range(12):
            held = await engine.hold(session, limit=10)
            end = (Failed("x"), GIVEN_BACK, Snoozed(timedelta(0)), Failed("x"))[turn % 4]
            await engine.finish(held, end, session=session)
            await session.execute("update awa.deferred_jobs set run_at = '2020-01-01'")
            await session.fetchrow(engine.sql["promote"], 100)
        done.set()

    async def read() -> int:
        session, looks = await engine.session(), 0
        while not done.is_set():
            for job_id in ids[:: 7 + looks % 3]:
                assert await session.fetchrow(engine.sql["get_job"], job_id) is not None
            row = await session.fetchrow(engine.sql["queue_counts"], "q")
            states = ("scheduled", "available", "running", "retryable")
            assert sum(row[state] for state in states) == 30
            looks += 1
            if looks == 1:
                await all_look.wait()
        return looks

    *looks, _ = await asyncio.gather(read(), read(), work())
    assert min(looks) > 1


async def test_lists_are_by_state_kind_and_queue_and_bounded(engine):
    made = {}
    for state in STATES:
        for kind, queue in (("k", "q"), ("other", "q"), ("k", "elsewhere")):
            lane = {"kind": kind, "queue": queue, "priority": 2}
            # Each in a moment of its own: a claim takes what there is.
            made[(state, kind, queue)] = await in_state(engine, 1, state, **lane)
            if state == "available":
                await engine.admin.fetchval(engine.sql["cancel"], made[(state, kind, queue)])
    for key in [key for key in made if key[0] == "available"]:
        await engine.admin.fetchval(engine.sql["retry"], made[key])

    async def listed(state=None, kind=None, queue=None, limit=100):
        rows = await engine.admin.fetch(engine.sql["list_jobs"], state, kind, queue, limit)
        for row in rows:
            assert row["output"] is None
            assert state in (None, row["state"])
            assert kind in (None, row["kind"])
            assert queue in (None, row["queue"])
        return {row["id"] for row in rows}

    for state in STATES:
        assert await listed(state) == {v for k, v in made.items() if k[0] == state}
        for kind, queue in (("k", "q"), ("other", "q"), ("k", "elsewhere"), ("none", "q")):
            expected = {made[(state, kind, queue)]} if kind != "none" else set()
            assert await listed(state, kind, queue) == expected
    assert await listed() == set(made.values())
    assert await listed(kind="other") == {v for k, v in made.items() if k[1] == "other"}
    assert await listed(queue="nowhere") == set()
    assert len(await listed(limit=4)) == 4


async def test_lists_come_next_first_or_newest_first(engine):
    later, sooner = [
        (await engine.enqueue(engine.admin, 1, run_at=FUTURE + timedelta(days=days)))[0]
        for days in (2, 1)
    ]
    first, second = await engine.enqueue(engine.admin, 1, 2)
    rows = await engine.admin.fetch(engine.sql["list_jobs"], "scheduled", None, None, 10)
    assert [row["id"] for row in rows] == [sooner, later]
    rows = await engine.admin.fetch(engine.sql["list_jobs"], "available", None, None, 10)
    assert [row["id"] for row in rows] == [first, second]
    for _ in range(2):
        await engine.finish(await engine.hold(limit=1))
    rows = await engine.admin.fetch(engine.sql["list_jobs"], "completed", None, None, 10)
    assert [row["id"] for row in rows] == [second, first]
