"""Attempts that have left the ring while they run: the same ends, the same guard."""

import json
from datetime import timedelta

import pytest

from awa._store.attempts import GIVEN_BACK
from awa.outcome import COMPLETED, Cancelled, Failed, RetryRequested, Snoozed
from support.engine import Held, Unique

ENDS = {
    "completed": COMPLETED,
    "retryable": Failed("x"),
    "failed": Failed("x", terminal=True),
    "cancelled": Cancelled("x"),
    "scheduled": Snoozed(timedelta(hours=1)),
    "available": GIVEN_BACK,
}


async def evacuated(engine, *numbers: int, deadline: float = 0, **options) -> Held:
    """Claim jobs and let them leave the ring."""
    await engine.enqueue(engine.admin, *numbers, **options)
    held = await engine.hold(deadline=deadline)
    await engine.rotate()
    moved = await engine.admin.fetchval(engine.sql["evacuate"], timedelta(0), 100)
    assert moved == len(held.ids)
    return held


async def test_a_long_runner_leaves_the_ring_and_its_slot_can_be_reclaimed(engine):
    held = await evacuated(engine, 1)
    (job_id,) = held.ids
    job = await engine.job(job_id)
    claim, _ = held.attempts[job_id]
    assert (job["state"], job["attempt"], job["run_lease"]) == ("running", 1, claim.claim_id)
    assert job["attempted_at"] == claim.head.claimed_at
    row = await engine.admin.fetchrow(engine.sql["prune"], timedelta(0), 10**15)
    assert row["outcome"] == "pruned"
    assert (await engine.job(job_id))["state"] == "running"
    assert await engine.finish(held) == set()
    assert await engine.state(job_id) == "completed"
    assert await engine.counts() == {"completed": 1}


@pytest.mark.parametrize(("state", "end"), ENDS.items(), ids=list(ENDS))
async def test_every_end_leads_where_it_does_in_the_ring(engine, state, end):
    payload = {"tags": ["t"], "metadata": {"m": 1}}
    ring = await engine.enqueue(engine.admin, 1, payload=payload)
    held = await engine.hold()
    await engine.finish(held, end, progress='{"percent": 1}')
    other = await evacuated(engine, 2, payload=payload)
    assert await engine.finish(other, end, progress='{"percent": 1}') == set()
    inside, outside = await engine.job(ring[0]), await engine.job(other.ids[0])
    assert outside["state"] == inside["state"] == state
    for same in ("attempt", "max_attempts", "kind", "queue", "priority"):
        assert outside[same] == inside[same]
    payloads = [json.loads(job["payload"]) for job in (inside, outside)]
    for found in payloads:
        for entry in found.get("errors", ()):
            entry.pop("at")
    assert payloads[0] == payloads[1]
    assert await engine.finish(other, end) == set(other.ids)
    assert await engine.admin.fetchval("select count(*) from awa.leases") == 0


async def test_a_retry_request_at_the_last_attempt_fails_it(engine):
    held = await evacuated(engine, 1, max_attempts=1)
    await engine.finish(held, RetryRequested(timedelta(seconds=5)))
    assert [e["error"] for e in await engine.errors(held.ids[0])] == [
        "max_attempts exhausted (handler requested retry after 5s)"
    ]


async def test_one_flush_ends_attempts_inside_and_outside_of_the_ring(engine):
    outside = await evacuated(engine, 1, 2)
    await engine.enqueue(engine.admin, 3)
    inside = await engine.hold()
    both = Held(outside.attempts | inside.attempts)
    await engine.admin.fetchval(engine.sql["cancel"], outside.ids[0])
    assert await engine.finish(both) == {outside.ids[0]}
    assert await engine.counts() == {"cancelled": 1, "completed": 2}


async def test_outputs_of_both_places_are_stored_exactly(engine):
    outside = await evacuated(engine, 1, 2)
    await engine.enqueue(engine.admin, 3)
    inside = await engine.hold()
    both = Held(outside.attempts | inside.attempts)
    outputs = {outside.ids[1]: '{"b": 1.0,  "a": 2}', inside.ids[0]: '{"b": 1.0,  "a": 2}'}
    await engine.finish(both, outputs=outputs)
    assert [(await engine.job(job_id))["output"] for job_id in both.ids] == [
        None, *[outputs[inside.ids[0]]] * 2
    ]  # fmt: skip


async def test_a_dead_worker_s_attempts_outside_of_the_ring_are_rescued(engine):
    held = await evacuated(engine, 1)
    await engine.admin.fetchval("select awa.mark_dead_v1($1, 'x')", engine.worker)
    assert await engine.rescue() == {engine.worker: 1}
    assert await engine.state(held.ids[0]) == "retryable"
    assert await engine.finish(held) == set(held.ids)


async def test_a_deadline_counts_outside_of_the_ring_too(engine):
    held = await evacuated(engine, 1, deadline=0.001)
    rows = await engine.admin.fetch(engine.sql["rescue_overdue"])
    assert [row["job_id"] for row in rows] == held.ids
    assert await engine.state(held.ids[0]) == "retryable"


async def test_only_slots_with_few_open_attempts_are_left(engine):
    await engine.enqueue(engine.admin, *range(5))
    await engine.hold()
    await engine.rotate()
    evacuate = engine.sql["evacuate"]
    assert await engine.admin.fetchval(evacuate, timedelta(hours=1), 100) == 0
    assert await engine.admin.fetchval(evacuate, timedelta(0), 4) == 0
    assert await engine.admin.fetchval(evacuate, timedelta(0), 5) == 5


async def test_unclaimed_jobs_of_an_old_slot_stay_where_they_are(engine):
    ids = await engine.enqueue(engine.admin, 1, 2, 3)
    held = await engine.hold(limit=1)
    await engine.rotate()
    assert await engine.admin.fetchval(engine.sql["evacuate"], timedelta(0), 100) == 1
    assert (await engine.hold()).ids == ids[1:]
    assert await engine.state(held.ids[0]) == "running"


async def test_a_completion_that_finds_its_key_taken_is_a_completion(engine):
    mask = Unique(("completed",))
    held = await evacuated(engine, 1, unique=mask)
    (rival,) = await engine.enqueue(engine.admin, 2, unique=mask)
    await engine.finish(await engine.hold())
    assert await engine.holder() == rival
    await engine.finish(held)
    assert await engine.state(held.ids[0]) == "completed"
    assert await engine.holder() == rival
