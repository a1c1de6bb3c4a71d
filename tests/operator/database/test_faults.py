"""Databases that cannot be used: each for its reason, in words that hold no secret."""

import asyncio
import ssl
import struct
from datetime import timedelta

import pytest

import awa_migrations
from awa.scaling import Signals, Unknown
from awa_operator.database_faults import statement_fault
from awa_operator.observed import DatabaseProblem as Problem
from support.proxy import FaultProxy
from support.watched import served, slept

PASSWORD = "s3cret"


def refusing(sqlstate, text):
    async def answer(reader, writer):
        await reader.read(1000)
        fields = f"SFATAL\0VFATAL\0C{sqlstate}\0M{text}\0\0".encode()
        writer.write(b"E" + struct.pack("!I", len(fields) + 4) + fields)
        await writer.drain()
        writer.close()

    return answer


@pytest.fixture
async def impostor():
    """Listen in place of PostgreSQL; returns the connection string."""
    servers = []

    async def start(answer):
        servers.append(await asyncio.start_server(answer, "127.0.0.1", 0))
        port = servers[-1].sockets[0].getsockname()[1]
        return f"postgresql://app:{PASSWORD}@127.0.0.1:{port}/app?sslmode=disable"

    yield start
    for server in servers:
        server.close()


async def problem_of(watched, dsn, **changes):
    watched.serve("a", served(dsn, **changes))
    view = await watched.sees("a", lambda view: view.problem is not None)
    assert isinstance(watched.signals("a"), Unknown)
    assert PASSWORD not in view.message
    assert view.message
    return view


@pytest.mark.parametrize(
    ("sqlstate", "problem"),
    [
        ("53300", Problem.TOO_MANY_CONNECTIONS),
        ("57P03", Problem.CONNECTION_REFUSED),
        ("28P01", Problem.AUTHENTICATION_FAILED),
        ("28000", Problem.AUTHENTICATION_FAILED),
        ("3D000", Problem.NO_SUCH_DATABASE),
        ("42501", Problem.PERMISSION_MISSING),
        ("53200", Problem.UNREACHABLE),
        ("XX000", Problem.UNREACHABLE),
    ],
)
async def test_a_refusal_of_the_server_has_its_reason(watched, impostor, sqlstate, problem):
    dsn = await impostor(refusing(sqlstate, f"no, said to app with {PASSWORD}"))
    view = await problem_of(watched, dsn)
    assert view.problem is problem
    assert "said to app" not in view.message


async def test_a_closed_port_refuses(watched):
    dsn = f"postgresql://app:{PASSWORD}@127.0.0.1:1/app"
    assert (await problem_of(watched, dsn)).problem is Problem.CONNECTION_REFUSED


async def test_a_host_that_nobody_knows_is_said(watched):
    view = await problem_of(watched, f"postgresql://app:{PASSWORD}@nowhere.invalid/app")
    assert view.problem is Problem.CONNECTION_REFUSED
    assert "host name" in view.message


async def test_a_server_that_never_answers_is_given_up_within_three_seconds(watched, impostor):
    async def silence(reader, writer):
        await reader.read()
        writer.close()

    dsn = await impostor(silence)
    three_seconds = asyncio.create_task(slept(3))
    assert (await problem_of(watched, dsn)).problem is Problem.TIMEOUT
    assert watched.probes.ends[dsn][0] < await three_seconds + 0.5


