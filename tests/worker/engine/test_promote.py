"""Deferred jobs become ready when they are due: in order, within a limit, once."""

import asyncio

from awa.outcome import Failed
from support.engine import FUTURE, PAST, QUEUE


async def test_due_jobs_become_ready_in_the_order_of_their_time(engine):
    last, first, middle = await engine.enqueue(engine.admin, 1, 2, 3, run_at=FUTURE)
    for job_id, seconds in ((first, 30), (middle, 20), (last, 10)):
        await engine.admin.execute(
            "update awa.deferred_jobs set run_at = now() - make_interval(secs => $2)"
            " where job_id = $1", job_id, seconds,
        )  # fmt: skip
    assert await engine.promote() == 3
    assert (await engine.hold()).ids == [first, middle, last]


async def test_a_limit_leaves_the_later_ones_for_the_next_call(engine):
    await engine.enqueue(engine.admin, *range(7), run_at=PAST)
    assert [await engine.promote(limit=3) for _ in range(4)] == [3, 3, 1, 0]
    assert await engine.counts() == {"available": 7}


async def test_what_is_not_due_stays_and_its_time_is_told(engine):
    await engine.enqueue(engine.admin, 1, run_at=FUTURE)
    row = await engine.admin.fetchrow(engine.sql["promote"], 10)
    assert (row["promoted"], row["next_due"]) == (0, FUTURE)
    assert await engine.counts() == {"scheduled": 1}


async def test_a_paused_queue_keeps_its_jobs_where_they_wait(engine):
    await engine.enqueue(engine.admin, 1, run_at=PAST)
    await engine.admin.fetchval(engine.sql["pause_queue"], QUEUE, None)
    assert await engine.promote() == 0
    await engine.admin.fetchval(engine.sql["resume_queue"], QUEUE)
    assert await engine.promote() == 1


async def test_a_retried_job_keeps_its_identity_its_count_and_its_history(engine):
    (job_id,) = await engine.enqueue(engine.admin, 1, payload={"tags": ["t"]})
    await engine.finish(await engine.hold(), Failed("first"))
    await engine.make_due()
    await engine.promote()
    held = await engine.hold()
    assert held.ids == [job_id]
    assert held.body(job_id)[4] == 1
    assert [entry["error"] for entry in await engine.errors(job_id)] == ["first"]


async def test_two_that_promote_at_once_promote_each_job_once(engine):
    """The first has its rows locked when the second looks: it passes them over."""
    ids = await engine.enqueue(engine.admin, *range(10), run_at=PAST)
    first = await engine.session()
    transaction = first.transaction()
    await transaction.start()
    assert (await first.fetchrow(engine.sql["promote"], 6))["promoted"] == 6
    async with asyncio.timeout(10):
        assert await engine.promote() == 4
    await transaction.commit()
    assert await engine.promote() == 0
    assert sorted(await drained(engine)) == sorted(ids)


async def test_a_promotion_that_is_rolled_back_loses_nothing(engine):
    await engine.enqueue(engine.admin, 1, run_at=PAST)
    session = await engine.session()
    transaction = session.transaction()
    await transaction.start()
    await session.fetchrow(engine.sql["promote"], 6)
    await transaction.rollback()
    assert await engine.counts() == {"scheduled": 1}
    assert await engine.promote() == 1


async def test_waiting_jobs_in_other_lanes_are_not_in_the_way(engine):
    await engine.enqueue(engine.admin, *range(3000), queue="far", run_at=FUTURE)
    (due,) = await engine.enqueue(engine.admin, 1, run_at=PAST)
    assert await engine.promote(limit=1) == 1
    assert (await engine.hold()).ids == [due]


async def drained(engine) -> list[int]:
    ids: list[int] = []
    while held := (await engine.hold()).ids:
        ids += held
    return ids
