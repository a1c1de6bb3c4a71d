"""C01: a job whose transaction commits late is run all the same, once.

The waiting claim (line 5) and the negative controls (line 6) are in
tests/worker/engine/test_hole_protocol.py.
"""

import asyncio
import random
from collections import Counter
from datetime import UTC, datetime, timedelta

import asyncpg
import pytest

import awa
from awa.bridge import insert_job
from support.engine import begun
from support.fleet.tasks import QUEUE, Task
from support.waiting import eventually

HOLES = (
    "select coalesce((select isempty(coalesce(holes_old, '{}') + coalesce(holes_new, '{}'))"
    " from awa.claim_batches where lane_id = $1 order by next_seq desc, claim_id desc limit 1),"
    " false) and not exists (select from awa.lane_holes)"
)


class ChangedMindError(Exception):
    """The producer rolls back."""


async def test_a_job_that_commits_after_a_thousand_later_ones_starts_at_once(engine, fleet):
    late = await engine.session()
    transaction = await begun(late)
    await enqueue(late, "a")
    await fleet.client.insert_many(tasks("b", 1000), queue=QUEUE)
    await fleet.embedded("w", max_workers=100)
    await eventually(lambda: len(fleet.completions()) == 1000, timedelta(seconds=20))
    await transaction.commit()
    # The poll interval of the worker is 200 ms; the rest is room for a busy machine.
    await fleet.started("a", seconds=3)
    await fleet.quiet()
    assert fleet.keys_started() == Counter(["a", *(task.key for task in tasks("b", 1000))])


async def test_a_rolled_back_producer_holds_up_nobody_and_leaves_no_gap(
    quiet_engine, quiet_database, make_fleet
):
    engine, fleet = quiet_engine, make_fleet(quiet_database)
    late = await engine.session()
    transaction = await begun(late)
    await enqueue(late, "a")
    await fleet.client.insert_many(tasks("b", 100), queue=QUEUE)
    await fleet.embedded("w", max_workers=100)
    await fleet.started(*(task.key for task in tasks("b", 100)))
    assert not await engine.admin.fetchval(HOLES, engine.lane)
    await transaction.rollback()
    await fleet.client.insert_many(tasks("c", 100), queue=QUEUE)
    await fleet.started(*(task.key for task in tasks("c", 100)))
    await eventually(lambda: engine.admin.fetchval(HOLES, engine.lane), what="no gaps left")
    assert "a" not in fleet.keys_started()


async def test_a_prepared_job_runs_after_a_server_restart(make_server, make_fleet, connect):
    server = make_server(max_prepared_transactions="10")
    database = server.create_database()
    fleet = make_fleet(database)
    await fleet.client.migrate()
    await fleet.client.insert(Task("first"), queue=QUEUE)
    late = await connect(database.dsn)
    await begun(late)
    await enqueue(late, "a")
    await late.execute("prepare transaction 'late'")
    await fleet.client.insert_many(tasks("b", 100), queue=QUEUE)
    # Patient with silence, so that the restart is no reason to declare anybody dead.
    await fleet.embedded("w", heartbeat_staleness=timedelta(seconds=60))
    await eventually(lambda: len(fleet.completions()) == 101, timedelta(seconds=20))
    await asyncio.to_thread(server.restart)
    session = await connect(database.dsn)
    await session.execute("commit prepared 'late'")
    await fleet.started("a", seconds=10)
    await fleet.quiet()
    assert fleet.completions() == Counter(["first", "a", *(t.key for t in tasks("b", 100))])


async def test_beside_a_sleeping_worker_only_a_later_job_can_be_prepared(
    make_server, make_fleet, connect
):
    server = make_server(max_prepared_transactions="10", fsync="off")
    database = server.create_database()
    fleet = make_fleet(database)
    await fleet.client.migrate()
    await fleet.client.insert(Task("first"), queue=QUEUE)
    client = await fleet.embedded("w", heartbeat_staleness=timedelta(seconds=60))
    await eventually(lambda: client.worker.listener.asleep, what="the worker to sleep")
    session = await connect(database.dsn)
    await session.execute("begin")
    await insert_job(session, Task("now"), queue=QUEUE)
    with pytest.raises(asyncpg.FeatureNotSupportedError, match="NOTIFY"):
        await session.execute("prepare transaction 'now'")
    await session.execute("rollback")
    await session.execute("begin")
    due = datetime.now(UTC) + timedelta(seconds=10)
    later = await insert_job(session, Task("later"), queue=QUEUE, run_at=due)
    await session.execute("prepare transaction 'later'")
    await session.execute("commit prepared 'later'")
    assert (await fleet.client.get_job(later.id)).state is awa.JobState.Scheduled
    assert set(fleet.keys_started()) == {"first"}


@pytest.mark.slow
async def test_what_is_executed_is_what_was_committed(fleet):
    chance = random.Random(7)  # noqa: S311 - chance, not secrets
    committed: list[str] = []
    await fleet.client.insert(Task("first"), queue=QUEUE)

    async def produce(name: str) -> None:
        async with awa.AsyncClient(fleet.dsn, 2) as client:
            made = 0
            while made < 2500:
                keys = [f"{name}-{made + at}" for at in range(chance.randint(1, 80))]
                try:
                    async with client.transaction() as transaction:
                        await transaction.insert_many([Task(key) for key in keys], queue=QUEUE)
                        await asyncio.sleep(chance.random() * 0.2)  # the commit comes late
                        if chance.random() < 0.1:
                            raise ChangedMindError
                except ChangedMindError:
                    continue
                committed.extend(keys)
                made += len(keys)

    for name in ("w1", "w2", "w3"):
        # Each runs once: nobody is to be declared dead for being slow.
        await fleet.embedded(name, max_workers=100, heartbeat_staleness=timedelta(seconds=60))
    async with asyncio.TaskGroup() as producers:
        for number in range(8):
            producers.create_task(produce(f"p{number}"))
    await fleet.quiet(seconds=60)
    assert len(committed) >= 20_000
    assert fleet.keys_started() == Counter(["first", *committed])
    assert fleet.completions() == Counter(["first", *committed])


async def enqueue(session, key: str) -> None:
    await session.execute(
        "select awa.enqueue_v1($1, 2::smallint, array['task'],"
        " array[jsonb_build_object('key', $2::text, 'does', 'ok')])",
        QUEUE, key,
    )  # fmt: skip


def tasks(name: str, count: int, does: str = "ok") -> list[Task]:
    return [Task(f"{name}{number}", does) for number in range(count)]
