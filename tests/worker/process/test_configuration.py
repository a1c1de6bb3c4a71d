"""What `awa worker` is started with: clear words and an exit code, or patience."""

import socket
from datetime import timedelta

import asyncpg
import pytest

from awa import AsyncClient, JobState
from support.command.command import fetch
from support.sizes import sized
from support.waiting import eventually, passed

LONG = timedelta(seconds=30)


@pytest.mark.parametrize(
    ("arguments", "environ", "said"),
    [
        (("work",), {"AWA_DATABASE_URL": None}, "no database: set AWA_DATABASE_URL="),
        (("work",), {"AWA_DATABASE_URL": "mysql://u:hunter2@h/d"}, "postgresql://user@host"),
        (("work",), {"AWA_PROCESSES": "many"}, "AWA_PROCESSES is not a whole number"),
        (("work",), {"AWA_LOG_LEVEL": "loud"}, "AWA_LOG_LEVEL takes debug, info"),
        (("work",), {"AWA_LOG_FORMAT": "xml"}, "AWA_LOG_FORMAT takes json or text"),
        (("work",), {"AWA_HEALTH_ADDRESS": "8321"}, "health_address is host:port"),
        (("work",), {"AWA_STATE_FOLDER": "/proc/nowhere"}, "the state folder /proc/nowhere"),
        (("work", "--queue", "a:many"), {}, "AWA_QUEUES lists queues as"),
        (("nowhere",), {}, "there is no module nowhere"),
        (("no/module",), {}, "'no/module' is no module name"),
        (("no_client",), {}, "module no_client has no client"),
        (("no_handler",), {}, "no handler is registered in no_handler"),
        (("work:nothing",), {}, "work:nothing is no client: work has no such name"),
        (("work:FOLDER",), {}, "work:FOLDER is no client"),
        (("two_clients",), {}, "say which one: two_clients:one or two_clients:two"),
        (("two_clients:one", "two_clients:two"), {}, "kind 'quick' has a handler already"),
    ],
)
async def test_what_cannot_work_is_said_once_and_ends_with_78(commands, arguments, environ, said):
    command = commands.start(*arguments, **{"AWA_PROCESSES": "2", **environ})
    assert await command.ended(45) == 78
    plain = [line for line in command.output.splitlines() if not line.startswith("{")]
    assert len(plain) == 1
    assert plain[0].startswith("awa: ")
    assert said in plain[0]
    assert "hunter2" not in command.output


async def test_a_module_that_raises_ends_with_1_and_its_traceback(commands):
    command = commands.start("broken")
    assert await command.ended(45) == 1
    plain = [line for line in command.output.splitlines() if not line.startswith("{")]
    assert len(plain) == 1
    assert plain[0].startswith("awa: the handlers cannot be imported: RuntimeError in")
    assert plain[0].endswith("broken.py, line 5")
    (line,) = command.lines("the handlers cannot be imported")
    assert "the reason" in line["exception"]


async def test_a_word_that_is_no_option_is_wrong_usage(commands):
    command = commands.start("work", "--quueue", "a")
    assert await command.ended(45) == 2


async def test_every_module_s_handlers_are_run_and_a_blocking_client_counts(commands, client):
    command = commands.start("two_clients:two", "--queue", "default:3", "--processes", "2")
    await command.works(2)
    assert [line["places"] for line in command.lines("worker started")] == [3, 3]
    job = await client.insert({"key": "a"}, kind="quick")

    async def done():
        return (await client.get_job(job.id)).state is JobState.Completed

    await eventually(done, LONG)


async def test_start_before_the_database_waits_and_works_once_it_is_there(
    make_commands, durable_database
):
    durable_database.server.stop()
    commands = make_commands(durable_database.dsn)
    command = commands.start("work", "--processes", "2")
    await command.said("cannot work yet, trying again", times=2)
    await passed(sized(0, 60))
    status, found = await command.json_of("/readyz")
    assert (status, found["ready"], found["postgres_connected"]) == (503, False, False)
    assert "the database did not answer" in found["reason"]
    assert await command.get("/healthz") == (200, '{"live": true}\n')
    durable_database.server.start()
    await command.works(2)
    async with AsyncClient(durable_database.dsn, 1) as client:
        await client.insert({"key": "a"}, kind="quick")
        await commands.noted("started", "a")

    async def ready():
        return (await command.get("/readyz"))[0] == 200

    await eventually(ready, LONG, what="readiness")


