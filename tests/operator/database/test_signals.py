"""Signals tell what there is, at a cost that does not follow how much there is."""

from datetime import UTC, datetime, timedelta

import pytest

from awa._store.attempts import GIVEN_BACK
from awa.outcome import Failed
from awa.scaling import Signals
from awa_operator.database import Session
from awa_operator.dsn import Dsn
from support.engine import FUTURE, PAST, Engine
from support.watched import OWNER

LEAD = timedelta(seconds=10)
BLOCKS = (
    "select coalesce(sum(heap_blks_read + heap_blks_hit + idx_blks_read + idx_blks_hit), 0)::bigint"
    " from pg_statio_user_tables"
)
MOST_BLOCKS = 900
"""A look at 30,000 deferred jobs one by one, or at as many that wait, would be more."""
WHOLE_SCANS = (
    "select coalesce(sum(seq_tup_read), 0)::bigint from pg_stat_user_tables"
    " where relname ~ '_\\d\\d$' or relname in ('deferred_jobs', 'done_entries')"
)


@pytest.fixture
async def session(database):
    """A session of the operator's."""
    opened = await Session.open(Dsn(database.dsn), "awa")
    yield opened
    opened.close()


@pytest.fixture
async def quiet_engine(quiet_database, connect):
    """An engine where no autovacuum reads tables: that counts too."""
    return await Engine(quiet_database, connect).open()


@pytest.fixture
async def quiet_session(quiet_database):
    """A session of the operator's with the same database."""
    opened = await Session.open(Dsn(quiet_database.dsn), "awa")
    yield opened
    opened.close()


async def look(session, queue="q", lead=LEAD) -> Signals:
    return (await session.signals([queue], lead))[queue]


def counts(found: Signals) -> tuple[int, int, int, int]:
    return found.ready, found.running, found.due_soon, found.orphaned


async def test_a_queue_that_nobody_has_used_has_no_work(session):
    assert await session.signals(["never", "seen"], LEAD) == {"never": Signals(), "seen": Signals()}


async def test_a_job_is_counted_once_wherever_it_is(engine, session):
    await engine.enqueue(engine.admin, *range(5))
    await engine.enqueue(engine.admin, 5, priority=1)
    assert counts(await look(session)) == (6, 0, 0, 0)
    held = await engine.hold(limit=4)
    assert counts(await look(session)) == (2, 4, 0, 0)
    ids = held.ids
    await engine.finish(held.part(ids[:1]))
    await engine.finish(held.part(ids[1:2]), Failed("x"))
    await engine.finish(held.part(ids[2:3]), GIVEN_BACK)
    assert counts(await look(session)) == (3, 1, 1, 0)  # one is retried within ten seconds
    await engine.rotate()
    await engine.admin.fetchval(engine.sql["evacuate"], timedelta(0), 10)
    assert counts(await look(session)) == (3, 1, 1, 0)
    await engine.finish(held.part(ids[3:]))
    assert counts(await look(session)) == (3, 0, 1, 0)


async def test_queues_are_told_apart_and_only_those_asked_for(engine, session):
    for number, queue in enumerate(("a", "b", "c"), 1):
        await engine.enqueue(engine.admin, *range(number), queue=queue)
    found = await session.signals(["c", "a"], LEAD)
    assert {name: one.ready for name, one in found.items()} == {"a": 1, "c": 3}


async def test_the_oldest_job_says_for_how_long_it_could_have_run(engine, session):
    await engine.enqueue(engine.admin, 1, run_at=PAST)
    await engine.promote()
    await engine.enqueue(engine.admin, 2)
    await engine.admin.execute(
        "update awa.ready_entries set run_at = clock_timestamp() - interval '90 s'"
        " where run_at is not null"
    )
    assert timedelta(seconds=90) <= (await look(session)).oldest_ready_age < timedelta(seconds=95)
    await engine.hold()
    assert (await look(session)).oldest_ready_age == timedelta(0)


