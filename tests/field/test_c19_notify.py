"""C19: notifications are few, small and constant, and nothing correct depends on them."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import timedelta

import pytest

import awa
from support.engine import begun
from support.fleet.tasks import QUEUE, Task
from support.pgwire import DeafProxy
from support.waiting import eventually

SLEEP = "select pg_advisory_lock_shared(hashtext('awa'), 1000000 + $1)"
NOBODY_SLEEPS = (
    "select not exists (select from pg_locks l join awa.queue_meta m"
    " on l.objid = 1000000 + m.queue_id where m.queue = 'q' and l.locktype = 'advisory'"
    " and l.mode = 'ShareLock' and l.database ="
    " (select oid from pg_database where datname = current_database()))"
)


@pytest.fixture
async def heard(engine):
    """Every notification on the channels of the engine, by channel and payload."""
    heard: list[tuple[str, str]] = []
    session = await engine.session()
    number = await engine.admin.fetchval("select queue_id from awa.queue_meta where queue = 'q'")
    for channel in (f"awa:{number}", "awa:cancel"):
        await session.add_listener(channel, lambda _s, _p, c, text: heard.append((c, text)))
    heard_all = asyncio.Event()
    await session.add_listener("test:end", lambda *_: heard_all.set())

    async def read() -> list[tuple[str, str]]:
        # Notifications come in the order of commits: when this one is here, all are.
        heard_all.clear()
        await engine.admin.execute('notify "test:end"')
        await asyncio.wait_for(heard_all.wait(), 10)
        return heard

    return read


@pytest.fixture
async def sleeper(engine):
    """A session that sleeps on the queue, so that producers have somebody to notify."""
    session = await engine.session()
    number = await engine.admin.fetchval("select queue_id from awa.queue_meta where queue = 'q'")
    await session.execute(SLEEP.replace("$1", str(number)))
    return session


@asynccontextmanager
async def busy(fleet, worker) -> AsyncIterator[list[str]]:
    """Keep two to three thousand jobs waiting for a worker while the block runs; give their keys.

    So that it never sleeps, however long the block takes.
    """
    keys: list[str] = []
    is_over = False

    def is_due() -> bool:
        return is_over or worker.metrics.claimed[QUEUE] > len(keys) - 2000

    async def pour() -> None:
        while not is_over:
            more = [Task(f"z{len(keys) + n}", "nap") for n in range(1000)]
            await fleet.client.insert_many(more, queue=QUEUE)
            keys.extend(task.key for task in more)
            await eventually(is_due, timedelta(seconds=60), what="some of them to be claimed")

    pouring = asyncio.create_task(pour())
    try:
        yield keys
    finally:
        is_over = True
        await pouring


async def test_producers_beside_a_busy_worker_hardly_notify(fleet, heard):
    async def produce(name: str, client: awa.AsyncClient) -> None:
        for number in range(60):
            async with client.transaction() as transaction:
                await transaction.insert(Task(f"{name}-{number}", "nap"), queue=QUEUE)
                await transaction.execute("select pg_sleep(0.01)")

    async with AsyncExitStack() as open_clients:
        clients = [
            await open_clients.enter_async_context(awa.AsyncClient(fleet.dsn, 1)) for _ in range(16)
        ]
        for client in clients:
            await client.queue_counts()
        worker = (await fleet.embedded("w", max_workers=16)).worker
        async with busy(fleet, worker) as others:
            await eventually(lambda: len(fleet.completions()) > 300, timedelta(seconds=20))
            before = len(await heard())
            async with asyncio.TaskGroup() as producers:
                for number, client in enumerate(clients):
                    producers.create_task(produce(f"p{number}", client))
            sent = len(await heard()) - before
    assert sent <= 16 * 60 // 100
    await fleet.quiet(seconds=60)
    assert len(fleet.completions()) == len(others) + 16 * 60


async def test_sixteen_producers_never_wait_for_each_other(engine, sleeper):
    """So that their throughput is sixteen times one's, as far as the machine goes.

    All have inserted before the first commits, and they commit in the opposite order.
    """
    sessions = [await engine.session() for _ in range(16)]
    transactions = [await begun(session) for session in sessions]
    async with asyncio.timeout(20):
        for number, session in enumerate(sessions):
            await engine.enqueue(session, number)
        assert not await engine.admin.fetchval(
            "select count(*) from pg_locks where not granted and pid <> pg_backend_pid()"
            " and database = (select oid from pg_database where datname = current_database())"
        )
        for transaction in reversed(transactions):
            await transaction.commit()
    assert len(await engine.claim_everything()) == 16


async def test_the_size_of_a_notification_does_not_depend_on_what_was_enqueued(
    engine, sleeper, heard, fleet
):
    one, other = await engine.session(), await engine.session()
    await one.execute(
        "select awa.enqueue_v1('q', 2::smallint, '{k}',"
        " array[jsonb_build_object('text', repeat('x', 1000000))])"
    )
    await engine.enqueue(other, *range(50_000))
    notified = await heard()
    assert len(set(notified)) == 1
    assert len(notified) == 2  # one for each transaction, whatever its size
    assert {payload for _, payload in notified} == {""}


async def test_two_thousand_cancels_at_once_notify_with_a_small_constant_payload(engine, heard):
    waiting = await engine.enqueue(engine.admin, *range(1000))
    await engine.hold()
    more = await engine.enqueue(engine.admin, *range(1000, 2000))
    sessions = [await engine.session() for _ in range(8)]
    jobs = iter(waiting + more)

    async def cancel(session) -> None:
        for job_id in jobs:
            await session.fetchval(engine.sql["cancel"], job_id)

    await asyncio.gather(*(cancel(session) for session in sessions))
    assert await engine.counts() == {"cancelled": 2000}
    notified = [text for channel, text in await heard() if channel == "awa:cancel"]
    assert len(notified) == 1000  # those that ran, each once; nobody waits for the others
    assert len(set(notified)) == 1000
    assert max(map(len, notified)) < 100


@pytest.mark.slow
@pytest.mark.timeout(600)
async def test_a_listener_in_a_long_transaction_does_not_fill_the_queue(engine, sleeper):
    number = await engine.admin.fetchval("select queue_id from awa.queue_meta where queue = 'q'")
    stuck = await engine.session()
    await stuck.execute(f'listen "awa:{number}"; listen "awa:cancel"')
    await begun(stuck)

    async def produce(session) -> None:
        for _ in range(25):
            await session.execute(
                "select cardinality(awa.enqueue_v1('q', 2::smallint, '{k}',"
                " array_fill('{\"n\": 1}'::jsonb, array[10000])))"
            )
        for _ in range(250):
            await engine.enqueue(session, 1)

    await asyncio.gather(*[produce(await engine.session()) for _ in range(4)])
    assert await engine.admin.fetchval("select count(*) from awa.ready_entries") == 1_001_000
    assert await engine.admin.fetchval("select pg_notification_queue_usage()") < 0.01


async def test_a_worker_that_hears_nothing_starts_jobs_within_its_poll_interval(fleet, database):
    with DeafProxy(database.server.host, database.server.port) as proxy:
        worker = await fleet.embedded(
            "w", database.dsn_through(proxy), poll_interval=timedelta(milliseconds=100)
        )
        # It asks itself whether notifications arrive, and finds that they do not.
        await eventually(lambda: worker.worker.metrics.claims["nothing"] > 40)
        assert not worker.worker.listener.works
        for number in range(10):
            await fleet.client.insert(Task(f"t{number}"), queue=QUEUE)
            # Far less than the five seconds for which a worker that is notified sleeps.
            await fleet.started(f"t{number}", seconds=3)
        await fleet.quiet()
        assert fleet.completions() == Counter(f"t{number}" for number in range(10))
        await worker.shutdown()
        await worker.close()


async def test_a_worker_that_sleeps_is_notified_of_each_of_its_queues(fleet, engine):
    queues = tuple(awa.QueueSettings(name=name) for name in ("one", "two", "three"))
    client = await fleet.embedded("w", queues=queues, poll_interval=timedelta(minutes=1))
    await eventually(lambda: client.worker.listener.asleep, what="the worker to sleep")
    assert await engine.admin.fetchval(
        "select array_agg(m.queue order by m.queue) from pg_locks l join awa.queue_meta m"
        " on l.objid = 1000000 + m.queue_id where l.locktype = 'advisory' and l.granted"
        " and l.mode = 'ShareLock' and l.database ="
        " (select oid from pg_database where datname = current_database())"
    ) == ["one", "three", "two"]


async def test_a_worker_without_a_free_place_is_not_notified(fleet, heard, engine):
    client = await fleet.embedded("w", max_workers=1)
    await eventually(lambda: client.worker.listener.asleep, what="the worker to sleep")
    await fleet.client.insert(Task("first", "gate"), queue=QUEUE)
    await fleet.started("first")
    # The worker counts as awake before the server has heard of it.
    await eventually(lambda: engine.admin.fetchval(NOBODY_SLEEPS), what="the worker to be awake")
    before = len(await heard())
    for number in range(20):
        await fleet.client.insert(Task(f"t{number}"), queue=QUEUE)
    assert len(await heard()) == before
    fleet.open_gate()
    await fleet.quiet()


async def test_a_leader_that_another_one_follows_is_not_notified_of_what_is_due(fleet, engine):
    client = await fleet.embedded("w")
    leader = (
        "select count(*) from pg_locks where locktype = 'advisory' and objid = 1000000"
        " and mode = 'ShareLock' and database ="
        " (select oid from pg_database where datname = current_database())"
    )

    async def sleepers() -> int:
        return await engine.admin.fetchval(leader)

    await eventually(sleepers, what="the leader to sleep")
    await engine.change("lead_v1", ("\nbegin\n", "\nbegin\nraise exception 'as told';\n"))
    await eventually(lambda: not client.worker.maintenance.leads, what="it to lead no more")

    async def none() -> bool:
        return await sleepers() == 0

    await eventually(none, what="it to be notified no more")
    assert client.worker.listener.works
