"""Late commits never fall behind the cursor: interleavings of real sessions, forced step by step.

Each schedule is run as it is, where nothing may be lost, and with the engine broken in the one way
that the schedule is about, where it must lose a job: so the schedule is known to see it. The same
variants are configurations of the model in correctness/.
"""

import asyncio

import pytest

from support.engine import LANE_LOCK, begun

PAUSE = 4242  # an advisory lock at which an instrumented function waits


@pytest.mark.parametrize("broken", [False, True], ids=["right", "bound-is-snapshot-xmax"])
async def test_a_bound_covers_producers_newer_than_the_newest_completed(quiet_engine, broken):
    if broken:
        await quiet_engine.change(
            "claim_v1", ("pg_current_xact_id())", "pg_snapshot_xmax(pg_current_snapshot()))")
        )
    late, early = await quiet_engine.session(), await quiet_engine.session()
    older = await begun(early)
    newer = await begun(late)
    await quiet_engine.enqueue(late, 1)
    await quiet_engine.enqueue(early, 2)
    await older.commit()
    taken = set((await quiet_engine.claim()).jobs)
    taken |= set((await quiet_engine.claim()).jobs)
    await newer.commit()
    taken |= await quiet_engine.claim_everything()
    assert taken == ({2} if broken else {1, 2})


@pytest.mark.parametrize("broken", [False, True], ids=["right", "own-id-before-the-read"])
async def test_the_own_transaction_id_is_taken_after_the_read(quiet_engine, broken):
    if broken:
        await quiet_engine.change(
            "claim_v1",
            ("_if_assigned() is not null then", "_if_assigned() is null then"),
            ("declare\n", "declare\n    v_mine xid8 := pg_current_xact_id();\n"),
            ("v_looks, pg_current_xact_id())", "v_looks, v_mine)"),
        )  # fmt: skip
    gate, claimer = await quiet_engine.session(), await quiet_engine.session()
    late, early = await quiet_engine.session(), await quiet_engine.session()
    await gate.execute(f"select pg_advisory_lock({LANE_LOCK}, {quiet_engine.lane})")
    first = asyncio.create_task(quiet_engine.claim(claimer))
    await quiet_engine.waits_for_lock(claimer.get_server_pid())
    newer = await begun(late)
    await quiet_engine.enqueue(late, 1)
    await quiet_engine.enqueue(early, 2)
    await gate.execute(f"select pg_advisory_unlock({LANE_LOCK}, {quiet_engine.lane})")
    taken = set((await first).jobs)
    assert taken == {2}  # the claim that waited used a snapshot from after the wait
    taken |= set((await quiet_engine.claim()).jobs)
    await newer.commit()
    taken |= await quiet_engine.claim_everything()
    assert taken == ({2} if broken else {1, 2})


@pytest.mark.parametrize("broken", [False, True], ids=["right", "dropped-because-bound-passed"])
async def test_a_body_that_the_limit_left_behind_keeps_its_hole(quiet_engine, broken):
    if broken:
        await quiet_engine.change(
            "look", ("if v_passed and v_slots = v_every and v_left > 0", "if v_passed")
        )
    late, early = await quiet_engine.session(), await quiet_engine.session()
    transaction = await begun(late)
    await quiet_engine.enqueue(late, 1, 2, 3)
    await quiet_engine.enqueue(early, 4)
    taken = set((await quiet_engine.claim()).jobs)
    await transaction.commit()
    taken |= set((await quiet_engine.claim(limit=1)).jobs)
    taken |= await quiet_engine.claim_everything()
    assert taken == ({4, 1} if broken else {1, 2, 3, 4})


@pytest.mark.parametrize("broken", [False, True], ids=["right", "dropped-after-a-partial-look"])
async def test_a_body_in_an_old_slot_keeps_its_hole(quiet_engine, broken):
    if broken:
        await quiet_engine.change(
            "look",
            ("then v_every else v_recent end", "then v_recent else v_recent end"),
            ("v_passed and v_slots = v_every and v_left > 0", "v_passed and v_left > 0"),
        )
    late, early = await quiet_engine.session(), await quiet_engine.session()
    transaction = await begun(late)
    await quiet_engine.enqueue(late, 1)  # chooses the slot that is current now
    await quiet_engine.enqueue(early, 2)
    taken = set((await quiet_engine.claim()).jobs)
    for number in (3, 4):
        await quiet_engine.rotate()
        await quiet_engine.enqueue(early, number)
    await transaction.commit()
    taken |= await quiet_engine.claim_everything()
    assert taken == ({2, 3, 4} if broken else {1, 2, 3, 4})