async def test_a_paused_queue_has_nothing_that_is_ready_or_due_and_keeps_what_runs(engine, session):
    await engine.enqueue(engine.admin, 1, 2)
    await engine.enqueue(engine.admin, 3, run_at=PAST)
    await engine.hold(limit=1)
    await engine.admin.execute("select awa.pause_queue_v1('q', 'test')")
    assert counts(await look(session)) == (0, 1, 0, 0)
    await engine.admin.execute("select awa.resume_queue_v1('q')")
    assert counts(await look(session)) == (1, 1, 1, 0)


async def test_deferred_jobs_count_from_the_lead_before_they_are_due(engine, session):
    now = datetime.now(UTC)
    await engine.enqueue(engine.admin, 1, run_at=now + timedelta(seconds=30))
    await engine.enqueue(engine.admin, 2, run_at=FUTURE)
    assert (await look(session)).due_soon == 0
    assert (await look(session, lead=timedelta(seconds=40))).due_soon == 1


async def test_attempts_of_a_worker_that_is_gone_are_orphaned(engine, session):
    worker = await engine.register()
    await engine.enqueue(engine.admin, *range(3))
    held = await engine.hold(worker=worker, limit=2)
    await engine.hold(limit=1)
    assert counts(await look(session)) == (0, 3, 0, 0)
    await engine.admin.execute(
        "update awa.runtime_instances set last_seen = now() - stale_after - interval '1 s'"
        " where worker_id = $1",
        worker,
    )
    assert counts(await look(session)) == (0, 3, 0, 2)
    await engine.admin.execute(
        "update awa.runtime_instances set last_seen = now(), dead_at = now() where worker_id = $1",
        worker,
    )
    assert counts(await look(session)) == (0, 3, 0, 2)
    await engine.rotate()
    await engine.admin.execute(
        "update awa.runtime_instances set dead_at = null where worker_id = $1", worker
    )
    await engine.admin.fetchval(engine.sql["evacuate"], timedelta(0), 10)
    assert counts(await look(session)) == (0, 3, 0, 0)
    await engine.admin.fetchval(engine.sql["mark_dead"], worker, "test")
    assert counts(await look(session)) == (0, 3, 0, 2)
    await engine.rescue()
    assert counts(await look(session))[3] == 0
    assert held.attempts


async def test_a_long_lane_is_counted_by_its_numbers_and_a_short_one_exactly(engine, session):
    await engine.enqueue(engine.admin, *range(900))
    assert (await look(session)).ready == 900
    await engine.enqueue(engine.admin, *range(2_500))
    assert (await look(session)).ready == 3_400
    await engine.finish(await engine.hold(limit=400))
    assert (await look(session)).ready == 3_000
    row = await engine.admin.fetchrow("select * from awa.ready_entries order by lane_seq desc")
    await engine.admin.fetchval(engine.sql["cancel"], row["job_id"])
    assert (await look(session)).ready == 2_999


async def test_numbers_of_rolled_back_producers_count_only_in_long_lanes(engine, session):
    producer = await engine.session()
    transaction = producer.transaction()
    await transaction.start()
    await engine.enqueue(producer, *range(500))
    await transaction.rollback()
    await engine.enqueue(engine.admin, *range(10))
    assert (await look(session)).ready == 10
    await engine.enqueue(engine.admin, *range(1_000))
    assert 1_010 <= (await look(session)).ready <= 1_510


async def test_a_job_that_its_producer_committed_late_is_counted_once(engine, session):
    late = await engine.session()
    transaction = late.transaction()
    await transaction.start()
    await engine.enqueue(late, 1)
    await engine.enqueue(engine.admin, *range(2, 5))
    held = await engine.hold(limit=2)
    assert counts(await look(session)) == (1, 2, 0, 0)
    await transaction.commit()
    await engine.admin.execute("update awa.ready_entries set created_at = now() - interval '50 s'")
    found = await look(session)
    assert counts(found) == (2, 2, 0, 0)
    assert found.oldest_ready_age >= timedelta(seconds=50)
    await engine.finish(held)
    assert await engine.drain() == 2
    assert await look(session) == Signals()


