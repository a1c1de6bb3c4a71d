"""The pages that tell how a worker is."""

import asyncio
import os
import signal
import socket
from datetime import timedelta

import pytest

from awa._runtime.condition import Condition, Stage
from awa.errors import ValidationError
from awa.health import Address, summary
from support.command.command import fetch
from support.waiting import eventually

LONG = timedelta(seconds=30)
WORKING = Condition(
    stage=Stage.working,
    postgres_connected=True,
    schema_version=52,
    schema_compatible=True,
    services={"claimer": "running"},
)


async def ready(command):
    status, found = await command.json_of("/readyz")
    return found if status == 200 else None


async def test_a_working_fleet_is_ready_and_says_so_in_detail(commands):
    command = commands.start("work", "--processes", "2")
    await command.works(2)
    found = await eventually(lambda: ready(command), LONG, what="readiness")
    assert found.pop("leader") in (True, False)
    assert found == {
        "ready": True,
        "postgres_connected": True,
        "schema_version": 52,
        "expected_schema_version": 52,
        "schema_compatible": True,
        "services": dict.fromkeys(
            ("finisher", "dispatcher", "heartbeat", "deadlines", "listener", "claimer",
             "maintenance"),
            "running",
        ),
        "shutting_down": False,
        "processes": 2,
        "reason": None,
    }  # fmt: skip


async def test_it_is_not_ready_while_handlers_are_imported(commands):
    command = commands.start("slow")
    await eventually((commands.folder / "importing").exists, LONG)
    status, found = await command.json_of("/readyz")
    assert (status, found["ready"], found["reason"]) == (503, False, "a process is starting")
    assert (await command.get("/healthz"))[0] == 200


@pytest.mark.timeout(180)
async def test_a_stopped_database_makes_it_unready_and_never_unhealthy(
    make_commands, durable_database
):
    commands = make_commands(durable_database.dsn)
    command = commands.start()
    await eventually(lambda: ready(command), LONG, what="readiness")
    durable_database.server.stop()

    async def unready():
        status, found = await command.json_of("/readyz")
        return found if status == 503 and not found["postgres_connected"] else None

    found = await eventually(unready, LONG)
    assert found["services"]["claimer"] in {"running", "failing"}
    for _ in range(50):
        assert (await command.get("/healthz"))[0] == 200
    durable_database.server.start()
    await eventually(lambda: ready(command), timedelta(seconds=60), what="readiness again")
    assert command.lines("worker process died") == []


@pytest.mark.timeout(180)
async def test_a_claim_loop_that_hangs_is_named(commands, database, connect):
    command = commands.start()
    await eventually(lambda: ready(command), LONG, what="readiness")
    session = await connect(database.dsn)
    transaction = session.transaction()
    await transaction.start()
    await session.execute("lock table awa.queue_meta, awa.lanes in access exclusive mode")

    async def stalled():
        status, found = await command.json_of("/readyz")
        return status == 503 and found["services"].get("claimer") in {"stalled", "failing"}

    await eventually(stalled, timedelta(seconds=30), what="the claimer to be reported")
    assert (await command.get("/healthz"))[0] == 200
    await transaction.rollback()
    await eventually(lambda: ready(command), timedelta(seconds=60), what="readiness again")


async def test_a_handler_that_holds_up_the_loop_is_named_and_no_reason_to_restart_yet(
    commands, client
):
    command = commands.start()
    await eventually(lambda: ready(command), LONG, what="readiness")
    await client.insert({"key": "a"}, kind="hold_up")
    await commands.noted("started", "a")
    status, found = await command.json_of("/readyz")
    assert (status, found["services"]["loop"]) == (503, "stalled")
    assert (await command.get("/healthz"))[0] == 200
    commands.open_gate()
    await eventually(lambda: ready(command), LONG, what="readiness again")


async def test_a_loop_that_is_held_up_beyond_its_staleness_is_unhealthy(commands, client):
    command = commands.start(
        AWA_HEARTBEAT_STALENESS_SECONDS="4", AWA_HEARTBEAT_INTERVAL_SECONDS="1"
    )
    await command.works()
    await client.insert({"key": "a"}, kind="hold_up")
    await commands.noted("started", "a")

    async def unhealthy():
        return (await command.get("/healthz"))[0] == 503

    await eventually(unhealthy, LONG, what="liveness to be false")
    commands.open_gate()

    async def healthy():
        return (await command.get("/healthz"))[0] == 200

    await eventually(healthy, LONG, what="liveness again")


async def test_a_replaced_process_is_ready_again(commands):
    command = commands.start()
    await eventually(lambda: ready(command), LONG, what="readiness")
    os.kill(command.children()[0], signal.SIGKILL)
    await command.works(2)
    await eventually(lambda: ready(command), LONG, what="readiness again")


@pytest.fixture
async def port(commands):
    command = commands.start()
    (line,) = await command.said("serving health pages")
    return line["port"]


async def test_only_reading_is_served(port):
    assert fetch(port, "/healthz", method="HEAD") == (200, "")
    assert fetch(port, "/healthz?verbose=1")[0] == 200
    for method in ("POST", "PUT", "DELETE", "OPTIONS"):
        assert fetch(port, "/healthz", method=method)[0] == 405
    assert fetch(port, "/")[0] == 404
    assert fetch(port, "/../etc/passwd")[0] == 404


@pytest.mark.parametrize(
    ("request_bytes", "status"),
    [
        (b"nonsense\r\n\r\n", b"400"),
        (b"GET /healthz SPDY/3\r\n\r\n", b"400"),
        (b"GET /" + b"x" * 20_000 + b" HTTP/1.1\r\n\r\n", b"431"),
        (b"\x16\x03\x01\x02\x00\r\n\r\n", b"400"),
    ],
)
async def test_what_is_no_request_is_refused(port, request_bytes, status):
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(request_bytes)
    async with asyncio.timeout(10):
        answer = await reader.read()
    writer.close()
    assert answer.split(b" ")[1] == status
    assert fetch(port, "/healthz")[0] == 200


async def test_silent_connections_are_closed_and_too_many_are_turned_away(port):
    opened = [socket.create_connection(("127.0.0.1", port)) for _ in range(80)]
    try:
        for connection in opened:
            connection.settimeout(15)
            assert connection.recv(1) == b""
    finally:
        for connection in opened:
            connection.close()
    assert fetch(port, "/healthz")[0] == 200


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("10.0.0.1:8321", Address("10.0.0.1", 8321)),
        ("[::1]:0", Address("::1", 0)),
        ("localhost:65535", Address("localhost", 65535)),
    ],
)
def test_addresses_are_read(text, address):
    assert Address.parse(text, "health_address") == address


@pytest.mark.parametrize("text", ["", "8321", ":8321", "host:", "host:many", "host:70000"])
def test_what_is_no_address_is_refused(text):
    with pytest.raises(ValidationError, match="health_address is host:port"):
        Address.parse(text, "health_address")


def test_a_summary_is_as_good_as_the_worst_process():
    failing = Condition(
        stage=Stage.working, postgres_connected=True, schema_version=52, schema_compatible=True,
        services={"claimer": "failing", "listener": "running"}, leader=True,
    )  # fmt: skip
    both = summary([WORKING, failing], shutting_down=False)
    assert both["ready"] is False
    assert both["services"] == {"claimer": "failing", "listener": "running"}
    assert both["leader"] is True
    assert summary([WORKING, WORKING], shutting_down=False)["ready"] is True
    assert summary([WORKING], shutting_down=True)["ready"] is False
    assert summary([], shutting_down=False)["ready"] is False
