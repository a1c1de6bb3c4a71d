"""C06: a long transaction slows nothing down, none of ours lasts, and whose it is is said.

That nothing in the ring is updated or deleted is in tests/worker/engine/test_append_only.py for
every kind of end; what a held snapshot costs in time is the benchmark `pinned`.
"""

import json
from datetime import timedelta
from statistics import median

import pytest

from awa.metrics import families
from support.engine import QUEUE
from support.fleet.tasks import Task
from support.sizes import sized
from support.waiting import eventually

JOBS = sized(10_000, 200_000)
BATCH = 200
BETWEEN = sized(1, 9)
"""Claims between two that are looked at."""
CLAIM = (
    "explain (analyze, buffers, timing off, format json) select * from"
    " awa.claim_v1($1, $2, array[$3], array[$4::int], '{0}', '{60}', '{k}')"
)
CHANGED = (
    "select coalesce(sum(n_tup_upd + n_tup_del), 0)::int from pg_stat_user_tables s"
    " join pg_class c on c.oid = s.relid where c.relispartition"
)
OURS_IDLE = (
    "select count(*)::int from pg_stat_activity where datname = current_database()"
    " and application_name ~ '^awa' and state like 'idle in transaction%'"
    " and state_change < clock_timestamp() - interval '1 second'"
)
SLEEPER = (
    "select l.pid from pg_locks l join awa.queue_meta m on l.objid = 1000000 + m.queue_id"
    " where m.queue = 'q' and l.locktype = 'advisory' and l.mode = 'ShareLock' and l.granted"
    " and l.database = (select oid from pg_database where datname = current_database())"
)
"""The listening session of a worker, once it listens to everything and has set what it sets."""


@pytest.fixture
async def snapshot(quiet_database, connect):
    """A transaction of somebody else that keeps its snapshot until it is told to end."""
    session = await connect(quiet_database.dsn, server_settings={"application_name": "analyst"})
    transaction = session.transaction(isolation="repeatable_read")
    await transaction.start()
    await session.fetchval("select count(*) from pg_class")
    return transaction


