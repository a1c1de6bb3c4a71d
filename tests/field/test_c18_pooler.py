"""C18: a pooler in transaction mode: enqueue works, a worker polls and says so, nothing is left.

Line 4, migrations, is in tests/migrations/test_pooler.py.
"""

import asyncio
import itertools
import logging
import time
from collections import Counter
from datetime import timedelta

import pytest

import awa
from awa import JobState
from awa.options import JobOptions
from support.fleet.tasks import QUEUE, Task
from support.pooler import Pool
from support.sizes import sized
from support.waiting import eventually

SERVER_SESSIONS = 4
# On, as the pooler sees it: with these it takes the settings and forgets them.
FORGETS = "search_path,jit,statement_timeout,idle_in_transaction_session_timeout"
PEER = "tcp_keepalives_idle,tcp_keepalives_interval,tcp_keepalives_count,tcp_user_timeout"
IGNORED = f"{FORGETS},synchronous_commit,{PEER}"
LEFT = """
    select (select count(*) from pg_locks l join pg_stat_activity a using (pid)
             where l.locktype = 'advisory' and a.datname = current_database() and a.state = 'idle')
         + (select count(*) from pg_stat_activity
             where datname = current_database() and state like 'idle in transaction%'
               and state_change < now() - interval '5 seconds')
"""


@pytest.fixture
def pool(make_pool, database) -> Pool:
    """A PgBouncer in transaction mode before the test's database."""
    return make_pool(database.server, "transaction", SERVER_SESSIONS)


@pytest.fixture
async def producer(pool, database):
    """A client that goes through the pooler."""
    async with awa.AsyncClient(pool.dsn(database.name), 8) as made:
        yield made


@pytest.mark.parametrize("ignored", ["", IGNORED], ids=["refuses settings", "forgets settings"])
async def test_every_way_to_enqueue_works_through_it(make_pool, database, fleet, connect, ignored):
    pool = make_pool(database.server, "transaction", SERVER_SESSIONS, ignored)
    keys: list[str] = []

    def tasks(name: str, count: int) -> list[Task]:
        made = [Task(f"{name}-{number}") for number in range(count)]
        keys.extend(task.key for task in made)
        return made

    async def produce(name: str) -> None:
        # Eight producers over four server sessions: each meets those of the others.
        async with awa.AsyncClient(pool.dsn(database.name), 2) as client:
            for task in tasks(f"{name}-one", 50):
                await client.insert(task, queue=QUEUE)
            lanes = [JobOptions(priority=1), None] * 200
            await client.insert_many(tasks(f"{name}-many", 400), queue=QUEUE, opts=lanes)
            await client.insert_many_copy(tasks(f"{name}-left-out", 100), queue=QUEUE)
            await client.enqueue_many_copy(tasks(f"{name}-copy", 650), queue=QUEUE)
            async with client.transaction() as transaction:
                for task in tasks(f"{name}-in", 30):
                    await transaction.insert(task, queue=QUEUE)
                await transaction.insert_many(tasks(f"{name}-in-many", 20), queue=QUEUE)
                assert await transaction.fetch("select $1::text as said", name) == [{"said": name}]
            with pytest.raises(ZeroDivisionError):
                await roll_back(client)

    async def be_another_application() -> None:
        # Leaves another unnamed statement behind on every server session it is given.
        session = await connect(pool.dsn(database.name), statement_cache_size=0)
        while True:
            async with session.transaction():
                await session.fetch("select $1::integer, $2::text, $3::text", 1, "a", "b")

    async with asyncio.TaskGroup() as others:
        busy = [others.create_task(be_another_application()) for _ in range(3)]
        async with asyncio.TaskGroup() as producers:
            for number in range(8):
                producers.create_task(produce(f"p{number}"))
        for task in busy:
            task.cancel()
    assert len(keys) == 10_000
    found = await fleet.client.list_jobs(queue=QUEUE, limit=10_000)
    assert Counter(job.args["key"] for job in found) == Counter(keys)
    assert (await fleet.counts()).available == 10_000


async def test_looking_and_administering_work_through_it(producer, fleet):
    job = await producer.insert(Task("a"), queue=QUEUE, unique_opts={"by_args": True})
    with pytest.raises(awa.UniqueConflict) as refusal:
        await producer.insert(Task("a"), queue=QUEUE, unique_opts={"by_args": True})
    assert refusal.value.holder_id == job.id
    await producer.pause_queue(QUEUE)
    (counts,) = await producer.queue_counts(QUEUE)
    assert (counts.paused, counts.available) == (True, 1)
    assert (await producer.cancel(job.id)).state is JobState.Cancelled
    assert (await producer.retry(job.id)).state is JobState.Available
    await producer.resume_queue(QUEUE)
    assert [found.id for found in await producer.list_jobs(queue=QUEUE)] == [job.id]
    await fleet.embedded("w")
    await fleet.quiet()
    assert (await producer.get_job(job.id)).output == {"by": "w", "key": "a"}