async def test_a_database_without_the_schema_is_waited_for(make_commands, empty_database):
    commands = make_commands(empty_database.dsn)
    command = commands.start()
    (line,) = await command.said("cannot work yet, trying again")
    assert "run `awa migrate`" in line["reason"]
    status, found = await command.json_of("/readyz")
    assert status == 503
    assert found["postgres_connected"] is True
    assert (found["schema_version"], found["schema_compatible"]) == (None, False)
    assert found["expected_schema_version"] == 52
    async with AsyncClient(empty_database.dsn, 1) as client:
        await client.migrate()
        await command.works()
        await client.insert({"key": "a"}, kind="quick")
        await commands.noted("started", "a")


async def test_a_role_that_is_not_there_yet_is_waited_for(make_commands, database, connect):
    role = f"late_{database.name}"
    commands = make_commands(database.server.dsn(database.name, user=role))
    command = commands.start()
    (line,) = await command.said("cannot work yet, trying again")
    assert "refused the role or its password" in line["reason"]
    admin = await connect(database.dsn)
    await admin.execute(f"create role {role} login")
    try:
        (_, line) = await command.said("cannot work yet, trying again", times=2)
        assert "lacks a right" in line["reason"]
        await admin.execute(f"select awa.grant_v1('{role}', 'worker')")
        await command.works()
    finally:
        command.close()
        await admin.execute(f"drop owned by {role}; drop role {role}")


async def newer(dsn: str, kind: str) -> None:
    """Let a later release have migrated the schema."""
    session = await asyncpg.connect(dsn)
    await session.execute(
        "insert into awa.schema_version (version, name, kind, checksum, duration)"
        " values (999, 'later', $1, '', '0')",
        kind,
    )
    await session.close()


async def test_a_schema_that_took_something_away_ends_it_with_78(commands, database):
    await newer(database.dsn, "contract")
    command = commands.start()
    assert await command.ended(45) == 78
    assert "upgrade Awa in this process" in command.output.splitlines()[-1]


async def test_a_schema_that_takes_something_away_meanwhile_ends_it_and_its_jobs_go_back(
    commands, client, database
):
    command = commands.start("work", "--processes", "2")
    await command.works(2)
    job = await client.insert({"key": "a"}, kind="stay")
    await commands.noted("started", "a")
    await newer(database.dsn, "contract")
    assert await command.ended(60) == 78
    assert "upgrade Awa in this process" in command.output.splitlines()[-1]
    found = await client.get_job(job.id)
    assert (found.state, found.attempt, found.errors) == (JobState.Available, 0, [])


async def test_a_schema_that_only_added_something_is_fine(commands, database):
    await newer(database.dsn, "expand")
    await commands.start().works()


async def test_an_address_in_use_ends_it_when_it_was_asked_for(commands):
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        command = commands.start(AWA_HEALTH_ADDRESS=f"127.0.0.1:{port}")
        assert await command.ended(45) == 78
    assert f"cannot listen on 127.0.0.1:{port}" in command.output


async def test_metrics_may_have_an_address_of_their_own(commands):
    command = commands.start(AWA_METRICS_ADDRESS="127.0.0.1:0")
    await command.works()
    health, metrics = [line["port"] for line in command.lines("serving health pages")]
    assert fetch(health, "/metrics")[0] == 404
    assert fetch(health, "/readyz")[0] == 200
    assert fetch(metrics, "/metrics")[0] == 200
    assert fetch(metrics, "/readyz")[0] == 404


async def test_health_pages_can_be_turned_off(commands):
    command = commands.start("work", "--health-address", "off", AWA_HEALTH_ADDRESS=None)
    await command.works()
    assert command.lines("serving health pages") == []