async def test_live_workers_of_an_owner_are_listed_with_their_pods(engine, session):
    register = "select awa.register_worker_v1('n', '0', 'h', 1, '{q}', '{k}', '1h', $1, $2, $3)"
    first = await engine.admin.fetchval(register, OWNER, "pod-a", "uid-a")
    other = await engine.admin.fetchval(register, "other", "pod-a", "uid-x")
    dead = await engine.admin.fetchval(register, OWNER, "pod-b", "uid-b")
    await engine.admin.fetchval(engine.sql["mark_dead"], dead, "test")
    found = await session.workers([OWNER, "nobody"])
    assert [(one.worker_id, one.pod, one.pod_uid) for one in found[OWNER]] == [
        (first, "pod-a", "uid-a")
    ]
    assert found["nobody"] == ()
    assert [one.worker_id for one in (await session.workers(["other"]))["other"]] == [other]
    assert await session.workers([""]) == {"": ()}


async def test_busy_pods_are_told_with_the_age_of_their_oldest_job(engine, session):
    register = "select awa.register_worker_v1('n', '0', 'h', 1, '{q}', '{k}', '1h', $1, $2, $3)"
    await engine.enqueue(engine.admin, *range(3))
    for pod, jobs in (("busy", 1), ("busy", 1), ("idle", 0)):
        worker = await engine.admin.fetchval(register, OWNER, pod, pod)
        if jobs:
            await engine.hold(worker=worker, limit=jobs)
    await engine.admin.execute(
        "update awa.claim_batches set claimed_at = claimed_at - interval '100 s'"
        " where claim_id = (select min(claim_id) from awa.claim_batches)"
    )
    found = await session.oldest_running(OWNER)
    assert found.keys() == {"busy"}
    assert timedelta(seconds=100) <= found["busy"] < timedelta(seconds=105)


@pytest.mark.parametrize("statistics", ["never analysed", "analysed while empty", "analysed"])
async def test_a_look_reads_no_more_when_there_is_more(quiet_engine, quiet_session, statistics):
    """Blocks and rows of whole scans, from the server's own counters."""
    engine, session = quiet_engine, quiet_session
    if statistics == "analysed while empty":
        await engine.admin.execute("analyze")
    for _ in range(3):
        await engine.enqueue(engine.admin, *range(10_000))
        await engine.enqueue(engine.admin, *range(10_000), run_at=FUTURE)
        await engine.finish(await engine.hold(limit=10_000))
    await engine.enqueue(engine.admin, *range(30_000))
    await engine.hold(limit=10)
    if statistics == "analysed":
        await engine.admin.execute("analyze")
    watcher = engine.admin
    connection = session._connection

    async def figures() -> tuple[int, int]:
        await connection.execute("select pg_stat_force_next_flush()")
        await engine.publish_statistics()
        return await watcher.fetchval(BLOCKS), await watcher.fetchval(WHOLE_SCANS)

    assert counts(await look(session)) == (29_990, 10, 0, 0)
    await session.workers([OWNER])
    before = await figures()
    assert counts(await look(session)) == (29_990, 10, 0, 0)
    await session.workers([OWNER])
    after = await figures()
    assert after[1] - before[1] <= 50
    assert after[0] - before[0] < MOST_BLOCKS


async def test_jobs_whose_kind_nobody_knew_are_set_aside_and_due_for_who_knows_them(
    engine, session
):
    await engine.enqueue(engine.admin, *range(3), kind="v2")
    await engine.hold()
    found = await look(session)
    assert (counts(found), found.set_aside) == ((0, 0, 0, 0), 3)
    await engine.admin.execute("select awa.pause_queue_v1('q', 'test')")
    assert (await look(session)).set_aside == 0
    await engine.admin.execute("select awa.resume_queue_v1('q')")
    await engine.register(kinds=["v2"])
    await engine.promote()
    found = await look(session)
    assert (counts(found), found.set_aside) == ((3, 0, 0, 0), 0)