async def test_statements_have_their_limit_on_the_server_and_leave_no_setting_behind(
    pool, database, connect, monkeypatch
):
    # Long enough that no pause between two statements of a step is taken for the client's end.
    monkeypatch.setenv("AWA_STATEMENT_TIMEOUT_SECONDS", "2")
    async with awa.AsyncClient(pool.dsn(database.name), 2) as client:
        with pytest.raises(awa.DatabaseUnreachable, match="57014"):
            async with client.transaction() as transaction:
                await transaction.execute("select pg_sleep(30)")
        with pytest.raises(awa.DatabaseUnreachable, match="57014"):
            async with client.database.session() as session:
                await session.execute("select pg_sleep(30)")
        await client.insert(Task("a"), queue=QUEUE)
    other = await connect(pool.dsn(database.name), statement_cache_size=0)
    fresh = await connect(database.dsn)
    for name in ("statement_timeout", "search_path", "jit", "synchronous_commit"):
        assert await other.fetchval(f"show {name}") == await fresh.fetchval(f"show {name}")


async def test_a_worker_says_once_that_it_polls_and_starts_jobs_within_the_poll_interval(
    pool, database, fleet, caplog
):
    client = await fleet.embedded("w", pool.dsn(database.name))
    listener = client.worker.listener
    await eventually(lambda: warnings(caplog), what="the warning")
    for number in range(20):
        await fleet.client.insert(Task(f"t{number}"), queue=QUEUE)
        await fleet.started(f"t{number}", seconds=5)
    await fleet.quiet()
    assert not listener.works
    assert not listener.asleep
    (warning,) = warnings(caplog)
    assert "transaction mode" in warning
    assert "AWA_LISTEN_URL" in warning


async def test_a_worker_with_a_direct_address_to_listen_at_is_woken(
    pool, database, fleet, caplog, monkeypatch
):
    monkeypatch.setenv("AWA_LISTEN_URL", database.dsn)
    client = await fleet.embedded("w", pool.dsn(database.name), poll_interval=timedelta(minutes=10))
    listener = client.worker.listener
    await eventually(lambda: listener.asleep, what="the worker to sleep")
    await fleet.client.insert(Task("a"), queue=QUEUE)
    await fleet.started("a", seconds=4)  # of itself it looks after five seconds
    await fleet.quiet()
    assert warnings(caplog) == []


async def test_an_address_to_listen_at_that_is_another_database_is_not_believed(
    pool, database, empty_database, fleet, caplog, monkeypatch
):
    monkeypatch.setenv("AWA_LISTEN_URL", empty_database.dsn)
    await fleet.embedded("w", pool.dsn(database.name))
    await eventually(lambda: warnings(caplog), what="the warning")
    await fleet.client.insert(Task("a"), queue=QUEUE)
    await fleet.quiet()


@pytest.mark.slow
@pytest.mark.timeout(sized(120, 600))
async def test_two_workers_through_it_run_each_job_once_and_leave_no_lock_behind(
    pool, database, fleet, connect
):
    least, size = 4, 50
    admin = await connect(database.dsn)
    await admin.fetchval("select awa.register_lane_v1($1, 2::smallint)", QUEUE)
    for name in ("v", "w"):
        await fleet.embedded(name, pool.dsn(database.name), max_workers=8)
    enqueued: list[str] = []

    async def nothing_left() -> bool:
        return await admin.fetchval(LEFT) == 0

    async with awa.AsyncClient(pool.dsn(database.name), 4) as producer:
        until = time.monotonic() + sized(0, 300)
        for number in itertools.count():
            if number >= least and time.monotonic() > until:
                break
            tasks = [
                Task(f"t{number}-{at}", "fail_at_gate" if at == 0 else "nap") for at in range(size)
            ]
            await producer.insert_many(tasks, queue=QUEUE)
            enqueued += [task.key for task in tasks]
            fleet.open_gate()
            await fleet.quiet(seconds=60)
            await eventually(nothing_left, what="no lock on an idle session")
    assert fleet.completions() == Counter(enqueued)
    assert fleet.ends("stale") == []


async def roll_back(client: awa.AsyncClient) -> None:
    async with client.transaction() as transaction:
        await transaction.insert(Task("never"), queue=QUEUE)
        raise ZeroDivisionError


def warnings(caplog) -> list[str]:
    return [
        record.getMessage()
        for record in caplog.records
        if record.name == "awa.listener" and record.levelno >= logging.WARNING
    ]
