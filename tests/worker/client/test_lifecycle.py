"""A client's life: first use, a worker in the same process, the end, and use in other places."""

import asyncio
import gc
import json
import os
import socket
import sys
import warnings
from collections.abc import Callable
from datetime import timedelta

import asyncpg
import pytest

from awa import AsyncClient, AwaError, Client, Job, ValidationError, WorkerSettings
from support.clients import Mail, MakeClient, job_count
from support.postgres import Database
from support.waiting import eventually


def test_the_address_comes_from_the_environment_at_first_use(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = AsyncClient()
    with pytest.raises(ValidationError, match="AWA_DATABASE_URL"):
        _ = client.database
    monkeypatch.setenv("AWA_DATABASE_URL", database.dsn)
    monkeypatch.setenv("AWA_SCHEMA", "other")

    assert client.database.settings.schema == "other"
    assert AsyncClient(schema="mine").database.settings.schema == "mine"


@pytest.mark.parametrize("connections", [0, -1, "two", True, 2.0])
@pytest.mark.parametrize("make", [AsyncClient, Client])
def test_a_wrong_number_of_connections_is_refused(
    make: Callable[..., object], connections: object
) -> None:
    with pytest.raises(ValidationError, match="max_connections"):
        make("postgresql://localhost/app", connections)


@pytest.mark.parametrize("schema", ["", "Bad", 'x"; drop', "pg_x", "x" * 49])
async def test_a_schema_name_that_cannot_be_is_refused(
    make_client: MakeClient, schema: str
) -> None:
    with pytest.raises(ValidationError, match="schema"):
        await make_client(schema=schema).insert(Mail("a"))


async def test_closing_is_no_error_when_the_connection_has_just_broken(
    make_client: MakeClient,
) -> None:
    client = make_client()
    await client.insert(Mail("a"))
    async with client.database.lend() as session:
        # As when the other end goes: what is sent from here on is refused.
        session.socket.shutdown(socket.SHUT_WR)
    await client.close()


async def test_closing_ends_every_session_and_may_be_repeated(
    make_client: MakeClient, session: asyncpg.Connection
) -> None:
    async with make_client() as client:
        await client.insert(Mail("a"))
        assert await _sessions(session) == 1
    await client.close()
    await client.close()
    await eventually(lambda: _none_left(session))

    await client.insert(Mail("b"))
    assert await job_count(session) == 2


async def test_a_client_that_was_never_used_can_be_closed() -> None:
    await AsyncClient("postgresql://localhost/nowhere").close()
    await AsyncClient().close()


async def test_a_second_start_is_refused_also_while_the_first_one_starts(
    client: AsyncClient,
) -> None:
    client.task(Mail)(_send)
    first, second = await asyncio.gather(client.start(), client.start(), return_exceptions=True)

    assert first is None
    assert isinstance(second, AwaError)
    assert "runs already" in str(second)
    with pytest.raises(AwaError, match="call shutdown first"):
        await client.start()
    assert await client.shutdown()
    assert client.worker is None
    await client.start()
    assert await client.shutdown()
    assert await client.shutdown()


async def test_a_start_without_handlers_is_refused(client: AsyncClient) -> None:
    with pytest.raises(ValidationError, match="no handler is registered"):
        await client.start()
    assert client.worker is None


async def test_a_start_that_fails_can_be_tried_again(
    make_client: MakeClient, empty_database: Database
) -> None:
    client = make_client(empty_database.dsn)
    client.task(Mail)(_send)
    with pytest.raises(AwaError, match="awa migrate"):
        await client.start()
    await client.migrate()
    await client.start()
    assert await client.shutdown()


async def test_the_queue_of_a_handler_must_be_among_those_served(client: AsyncClient) -> None:
    client.task(Mail, queue="mails")(_send)
    with pytest.raises(ValidationError, match="expects queue 'mails'"):
        await client.start([("default", 1)])


@pytest.mark.parametrize(
    ("queues", "knobs"),
    [
        ([("default", 1), ("default", 2)], {}),
        ([{"max_workers": 1}], {}),
        ([{"name": "default", "weight": 0}], {}),
        ([{"name": "default", "max_workers": 1, "min_workers": 1}], {}),
        ([("default", 0)], {}),
        (None, {"poll_interval_ms": 0}),
        (None, {"heartbeat_interval_ms": 0}),
        ([("default", 1)], {"settings": WorkerSettings()}),
    ],
)
async def test_wrong_settings_of_a_worker_are_refused_at_the_start(
    client: AsyncClient, queues: object, knobs: dict[str, object]
) -> None:
    client.task(Mail)(_send)
    with pytest.raises(ValidationError):
        await client.start(queues, **knobs)  # type: ignore[arg-type]
    assert client.worker is None


async def test_a_worker_serves_the_queues_of_its_handlers_and_drains_at_shutdown(
    client: AsyncClient, session: asyncpg.Connection
) -> None:
    started, go_on = asyncio.Event(), asyncio.Event()

    @client.task(Mail, queue="mails")
    async def send(job: Job[Mail]) -> None:
        started.set()
        await go_on.wait()

    job = await client.insert(Mail("a"), queue="mails")
    await client.start(drain_timeout=timedelta(seconds=30))
    await asyncio.wait_for(started.wait(), 10)
    stopping = asyncio.create_task(client.shutdown())
    await client.insert(Mail("b"), queue="mails")
    go_on.set()

    assert await asyncio.wait_for(stopping, 20)
    assert str((await client.get_job(job.id)).state) == "completed"


async def test_a_worker_that_is_not_given_time_hands_its_job_back(client: AsyncClient) -> None:
    started = asyncio.Event()

    @client.task(Mail)
    async def send(job: Job[Mail]) -> None:
        started.set()
        await asyncio.Event().wait()

    job = await client.insert(Mail("a"))
    await client.start()
    await asyncio.wait_for(started.wait(), 10)
    await client.shutdown(timeout_ms=0)

    found = await client.get_job(job.id)
    assert str(found.state) in {"available", "retryable"}


async def test_a_call_cancelled_in_flight_leaves_the_pool_healthy(
    make_client: MakeClient, session: asyncpg.Connection
) -> None:
    client = make_client(max_connections=2)
    for rounds in range(20):
        calls = [asyncio.create_task(client.insert(Mail("a", n))) for n in range(4)]
        for _ in range(rounds % 7):
            await asyncio.sleep(0)
        for call in calls:
            call.cancel()
        await asyncio.gather(*calls, return_exceptions=True)

    before = await job_count(session)
    async with asyncio.timeout(10):
        await asyncio.gather(*(client.insert(Mail("b")) for _ in range(10)))
    assert await job_count(session) == before + 10

    async def has_two_sessions() -> bool:
        return await _sessions(session) <= 2

    # The server notices a moment later that a session has gone.
    await eventually(has_two_sessions)


async def test_an_exhausted_pool_says_that_it_is_the_pool(
    make_client: MakeClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWA_STATEMENT_TIMEOUT_SECONDS", "1")
    client = make_client(max_connections=1)
    async with client.transaction():
        with pytest.raises(AwaError, match="none of the client's 1 connections came free"):
            await client.insert(Mail("a"))
    await client.insert(Mail("b"))


def test_a_client_goes_on_in_a_second_event_loop(database: Database) -> None:
    client = AsyncClient(database.dsn)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)  # ended loops left their sessions open
        first = asyncio.run(_insert(client))
        second = asyncio.run(_insert(client))
        asyncio.run(client.close())
        gc.collect()
    assert first != second


async def test_a_client_refuses_to_serve_two_loops_at_once(client: AsyncClient) -> None:
    await client.insert(Mail("a"))

    def elsewhere() -> None:
        with pytest.raises(ValidationError, match="another event loop"):
            asyncio.run(_insert(client))

    await asyncio.to_thread(elsewhere)
    await client.insert(Mail("b"))


CHILDREN, EACH = 8, 100
FORK_ENVIRONMENT = {"PYTHONWARNINGS": "ignore", "PYTHONPATH": os.pathsep.join(sys.path)}


async def test_forked_children_start_afresh_and_leave_the_parent_alone(
    client: AsyncClient, session: asyncpg.Connection, database: Database
) -> None:
    # In a program of its own: a fork of the test process would take pytest along.
    program = await asyncio.create_subprocess_exec(
        sys.executable, "-c", FORKING, database.dsn, "async",
        stdout=asyncio.subprocess.PIPE, env={**os.environ, **FORK_ENVIRONMENT},
    )  # fmt: skip
    out, _ = await asyncio.wait_for(program.communicate(), 60)

    assert program.returncode == 0
    assert json.loads(out) == {"children": [0] * CHILDREN, "parent_sessions_kept": True}
    assert await job_count(session) == 1 + EACH * (CHILDREN + 1)


async def test_a_blocking_client_can_be_forked_too(
    session: asyncpg.Connection, database: Database
) -> None:
    program = await asyncio.create_subprocess_exec(
        sys.executable, "-c", FORKING, database.dsn, "sync",
        stdout=asyncio.subprocess.PIPE, env={**os.environ, **FORK_ENVIRONMENT},
    )  # fmt: skip
    out, _ = await asyncio.wait_for(program.communicate(), 60)

    assert program.returncode == 0
    assert json.loads(out) == {"children": [0] * CHILDREN, "parent_sessions_kept": True}
    assert await job_count(session) == 1 + EACH * (CHILDREN + 1)


FORKING = """
import asyncio, json, os, sys
import psycopg
from awa import AsyncClient, Client
from support.clients import Mail

dsn, form = sys.argv[1:]
CHILDREN, EACH = 8, 100

def pids():
    with psycopg.connect(dsn) as session:
        return set(session.execute("select pid from pg_stat_activity where application_name = 'awa'"
                                   " and datname = current_database()").fetchall())

async def insert(client, count, close=False):
    for n in range(count):
        await client.insert(Mail("a", n))
    if close:
        await client.close()

def insert_sync(client, count):
    for n in range(count):
        client.insert(Mail("a", n))
    client.close()

def forked(client):
    children = []
    for _ in range(CHILDREN):
        pid = os.fork()
        if pid == 0:
            try:
                if form == "async":
                    asyncio.run(insert(client, EACH, close=True))
                else:
                    insert_sync(client, EACH)
            except BaseException as error:
                print(repr(error), file=sys.stderr)
                os._exit(1)
            os._exit(0)
        children.append(pid)
    return children

def report(children, before):
    codes = [os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in children]
    print(json.dumps({"children": codes, "parent_sessions_kept": before <= pids()}))

async def main():
    client = AsyncClient(dsn)
    await insert(client, 1)
    before = pids()
    children = forked(client)
    await insert(client, EACH)
    await asyncio.to_thread(report, children, before)
    await client.close()

if form == "async":
    asyncio.run(main())
else:
    client = Client(dsn)
    client.insert(Mail("a"))
    before = pids()
    children = forked(client)
    for n in range(EACH):
        client.insert(Mail("a", n))
    report(children, before)
    client.close()
"""


async def _insert(client: AsyncClient) -> int:
    return (await client.insert(Mail("a"))).id


async def _none_left(session: asyncpg.Connection) -> bool:
    return await _sessions(session) == 0


async def _sessions(session: asyncpg.Connection) -> int:
    count: int = await session.fetchval(
        "select count(*) from pg_stat_activity where application_name like 'awa%'"
        " and datname = current_database()"
    )
    return count


async def _send(job: Job[Mail]) -> None:
    pass