async def test_what_is_no_postgresql_is_not_reachable(watched, impostor):
    async def web(reader, writer):
        await reader.read(1000)
        writer.write(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n")
        await writer.drain()
        writer.close()

    assert (await problem_of(watched, await impostor(web))).problem is not None


@pytest.mark.parametrize("option", ["sslmode=s3cret", "sslmode=verify-full&sslrootcert=/s3cret/ca"])
async def test_an_option_that_cannot_be_used_is_no_reason_to_show_it(watched, option):
    view = await problem_of(watched, f"postgresql://app:{PASSWORD}@127.0.0.1:1/app?{option}")
    assert view.problem in (Problem.UNREACHABLE, Problem.TLS_FAILED)


@pytest.mark.parametrize("option", ["sslrootcert", "sslcrl", "sslcert"])
async def test_a_file_that_the_operator_lacks_is_named(watched, tmp_path, option):
    mine = tmp_path / "ca.crt"
    mine.write_text(ssl.DER_cert_to_PEM_cert(ssl.create_default_context().get_ca_certs(True)[0]))
    query = f"sslmode=verify-full&sslrootcert={mine}&{option}=/etc/db-authority/it.crt"
    view = await problem_of(watched, f"postgresql://app:{PASSWORD}@127.0.0.1:1/app?{query}")
    assert view.problem is Problem.TLS_FAILED
    assert f"cannot read: /etc/db-authority/it.crt, its {option};" in view.message
    assert str(mine) not in view.message


async def test_an_address_that_trusts_nobody_is_said(watched, monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", str(tmp_path))
    query = "sslmode=verify-full"
    view = await problem_of(watched, f"postgresql://app:{PASSWORD}@127.0.0.1:1/app?{query}")
    assert view.problem is Problem.TLS_FAILED
    assert "has no sslrootcert" in view.message


async def test_a_server_without_tls_is_a_matter_of_tls(watched, database):
    view = await problem_of(watched, database.dsn + "?sslmode=require")
    assert view.problem is Problem.TLS_FAILED


async def test_a_database_that_does_not_exist_is_said(watched, postgres):
    view = await problem_of(watched, postgres.dsn("nowhere"))
    assert view.problem is Problem.NO_SUCH_DATABASE


async def test_a_role_without_a_connection_left_is_said(watched, database, role, connect):
    dsn = database.server.dsn(database.name, user=role)
    for _ in range(2):
        await connect(dsn)
    assert (await problem_of(watched, dsn)).problem is Problem.TOO_MANY_CONNECTIONS


async def test_a_standby_and_a_server_without_writes_are_read_only(watched, make_server):
    server = make_server()
    server.stop()
    (server.data / "standby.signal").touch()
    server.start()
    view = await problem_of(watched, server.dsn())
    assert view.problem is Problem.READ_ONLY
    assert "standby" in view.message

    server.stop()
    (server.data / "standby.signal").unlink()
    with (server.data / "postgresql.conf").open("a") as conf:
        conf.write("default_transaction_read_only = on\n")
    server.start()
    view = await watched.sees("a", lambda view: "default_transaction_read_only" in view.message)
    assert view.problem is Problem.READ_ONLY


async def test_a_role_that_reads_only_by_its_own_default_does_not_make_the_database_so(
    watched, database, role
):
    with database.server.admin() as admin:
        admin.execute(f"alter role {role} set default_transaction_read_only = on")
    watched.serve("a", served(database.server.dsn(database.name, user=role), schema="other"))
    view = await watched.sees("a", lambda view: True)
    assert (view.problem, view.schema_version) == (None, 0)


async def test_a_database_without_schema_is_reachable_and_its_queues_unknown(
    watched, empty_database
):
    watched.serve("a", served(empty_database.dsn))
    view = await watched.sees("a", lambda view: view.is_reachable)
    assert (view.schema_version, view.last_contract_version, view.message) == (0, None, "")
    assert isinstance(await watched.reads("a", lambda _: True), Unknown)


async def test_a_role_without_rights_learns_which_command_gives_them(watched, database, role):
    dsn = database.server.dsn(database.name, user=role)
    view = await problem_of(watched, dsn)
    assert view.problem is Problem.PERMISSION_MISSING
    assert "awa migrate --grant ROLE --level monitor" in view.message


async def test_a_role_that_may_read_the_version_alone_reaches_and_knows_no_signals(
    watched, database, role, connect
):
    admin = await connect(database.dsn)
    await admin.execute(
        f"grant usage on schema awa to {role}; grant select on awa.schema_version to {role}"
    )
    watched.serve("a", served(database.server.dsn(database.name, user=role)))
    view = await watched.sees("a", lambda view: view.is_reachable)
    assert view.schema_version is not None
    assert view.schema_version > 50
    assert "--level monitor" in view.message
    assert isinstance(await watched.reads("a", lambda _: True), Unknown)


async def test_the_level_monitor_is_all_that_the_operator_needs(watched, engine, role):
    await engine.admin.fetchval("select awa.grant_v1($1, 'monitor')", role)
    await engine.enqueue(engine.admin, 1, 2)
    database = engine.database
    watched.serve("a", served(database.server.dsn(database.name, user=role), is_waiting=True))
    view = await watched.sees("a", lambda view: view.is_reachable)
    assert view.message == ""
    assert await watched.reads("a") == Signals(
        ready=2, oldest_ready_age=watched.signals("a").oldest_ready_age
    )
    assert await watched.poller.mark_dead(("ns", "a"), engine.worker, "pod gone")
    assert await watched.poller.costs(("ns", "a")) == {}


async def test_a_schema_that_has_lost_what_the_operator_calls_is_said(watched, engine):
    await engine.admin.execute("drop function awa.signals_v1")
    watched.serve("a", served(engine.database.dsn))
    view = await watched.sees("a", lambda view: view.is_reachable)
    assert "has no signals_v1" in view.message
    assert isinstance(await watched.reads("a", lambda _: True), Unknown)


async def test_the_newest_version_that_took_something_away_is_told(watched, engine):
    await engine.admin.execute(
        "insert into awa.schema_version values (900, 'x', 'contract', '', now(), '0'),"
        " (901, 'y', 'expand', '', now(), '0')"
    )
    watched.serve("a", served(engine.database.dsn))
    view = await watched.sees("a", lambda view: view.is_reachable)
    assert (view.schema_version, view.last_contract_version) == (901, 900)


async def test_what_ordinary_roles_may_open_is_the_connection_limit(watched, engine):
    await engine.admin.execute(f"alter database {engine.database.name} connection limit 17")
    watched.serve("a", served(engine.database.dsn))
    view = await watched.sees("a", lambda view: view.is_reachable)
    assert view.max_connections == 17
    await engine.admin.execute(f"alter database {engine.database.name} connection limit -1")
    view = await watched.sees("a", lambda view: view.max_connections != 17)
    assert view.max_connections == 197  # of 200, three for superusers


async def test_a_statement_that_waits_for_a_lock_makes_signals_unknown_and_nothing_else(
    watched, engine
):
    watched.serve("a", served(engine.database.dsn))
    await watched.reads("a")
    blocker = await engine.session()
    transaction = blocker.transaction()
    await transaction.start()
    await blocker.execute("lock table awa.lanes in access exclusive mode")
    await watched.reads("a", lambda found: isinstance(found, Unknown))
    view = watched.view("a")
    assert view is not None
    assert view.is_reachable
    await transaction.rollback()
    await watched.reads("a")


def test_a_lost_connection_is_told_apart_from_a_refusal():
    assert statement_fault(EOFError()).problem is Problem.CONNECTION_REFUSED
    error = type("Cancelled", (Exception,), {"sqlstate": "57014"})()
    assert statement_fault(error).problem is Problem.TIMEOUT


async def test_a_session_that_was_cut_is_opened_again_before_anything_is_said(watched, engine):
    with FaultProxy(engine.database.server.host, engine.database.server.port) as proxy:
        dsn = engine.database.dsn_through(proxy)
        watched.serve("a", served(dsn))
        await watched.reads("a")
        for _ in range(3):
            proxy.cut()
            await watched.looks_again(dsn)
    assert {problem for _, problem in watched.probes.problems[:4]} == {None}


@pytest.mark.parametrize("mode", ["session", "transaction"])
async def test_a_pooler_will_do_but_for_waking(watched, engine, make_pool, mode):
    pool = make_pool(engine.database.server, mode)
    dsn = pool.dsn(engine.database.name)
    await engine.enqueue(engine.admin, 1)
    watched.serve("a", served(dsn, is_waiting=True))
    assert (await watched.reads("a")).ready == 1
    await engine.drain()
    await watched.reads("a", lambda found: found == Signals())
    await watched.looks_again(dsn, 2)
    assert isinstance(watched.signals("a"), Signals)
    # Asleep on a lock that is another's, nobody would wake it, and everybody would try to.
    locks = """
        select count(*) from pg_locks l join pg_stat_activity a using (pid)
         where l.locktype = 'advisory' and a.datname = current_database()
    """
    assert await engine.admin.fetchval(locks) == 0
    assert await watched.poller.mark_dead(("ns", "a"), engine.worker, "pod gone")


@pytest.mark.parametrize("schema", ["awa", "select"])
async def test_any_schema_that_awa_can_have_can_be_watched(watched, empty_database, schema):
    await awa_migrations.migrate(empty_database.dsn, schema=schema)
    watched.serve("a", served(empty_database.dsn, schema=schema, is_waiting=True))
    assert await watched.reads("a", limit=timedelta(seconds=20)) == Signals()