@pytest.mark.parametrize("broken", [False, True], ids=["right", "number-before-the-id"])
async def test_a_producer_takes_its_id_before_it_draws(quiet_engine, broken):
    late, early = await quiet_engine.session(), await quiet_engine.session()
    # The server logs a sequence every 32 numbers and takes an id then: get past that moment.
    await quiet_engine.enqueue(early, 0)
    transaction = late.transaction()
    await transaction.start()
    if not broken:
        await late.fetchval("select pg_current_xact_id()::text")
    number = await late.fetchval(
        "select nextval(sequence) from awa.lanes where lane_id = $1", quiet_engine.lane
    )
    await quiet_engine.enqueue(early, 2)
    taken = set((await quiet_engine.claim()).jobs)
    await late.execute(
        "insert into awa.ready_entries (lane_seq, job_id, created_at, lane_id, slot, attempt,"
        " max_attempts, kind, args)"
        " values ($1::bigint, $1 * 1024 + $2::int, now(), $2, 0, 0, 25, 'k', '{\"n\": 1}')",
        number, quiet_engine.lane,
    )  # fmt: skip
    taken |= await quiet_engine.claim_everything(3)
    await transaction.commit()
    taken |= await quiet_engine.claim_everything()
    assert taken == ({0, 2} if broken else {0, 1, 2})


async def test_every_insert_path_takes_the_id_before_it_draws(quiet_engine):
    """`draw` is where numbers come from, and it has the id before the first of them."""
    session = await quiet_engine.session()
    await quiet_engine.enqueue(session, 0)
    source = await session.fetchval("select pg_get_functiondef('awa.draw'::regproc)")
    assert source.index("pg_current_xact_id()") < source.index("nextval")
    others = await session.fetch(
        "select proname from pg_proc where pronamespace = 'awa'::regnamespace and proname <> 'draw'"
        " and prosrc ~ 'nextval\\([^)]*sequence'"
    )
    assert [row["proname"] for row in others] == []


@pytest.mark.parametrize("broken", [False, True], ids=["right", "xmin-of-the-second-snapshot"])
async def test_xmin_comes_from_before_the_bodies_are_read(quiet_engine, broken):
    pause = f"    perform pg_advisory_xact_lock({PAUSE});\n"
    marker = "    v_look.taken := 0;\n"
    late_xmin = (
        "    v_xmin := pg_snapshot_xmin(pg_current_snapshot());\n"
        "    v_passed := v_xmin >= v_look.bound_old and not isempty(v_look.holes_old);\n"
        "    v_slots := v_every;\n"
    )
    await quiet_engine.change("look", (marker, pause + (late_xmin if broken else "") + marker))
    late, early, gate, claimer = [await quiet_engine.session() for _ in range(4)]
    transaction = await begun(late)
    await quiet_engine.enqueue(late, 1)
    await quiet_engine.enqueue(early, 2)
    taken = set((await quiet_engine.claim()).jobs)
    await gate.execute(f"select pg_advisory_lock({PAUSE})")
    second = asyncio.create_task(quiet_engine.claim(claimer))
    await quiet_engine.waits_for_lock(claimer.get_server_pid())
    await transaction.commit()
    await gate.execute(f"select pg_advisory_unlock({PAUSE})")
    taken |= set((await second).jobs)
    taken |= await quiet_engine.claim_everything()
    assert taken == ({2} if broken else {1, 2})


