"""C31: a server with few connections: every process works, nobody leaks, nobody storms."""

import asyncio
import time
from collections import Counter
from contextlib import suppress
from datetime import datetime, timedelta
from pathlib import Path

import asyncpg
import pytest

import awa
import awa_migrations
from awa import JobState
from support.command.command import Commands
from support.fleet.tasks import QUEUE, Task
from support.sizes import sized
from support.waiting import eventually

PROCESSES = sized(8, 30)
"""The ratio to the server's connections counts."""
PLACES = 50
TESTS_OWN = 3
"""Connections of this test: a client's two, and one for the supervisor to settle."""
FOR_EACH = 4 / 3
WITHIN_SECONDS = 60
"""After their start all processes work."""
IDLE_IN_TRANSACTION = """
    select count(*) as sessions from pg_stat_activity
     where state like 'idle in transaction%' and state_change < now() - interval '5 seconds'
"""
ATTEMPTS_PER_SECOND = 6
"""Of each process, at most, in the fullest second; connections to stop something included."""
WORKER_PAGE = Path(__file__).parents[2] / "docs" / "operations" / "worker.md"


@pytest.mark.slow
@pytest.mark.timeout(300)
async def test_more_processes_than_a_server_has_room_for_all_work_also_after_its_restart(
    make_server, tmp_path
):
    server = make_server(
        max_connections=str(round(PROCESSES * FOR_EACH) + TESTS_OWN),
        superuser_reserved_connections="0", fsync="off", log_connections="on",
    )  # fmt: skip
    database = server.create_database()
    await awa_migrations.migrate(database.dsn)
    commands = Commands(database.dsn, tmp_path)
    try:
        async with awa.AsyncClient(database.dsn, 2) as client:
            began = time.monotonic()
            command = commands.start(
                "work", "--queue", f"default:{PLACES}", "--processes", str(PROCESSES),
                AWA_HEARTBEAT_STALENESS_SECONDS="60",
            )  # fmt: skip
            await eventually(
                lambda: len({line["process"] for line in command.lines()}) > PROCESSES,
                timedelta(seconds=100),
                what="all processes to be at it",
            )
            left = WITHIN_SECONDS - (time.monotonic() - began)
            await all_work(commands, client, command, "before", seconds=left)
            assert await idle_in_transaction(client) == 0
            pids = set(command.children())
            await asyncio.to_thread(server.restart)
            logged = len(server.log)
            await all_work(commands, client, command, "after", seconds=30)
            assert set(command.children()) == pids
            assert 0 < fullest_second(server.log[logged:]) <= ATTEMPTS_PER_SECOND * PROCESSES
            assert await idle_in_transaction(client) == 0
    finally:
        commands.close()


def fullest_second(log: str) -> int:
    """Return the most connections that were tried within any second, by the server's log."""
    times = [
        datetime.strptime(" ".join(line.split()[:2]), "%Y-%m-%d %H:%M:%S.%f")  # noqa: DTZ007
        for line in log.splitlines()
        if "connection received" in line
    ]
    return max(sum(0 <= (at - first).total_seconds() < 1 for at in times) for first in times)


async def idle_in_transaction(client: awa.AsyncClient) -> int:
    """Return how many sessions of the server are."""
    async with client.transaction() as transaction:
        (row,) = await transaction.fetch(IDLE_IN_TRANSACTION)
        return int(row["sessions"])


async def all_work(commands, client, command, word: str, seconds: float) -> None:
    """Wait until each process runs jobs: more than fit into all but one of them, until the gate.

    None has ended meanwhile.
    """
    keys = [{"key": f"{word}{number}"} for number in range((PROCESSES - 1) * PLACES + 1)]
    made = False

    async def each_works() -> bool:
        nonlocal made
        try:
            if not made:
                await client.insert_many(keys, kind="wait")
                made = True
        except awa.DatabaseUnreachable:
            return False
        notes = [note for note in commands.notes("started") if note.key.startswith(word)]
        return len(command.children()) == PROCESSES == len({note.pid for note in notes})

    await eventually(each_works, timedelta(seconds=seconds), what=f"all to work {word}")
    commands.open_gate()

    async def quiet() -> bool:
        try:
            (counts,) = await client.queue_counts("default")
        except awa.DatabaseUnreachable:
            return False
        return not counts.available + counts.running

    await eventually(quiet, timedelta(seconds=30), what="all jobs to end")
    commands.close_gate()
    assert not command.lines("worker process died")


