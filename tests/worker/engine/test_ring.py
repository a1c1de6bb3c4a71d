"""The ring turns and slots are emptied: every gate, and that nothing is lost or miscounted."""

import asyncio
from datetime import timedelta

import pytest

from awa.outcome import Cancelled, Failed
from support.engine import begun

HOUR = timedelta(hours=1)
DAY = timedelta(days=1)
"""The first slot is as old as the schema, which is made once for a whole test run."""
EVERYTHING = 10**15


async def prune(engine, retention=timedelta(0), max_bytes=EVERYTHING, session=None):
    """Reclaim; return what happened and to which slot."""
    row = await (session or engine.admin).fetchrow(engine.sql["prune"], retention, max_bytes)
    return row["outcome"], row["pruned_slot"]


async def fill(engine, count: int = 3, done: bool = True) -> list[int]:
    """Enqueue into the current slot, complete it if asked, and enter the next."""
    ids = await engine.enqueue(engine.admin, *range(count))
    if done:
        await engine.finish(await engine.hold())
    await engine.rotate()
    return ids


async def test_a_closed_slot_is_reclaimed_after_its_retention_and_its_count_stays(engine):
    ids = await fill(engine)
    before = await engine.counts()
    assert await prune(engine, HOUR) == ("none", None)
    assert [await engine.state(job_id) for job_id in ids] == ["completed"] * 3
    row = await engine.admin.fetchrow(engine.sql["prune"], timedelta(0), EVERYTHING)
    assert (row["outcome"], row["pruned_slot"], row["pruned_jobs"]) == ("pruned", 0, 3)
    assert [await engine.state(job_id) for job_id in ids] == [None] * 3
    assert await engine.counts() == before == {"completed": 3}
    for table in ("ready_entries", "claim_batches", "receipt_completion_batches"):
        assert await engine.admin.fetchval(f"select count(*) from awa.{table}_00") == 0  # noqa: S608


async def test_history_beyond_its_bytes_goes_before_its_time(engine):
    await fill(engine)
    assert await prune(engine, HOUR, max_bytes=1) == ("pruned", 0)


async def test_the_current_slot_is_never_reclaimed(engine):
    await engine.enqueue(engine.admin, 1)
    await engine.finish(await engine.hold())
    assert await prune(engine) == ("none", None)


@pytest.mark.parametrize("claimed", [True, False])
async def test_a_slot_with_open_or_unclaimed_work_stays_and_later_ones_do_not_wait_for_it(
    engine, claimed
):
    (open_,) = await engine.enqueue(engine.admin, 1)
    held = await engine.hold() if claimed else None
    await engine.rotate()
    if not claimed:
        # Through another lane: the unclaimed one would be handed out first.
        await engine.enqueue(engine.admin, 2, queue="other")
        await engine.finish(await engine.hold(queues=("other",)))
        await engine.rotate()
    else:
        await fill(engine)
    assert await prune(engine) == ("pruned", 1)
    assert await prune(engine) == ("open", 0)
    assert await engine.state(open_) == ("running" if claimed else "available")
    await engine.finish(held or await engine.hold())
    assert await prune(engine) == ("pruned", 0)


async def test_a_body_that_is_not_committed_yet_keeps_its_slot(engine):
    await fill(engine)
    session = await engine.session()
    await engine.enqueue(engine.admin, 1)
    transaction = await begun(session)
    await engine.enqueue(session, 2)  # in the slot that is current now
    await engine.finish(await engine.hold())
    await engine.rotate()
    assert await prune(engine) == ("pruned", 0)
    # Its writer holds a lock on the slot that keeps reclaiming out.
    assert await prune(engine) == ("locked", 1)
    await transaction.commit()
    assert await prune(engine) == ("open", 1)
    await engine.drain()
    assert await prune(engine) == ("pruned", 1)


async def test_a_reader_keeps_a_slot_for_as_long_as_it_reads(engine):
    (job_id, *_) = await fill(engine)
    reader = await engine.session()
    transaction = reader.transaction(isolation="repeatable_read")
    await transaction.start()
    assert await reader.fetchval("select count(*) from awa.ready_entries") == 3
    async with asyncio.timeout(10):
        assert await prune(engine) == ("locked", 0)
    assert await engine.state(job_id) == "completed"
    assert await reader.fetchval("select count(*) from awa.ready_entries") == 3
    await transaction.commit()
    assert await prune(engine) == ("pruned", 0)


async def test_an_old_snapshot_that_has_not_touched_a_slot_does_not_keep_it(engine):
    await fill(engine)
    reader = await engine.session()
    transaction = reader.transaction(isolation="repeatable_read")
    await transaction.start()
    await reader.fetchval("select count(*) from pg_class")
    assert await prune(engine) == ("pruned", 0)
    await transaction.commit()


async def test_a_lane_keeps_its_cursor_when_its_newest_claim_goes(engine):
    await fill(engine, 5)
    await engine.rotate_anyway()
    assert await prune(engine) == ("pruned", 0)
    cursor = await engine.admin.fetchrow(
        "select next_seq, slot, items from awa.claim_batches where lane_id = $1", engine.lane
    )
    assert (cursor["next_seq"], cursor["slot"], cursor["items"]) == (6, 2, [])
    (job_id,) = await engine.enqueue(engine.admin, 9)
    assert (await engine.hold()).ids == [job_id]