@pytest.mark.parametrize("broken", [False, True], ids=["right", "one-generation"])
async def test_a_busy_lane_drops_its_dead_holes(quiet_engine, broken):
    """Somebody is always writing, and every claim meets a number that was rolled back."""
    if broken:
        await quiet_engine.change(
            "add_holes",
            ("if isempty(p_look.holes_old) then", "if true then"),
            (
                "p_look.holes_old := p_look.holes_new;",
                "p_look.holes_old := p_look.holes_old + p_look.holes_new;",
            ),
        )
    producer = await quiet_engine.session()
    writers = [await quiet_engine.session() for _ in range(3)]
    open_writes = []
    for turn in range(12):
        open_writes.append(await begun(writers[turn % 3]))
        transaction = await begun(producer)
        await quiet_engine.enqueue(producer, 1000 + turn)
        await transaction.rollback()
        await quiet_engine.enqueue(producer, turn)
        await quiet_engine.admin.execute(
            "update awa.claim_batches set looked_at = null"
        )  # no throttle
        assert set((await quiet_engine.claim()).jobs) == {turn}
        if len(open_writes) > 2:
            await open_writes.pop(0).commit()
    old, new = await quiet_engine.holes()
    assert old + new > 8 if broken else old + new <= 5
    for write in open_writes:
        await write.commit()


async def test_a_rolled_back_producer_leaves_no_hole(quiet_engine):
    late, early = await quiet_engine.session(), await quiet_engine.session()
    transaction = await begun(late)
    await quiet_engine.enqueue(late, 1)
    await quiet_engine.enqueue(early, 2)
    assert set((await quiet_engine.claim()).jobs) == {2}
    assert await quiet_engine.holes() == (1, 0)
    assert (await quiet_engine.claim()).in_flight
    await transaction.rollback()
    for _ in range(2):
        await quiet_engine.claim()
    assert await quiet_engine.holes() == (0, 0)


async def test_two_lanes_of_one_call_are_read_before_anything_is_written(quiet_engine):
    """The second lane's bound would be too small had the first lane's claim taken the id."""
    late, early = await quiet_engine.session(), await quiet_engine.session()
    await early.execute("select awa.register_lane_v1('q', 1::smallint)")
    await early.execute(
        "select awa.enqueue_v1('q', 1::smallint, '{k}', array['{\"n\": 7}']::jsonb[])"
    )
    source = await early.fetchval("select pg_get_functiondef('awa.claim_v1'::regproc)")
    assert source.count("pg_current_xact_id()") == 1
    assert source.index("pg_current_xact_id()") > source.rindex("look(")
    transaction = await begun(late)
    await quiet_engine.enqueue(late, 1)
    await quiet_engine.enqueue(early, 2)
    taken = set((await quiet_engine.claim()).jobs)
    assert taken == {2, 7}
    await quiet_engine.claim()
    await transaction.commit()
    assert await quiet_engine.claim_everything() == {1}


async def test_too_many_holes_are_spilled_and_settled_by_the_leader(quiet_engine):
    late, early = await quiet_engine.session(), await quiet_engine.session()
    kept = await begun(late)
    for number in range(600):
        await quiet_engine.enqueue(late, number)
        await quiet_engine.enqueue(early, 10_000 + number)
    # One old generation, so that what comes next has to go to the new one and beyond.
    assert len((await quiet_engine.claim(limit=2)).jobs) == 2
    assert len((await quiet_engine.claim(limit=2000)).jobs) == 598
    spilled = await early.fetchval(
        "select coalesce(sum((select count(*) from unnest(holes))), 0) from awa.lane_holes"
    )
    assert spilled > 500
    await kept.commit()
    moved = await early.fetchval("select awa.settle_holes_v1()")
    assert moved > 500
    taken = {number for number in await quiet_engine.claim_everything(20) if number < 600}
    assert taken == set(range(600))
    assert await early.fetchval("select count(*) from awa.lane_holes") == 0


async def test_a_job_that_was_cancelled_in_a_spilled_hole_stays_cancelled(engine):
    late, early = await engine.session(), await engine.session()
    kept = await begun(late)
    ids = []
    for number in range(600):
        ids += await engine.enqueue(late, number)
        await engine.enqueue(early, 10_000 + number)
    await engine.claim(limit=2)
    await engine.claim(limit=2000)
    await kept.commit()
    assert await early.fetchval("select awa.cancel_v1($1)::text", ids[500]) == "available"
    assert await early.fetchval("select awa.settle_holes_v1()") > 400
    taken = await engine.claim_everything(20)
    assert set(range(600)) - taken == {500}
    assert await early.fetchval("select (awa.find_job($1)).state::text", ids[500]) == "cancelled"