@pytest.mark.parametrize("size", [1, 2])
async def test_every_call_of_client_and_worker_ends_with_the_smallest_pools(database, fleet, size):
    client = awa.AsyncClient(database.dsn, size)
    async with client, asyncio.timeout(60):

        @client.task(Task, queue=QUEUE)
        async def work(job: awa.Job[Task]) -> None:
            await client.get_job(job.id)

        await client.start(poll_interval_ms=50)
        await asyncio.gather(
            *(client.insert(Task(f"a{number}"), queue=QUEUE) for number in range(20)),
            *(in_transaction(client, f"b{number}") for number in range(20)),
            client.insert_many([Task(f"c{number}") for number in range(20)], queue="other"),
            client.insert_many_copy([Task("d")], queue=QUEUE, priority=3),
            client.enqueue_many_copy([Task("e")], queue=QUEUE, priority=4),
        )
        job = await client.insert(Task("f"), queue="other")
        await asyncio.gather(
            client.cancel(job.id), client.list_jobs(), client.queue_counts(),
            client.pause_queue("other"), client.resume_queue("other"), client.require_schema(),
        )  # fmt: skip
        assert (await client.retry(job.id)).state is JobState.Available
        await fleet.quiet()
        assert await client.shutdown()
    assert (await fleet.counts()).completed == 42


async def in_transaction(client: awa.AsyncClient, key: str) -> None:
    async with client.transaction() as transaction:
        # A queue that nobody knew needs a connection beside the transaction's.
        await transaction.insert(Task(key), queue=QUEUE)
        await transaction.insert(Task(key), queue=f"only-{key}")


async def test_a_pool_gives_connections_back_when_somebody_else_gets_none(make_server, connect):
    server = make_server(max_connections="10", superuser_reserved_connections="0", fsync="off")
    database = server.create_database()
    await awa_migrations.migrate(database.dsn)
    ours = "select count(*) from pg_stat_activity where application_name = 'awa'"
    async with awa.AsyncClient(database.dsn, 6) as client:
        await asyncio.gather(*(client.queue_counts() for _ in range(6)))
        others = [await connect(database.dsn)]
        had = await others[0].fetchval(ours)
        assert had > 2
        with suppress(asyncpg.TooManyConnectionsError):
            while True:
                others.append(await connect(database.dsn))

        async def one_more_gets_in() -> bool:
            await client.queue_counts()
            with suppress(asyncpg.TooManyConnectionsError):
                others.append(await connect(database.dsn))
                return True
            return False

        # What is not used at all is closed after 35 seconds, whoever needs it.
        await eventually(one_more_gets_in, timedelta(seconds=15), what="one more to get in")
        await client.queue_counts()
        assert await others[0].fetchval(ours) < had


async def test_a_busy_process_holds_no_more_connections_than_the_documents_say(
    database, connect, tmp_path, fleet
):
    places, pool = 200, 3
    admin = await connect(database.dsn)
    # Those of the command: nobody else is of this name.
    held = """
        select application_name, count(*) from pg_stat_activity
         where datname = current_database() and usename = $1 group by 1
    """
    role = f"w_{database.name}"
    await admin.execute(f"create role {role} login superuser")
    commands = Commands(database.server.dsn(database.name, user=role), tmp_path)
    try:
        command = commands.start("work", "--queue", f"q:{places}", AWA_MAX_CONNECTIONS=str(pool))
        await command.works()
        await fleet.client.insert_many(
            [{"key": f"t{number}"} for number in range(places)], kind="wait", queue=QUEUE
        )
        await commands.noted("started", *(f"t{number}" for number in range(places)))
        most: Counter[str] = Counter()

        async def is_over() -> bool:
            for name, count in await admin.fetch(held, role):
                most[name] = max(most[name], count)
            counts = await fleet.counts()
            return counts.completed == places

        commands.open_gate()
        await eventually(is_over, timedelta(seconds=30), what="all jobs to end")
        assert most["awa claim"] == most["awa finish"] == most["awa listen"] == 1
        assert 1 <= most["awa"] <= pool
        assert sum(most.values()) <= 3 + pool
        assert "3 + `AWA_MAX_CONNECTIONS` for a process" in WORKER_PAGE.read_text()
    finally:
        commands.close()
        await admin.execute(
            "select pg_terminate_backend(pid, 5000) from pg_stat_activity where usename = $1", role
        )
        await admin.execute(f"drop role {role}")