@pytest.mark.slow
async def test_claims_beside_a_held_snapshot_read_no_more_at_the_end(quiet_engine, snapshot):
    engine = quiet_engine
    for at in range(0, JOBS, 10_000):
        await engine.enqueue(engine.admin, *range(min(10_000, JOBS - at)))
    session, costs = await engine.session(), []
    await engine.finish(await engine.hold(session, limit=1))
    while (await engine.counts()).get("available", 0) > BATCH:
        # Some claims are looked at; of theirs no job ends.
        text = await session.fetchval(CLAIM, engine.worker, 10**6 + len(costs), QUEUE, BATCH)
        (plan,) = json.loads(text)
        costs.append(sum(plan["Plan"][f"Shared {what} Blocks"] for what in ("Hit", "Read")))
        for _ in range(BETWEEN):
            await engine.finish(await engine.hold(session, limit=BATCH), session=session)
    tenth = max(5, len(costs) // 10)
    assert len(costs) >= 4 * tenth
    assert max(costs[-tenth:]) <= 1.5 * max(costs[1 : 1 + tenth]) + 10
    assert median(costs[-tenth:]) <= 1.1 * median(costs[1 : 1 + tenth]) + 5
    await engine.publish_statistics()
    assert await engine.admin.fetchval(CHANGED) == 0
    await snapshot.rollback()


async def test_no_session_of_ours_idles_in_a_transaction(quiet_engine, quiet_database, make_fleet):
    engine, fleet = quiet_engine, make_fleet(quiet_database)
    await fleet.embedded("w", max_workers=20)
    keys = [f"t{n}" for n in range(2000)]
    await fleet.client.insert_many(
        [Task(key, "fail" if n % 10 == 0 else "nap") for n, key in enumerate(keys)],
        queue=QUEUE, max_attempts=1,
    )  # fmt: skip
    seen = []

    async def all_ended() -> bool:
        seen.append(await engine.admin.fetchval(OURS_IDLE))
        return len(fleet.ends()) == len(keys)

    await eventually(all_ended, timedelta(seconds=60))
    assert len(seen) > 5
    assert set(seen) == {0}
    # The look sees one: a transaction that an application leaves open.
    async with fleet.client.transaction() as transaction:
        await transaction.execute("select 1")
        await eventually(lambda: engine.admin.fetchval(OURS_IDLE))


async def test_the_oldest_transaction_is_in_a_metric_until_it_ends(
    quiet_database, make_fleet, snapshot
):
    fleet = make_fleet(quiet_database)
    await fleet.client.insert(Task("a"), queue=QUEUE)
    worker = await fleet.embedded("w", cleanup_interval=timedelta(milliseconds=100))

    def told() -> float:
        (family,) = (
            f for f in families(worker.worker.metrics)
            if f.name == "awa_database_oldest_transaction_seconds"
        )  # fmt: skip
        name = "awa_database_oldest_transaction_seconds"
        return family.samples.get((name, (("holder", "other"),)), 0.0)

    await eventually(lambda: told() > 0.5)
    await snapshot.rollback()
    await eventually(lambda: told() < 0.5)


@pytest.mark.slow
async def test_a_snapshot_that_blocks_reclaim_stops_nobody_is_named_and_goes_by_itself(
    quiet_database, make_fleet, connect, caplog
):
    fleet = make_fleet(quiet_database)
    moment = timedelta(milliseconds=100)
    await fleet.client.insert(Task("first"), queue=QUEUE)
    reader = await connect(quiet_database.dsn, server_settings={"application_name": "analyst"})
    transaction = reader.transaction(isolation="repeatable_read")
    await transaction.start()
    # Before the ring can turn: a reader of an empty slot would keep it from being entered.
    assert await reader.fetchval("select count(*) from awa.ready_entries_00") == 1
    worker = await fleet.embedded(
        "w", cleanup_interval=moment, rotate_interval=moment,
        completed_retention=timedelta(seconds=1),
    )  # fmt: skip
    await fleet.started("first")

    def blockers() -> set[str]:
        found = (getattr(record, "blocker", None) for record in caplog.records)
        return {blocker for blocker in found if blocker}

    made = 0
    while not blockers():
        made += 1
        await fleet.client.insert(Task(f"t{made}"), queue=QUEUE)
        await fleet.started(f"t{made}")
        assert made < 2000
    (blocker, *_) = blockers()
    assert f"process {reader.get_server_pid()} " in blocker
    assert "analyst" in blocker
    await fleet.client.insert(Task("beside"), queue=QUEUE)
    await fleet.started("beside")
    session = await connect(quiet_database.dsn)
    used = "select pg_relation_size('awa.ready_entries_00') > 0"
    assert await session.fetchval(used)
    assert worker.worker.maintenance.leads
    await transaction.rollback()

    async def reclaimed() -> bool:
        return not await session.fetchval(used)

    await eventually(reclaimed, timedelta(seconds=20))


@pytest.mark.slow
async def test_a_suspended_worker_that_reads_nothing_keeps_no_transaction_open(
    quiet_engine, quiet_database, make_fleet
):
    """Its listening session is in the middle of one while it is told of things, until it is cut."""
    engine, fleet = quiet_engine, make_fleet(quiet_database)
    frozen = await fleet.process("frozen", heartbeat_staleness_ms=10_000)
    await fleet.client.insert(Task("first"), queue=QUEUE)
    await fleet.started("first")
    pid = await eventually(lambda: engine.admin.fetchval(SLEEPER), what="its session to listen")
    frozen.freeze()
    # Megabytes at a time, so that it soon waits for a reader.
    told = (
        "select count(pg_notify('awa:cancel', repeat('x', 7500) || n))"
        " from generate_series(1, 200) n"
    )
    age = (
        "select coalesce(clock_timestamp() - xact_start, interval '0') from pg_stat_activity"
        " where pid = $1"
    )
    ages = [timedelta(0)]

    async def cut() -> bool:
        await engine.admin.execute(told)
        found = await engine.admin.fetchval(age, pid)
        ages.append(found or timedelta(0))
        return found is None

    await eventually(cut, timedelta(seconds=30), what="its session to be cut")
    # No longer than until it counts as dead.
    assert timedelta(0) < max(ages) < timedelta(seconds=10)
    ended = [line for line in quiet_database.server.log.splitlines() if f"[{pid}]" in line]
    assert any("could not send data to client" in line for line in ended)
    await fleet.embedded("w")
    await fleet.client.insert(Task("second"), queue=QUEUE)
    await fleet.started("second")
