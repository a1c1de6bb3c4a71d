"""Which job comes first: priorities, aging, several queues in one call, pauses."""

import pytest

from support.engine import QUEUE


async def age(engine, lane: tuple[str, int], seconds: float) -> None:
    """Let what waits in a lane have waited."""
    await engine.admin.execute(
        "update awa.ready_entries r set created_at = created_at - make_interval(secs => $3)"
        " from awa.lanes l where l.lane_id = r.lane_id and l.queue = $1 and l.priority = $2",
        *lane, seconds,
    )  # fmt: skip


async def test_lower_numbers_come_first_whatever_the_order_of_enqueueing(engine):
    by_priority = {}
    for priority in (4, 2, 1, 3):
        by_priority[priority] = await engine.enqueue(engine.admin, 1, 2, priority=priority)
    order = [job for _ in range(8) for job in (await engine.hold(limit=1)).ids]
    assert order == [job for priority in (1, 2, 3, 4) for job in by_priority[priority]]


async def test_within_a_lane_jobs_come_in_the_order_of_enqueueing(engine):
    ids = [(await engine.enqueue(engine.admin, number))[0] for number in range(20)]
    assert (await engine.hold()).ids == ids


@pytest.mark.parametrize(("waited", "first"), [(2900, "high"), (3001, "low")])
async def test_a_lane_gains_a_priority_for_each_interval_that_its_head_has_waited(
    engine, waited, first
):
    """Three intervals lift priority 4 to 1; there the job that has waited longer is first."""
    (low,) = await engine.enqueue(engine.admin, 1, priority=4)
    (high,) = await engine.enqueue(engine.admin, 2, priority=1)
    await age(engine, (QUEUE, 4), waited)
    held = await engine.hold(limit=1, aging=1000)
    assert held.ids == [low if first == "low" else high]
    (claim, _) = held.attempts[held.ids[0]]
    assert claim.head.priority == 1


async def test_without_aging_a_low_priority_waits(engine):
    await engine.enqueue(engine.admin, 1, priority=4)
    (high,) = await engine.enqueue(engine.admin, 2, priority=1)
    await age(engine, (QUEUE, 4), 1_000_000)
    assert (await engine.hold(limit=1, aging=0)).ids == [high]


async def test_one_call_serves_several_queues_each_within_its_limit(engine):
    by_queue = {}
    for queue in ("a", "b", "c"):
        by_queue[queue] = await engine.enqueue(engine.admin, *range(10), queue=queue)
    held = await engine.hold(limit=3, queues=("c", "a", "nothing here"))
    assert sorted(held.ids) == sorted(by_queue["a"][:3] + by_queue["c"][:3])
    queues = {claim.head.queue for claim, _ in held.attempts.values()}
    assert queues == {"a", "c"}
    assert (await engine.counts("b"))["available"] == 10


async def test_a_limit_counts_over_the_priorities_of_a_queue(engine):
    high = await engine.enqueue(engine.admin, 1, 2, priority=1)
    low = await engine.enqueue(engine.admin, 3, 4, priority=3)
    assert sorted((await engine.hold(limit=3)).ids) == sorted(high + low[:1])


async def test_a_flood_in_one_queue_leaves_the_limit_of_the_other_alone(engine):
    await engine.enqueue(engine.admin, *range(2000), queue="flood")
    few = await engine.enqueue(engine.admin, 1, 2, queue="few")
    held = await engine.hold(limit=10, queues=("flood", "few"))
    assert len(held.ids) == 12
    assert set(few) <= set(held.ids)


async def test_a_paused_queue_hands_out_nothing_until_it_is_resumed(engine):
    ids = await engine.enqueue(engine.admin, 1, 2)
    (running,) = (await engine.hold(limit=1)).ids
    await engine.admin.fetchval(engine.sql["pause_queue"], QUEUE, "me")
    assert (await engine.hold()).ids == []
    await engine.enqueue(engine.admin, 3)
    assert (await engine.counts()) == {"available": 2, "running": 1}
    assert await engine.state(running) == "running"
    row = await engine.admin.fetchrow("select paused, paused_by, paused_at from awa.queue_meta")
    assert (row["paused"], row["paused_by"]) == (True, "me")
    # A second pause keeps who was first.
    await engine.admin.fetchval(engine.sql["pause_queue"], QUEUE, "somebody else")
    assert await engine.admin.fetchval("select paused_by from awa.queue_meta") == "me"
    assert await engine.admin.fetchval(engine.sql["resume_queue"], QUEUE) is True
    assert await engine.admin.fetchval(engine.sql["resume_queue"], QUEUE) is False
    assert (await engine.hold()).ids[0] == ids[1]


async def test_a_pause_of_one_queue_stops_no_other(engine):
    await engine.enqueue(engine.admin, 1, queue="a")
    (other,) = await engine.enqueue(engine.admin, 1, queue="b")
    await engine.admin.fetchval(engine.sql["pause_queue"], "a", None)
    assert (await engine.hold(queues=("a", "b"))).ids == [other]


async def test_a_queue_may_be_paused_before_it_has_ever_been_used(engine):
    await engine.admin.fetchval(engine.sql["pause_queue"], "later", None)
    await engine.enqueue(engine.admin, 1, queue="later")
    assert (await engine.hold(queues=("later",))).ids == []


async def test_unknown_kinds_go_back_in_the_same_call_uncounted_and_later_each_time(engine):
    (known,) = await engine.enqueue(engine.admin, 1, kind="k")
    (unknown,) = await engine.enqueue(engine.admin, 2, kind="new", max_attempts=1)
    waits = []
    for turn in range(4):
        held = await engine.hold()
        assert held.ids == ([known] if turn == 0 else [])
        job = await engine.job(unknown)
        assert (job["state"], job["attempt"], job["payload"]) == ("scheduled", 0, None)
        waits.append(
            await engine.admin.fetchval("select extract(epoch from $1 - now())", job["run_at"])
        )
        await engine.make_due()
        await engine.promote()
    assert waits == sorted(waits)
    assert waits[-1] > 2 * float(waits[0])


async def test_an_unknown_kind_that_a_live_worker_knows_goes_back_for_a_moment(engine):
    await engine.register(kinds=["new"])
    (job_id,) = await engine.enqueue(engine.admin, 1, kind="new")
    for _ in range(6):
        assert (await engine.hold()).ids == []
        run_at = (await engine.job(job_id))["run_at"]
        assert await engine.admin.fetchval("select $1 < now() + interval '1 second'", run_at)
        await engine.make_due()
        await engine.promote()


async def test_a_worker_that_knows_a_kind_makes_what_was_handed_back_due(engine):
    (job_id,) = await engine.enqueue(engine.admin, 1, kind="new")
    await engine.hold()
    assert (await engine.admin.fetchrow(engine.sql["queue_counts"], QUEUE))["unknown_kinds"] == [
        "new"
    ]
    await engine.admin.execute("update awa.deferred_jobs set run_at = run_at + interval '1 hour'")
    assert await engine.promote() == 0
    worker = await engine.register(kinds=["new"])
    assert await engine.promote() == 1
    assert (await engine.hold(worker=worker, kinds=["new"])).ids == [job_id]