async def test_holes_survive_the_slot_of_the_claim_that_remembers_them(quiet_engine):
    engine = quiet_engine
    late = await engine.session()
    transaction = await begun(late)
    await engine.enqueue(engine.admin, 1)
    await engine.finish(await engine.hold())
    # Numbers of a producer that chose its slot before the turn and commits long after.
    await engine.rotate()
    await engine.enqueue(late, 2)
    await engine.enqueue(engine.admin, 3)
    await engine.finish(await engine.hold())
    assert await engine.holes() != (0, 0)
    await engine.rotate()
    assert (await prune(engine))[0] in {"pruned", "locked"}
    assert await engine.holes() != (0, 0)
    await transaction.commit()
    assert await engine.claim_everything() == {2}


async def test_a_lane_that_is_being_claimed_keeps_its_slot_for_now(engine):
    await fill(engine)
    claimer = await engine.session()
    transaction = claimer.transaction()
    await transaction.start()
    await claimer.execute(f"select pg_advisory_xact_lock(hashtext('awa'), {engine.lane})")
    assert await prune(engine) == ("cursor", 0)
    await transaction.commit()
    assert await prune(engine) == ("pruned", 0)


async def test_the_ring_turns_when_a_slot_is_old_or_large_and_has_anything(engine):
    rotate = engine.sql["rotate"]
    assert await engine.admin.fetchval(rotate, timedelta(0), EVERYTHING) == "idle"
    await engine.enqueue(engine.admin, 1)
    assert await engine.admin.fetchval(rotate, DAY, EVERYTHING) == "early"
    assert await engine.admin.fetchval(rotate, DAY, 1) == "rotated"
    await engine.enqueue(engine.admin, 1)
    assert await engine.admin.fetchval(rotate, timedelta(0), EVERYTHING) == "rotated"
    slots = await engine.admin.fetch("select slot from awa.ring_rotations order by generation")
    assert [row["slot"] for row in slots] == [0, 1, 2]


async def test_a_slot_that_is_not_empty_is_never_entered(engine):
    for number in range(15):
        await engine.enqueue(engine.admin, number)
        assert await engine.rotate_anyway() == "rotated"
    await engine.enqueue(engine.admin, 15)
    assert await engine.rotate_anyway() == "busy"
    assert await engine.drain() == 16
    assert await prune(engine) == ("pruned", 0)
    assert await engine.rotate_anyway() == "rotated"


async def test_the_ring_stays_where_it_is_while_somebody_reads_the_next_slot(engine):
    await engine.enqueue(engine.admin, 1)
    reader = await engine.session()
    async with reader.transaction():
        await reader.fetchval("select count(*) from awa.claim_closures_01")
        assert await engine.rotate_anyway() == "locked"
        assert await engine.admin.fetchval("select awa.current_slot()") == 0
    assert await engine.rotate_anyway() == "rotated"


async def test_an_old_snapshot_writes_to_an_old_slot_and_its_job_is_found(engine):
    """A slot that was emptied and written to again is alive, and not entered while it is."""
    old = await engine.session()
    transaction = old.transaction(isolation="repeatable_read")
    await transaction.start()
    await old.fetchval("select count(*) from awa.lanes")
    for _ in range(3):
        await fill(engine)
    while (await prune(engine))[0] == "pruned":
        pass
    (job_id,) = await engine.enqueue(old, 99)
    await transaction.commit()
    assert await engine.admin.fetchval("select count(*) from awa.ready_entries_00") == 1
    assert await engine.state(job_id) == "available"
    assert (await engine.hold()).ids == [job_id]


async def test_a_round_of_the_whole_ring_keeps_counts_exact(engine):
    done = 0
    for turn in range(40):
        await engine.enqueue(engine.admin, *range(turn % 5 + 1))
        held = await engine.hold()
        last = held.part(held.ids[-1:])
        await engine.finish(held.part(held.ids[:-1]))
        await engine.finish(last, Cancelled("x"))
        done += len(held.ids)
        assert await engine.rotate_anyway() == "rotated"
        await prune(engine)
        counts = await engine.counts()
        assert counts.get("completed", 0) + counts["cancelled"] == done
        assert counts["cancelled"] == turn + 1
    assert await engine.admin.fetchval("select max(generation) from awa.ring_rotations") == 41


async def test_counts_are_exact_at_every_moment_of_a_reclaim(engine):
    """A reader sees the totals either in the slot or in their sum, never both and never neither."""
    await fill(engine, 50)
    session = await engine.session()
    transaction = session.transaction()
    await transaction.start()
    assert await prune(engine, session=session) == ("pruned", 0)
    reader = await engine.session()
    counting = asyncio.create_task(reader.fetchrow(engine.sql["queue_counts"], "q"))
    await engine.waits_for_lock(reader.get_server_pid())
    await transaction.commit()
    assert (await counting)["completed"] == 50


async def test_retention_outside_the_ring_is_by_outcome_and_keeps_counts(engine):
    failed, cancelled = await engine.enqueue(engine.admin, 1, 2)
    held = await engine.hold()
    await engine.finish(held.part([failed]), Failed("x", terminal=True))
    await engine.finish(held.part([cancelled]), Cancelled("x"))
    before = await engine.counts()
    retire = engine.sql["retire"]
    assert await engine.admin.fetchval(retire, HOUR, HOUR, 10) == 0
    assert await engine.admin.fetchval(retire, timedelta(0), HOUR, 10) == 1
    assert (await engine.state(cancelled), await engine.state(failed)) == (None, "failed")
    assert await engine.admin.fetchval(retire, HOUR, timedelta(0), 10) == 1
    assert await engine.state(failed) is None
    assert await engine.counts() == before
