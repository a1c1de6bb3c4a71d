"""Databases that cannot be used: each is one error of ours that says what to do."""

import asyncio
from collections.abc import Callable
from typing import Any

import asyncpg
import pytest

from awa import (
    AsyncClient,
    AwaError,
    Client,
    DatabaseTooOld,
    DatabaseUnreachable,
    Job,
    PermissionMissing,
    SchemaNotMigrated,
    SchemaTooNew,
    ValidationError,
)
from awa_migrations import migrate, packaged_catalog
from support.clients import Mail, MakeClient, job_count
from support.impostor import Serve, fatal, of_version, refusing
from support.postgres import Connect, Database

type Call = Callable[[AsyncClient], Any]

CALLS: dict[str, Call] = {
    "insert": lambda c: c.insert(Mail("a")),
    "insert_many": lambda c: c.insert_many([Mail("a")] * 2, opts=[None, {"queue": "x"}]),
    "insert_many_copy": lambda c: c.insert_many_copy([Mail("a")]),
    "enqueue_many_copy": lambda c: c.enqueue_many_copy([Mail("a")]),
    "transaction": lambda c: _in_transaction(c),
    "get_job": lambda c: c.get_job(1),
    "list_jobs": lambda c: c.list_jobs(),
    "queue_counts": lambda c: c.queue_counts(),
    "cancel": lambda c: c.cancel(1),
    "retry": lambda c: c.retry(1),
    "pause_queue": lambda c: c.pause_queue("q"),
    "resume_queue": lambda c: c.resume_queue("q"),
    "require_schema": lambda c: c.require_schema(),
    "start": lambda c: _start(c),
}


async def _in_transaction(client: AsyncClient) -> None:
    async with client.transaction() as transaction:
        await transaction.insert(Mail("a"))


async def _start(client: AsyncClient) -> None:
    @client.task(Mail)
    async def send(job: Job[Mail]) -> None:
        pass

    await client.start()


@pytest.fixture(params=CALLS)
def call(request: pytest.FixtureRequest) -> Call:
    return CALLS[request.param]


async def test_a_database_that_nobody_serves_is_unreachable(
    make_client: MakeClient, call: Call
) -> None:
    with pytest.raises(DatabaseUnreachable, match="check that it runs and that the address"):
        await call(make_client("postgresql://app:s3cret@127.0.0.1:1/app"))


async def test_a_database_without_the_schema_is_to_be_migrated(
    make_client: MakeClient, empty_database: Database, call: Call
) -> None:
    with pytest.raises(SchemaNotMigrated, match="run `awa migrate`") as refusal:
        await call(make_client(empty_database.dsn))
    assert refusal.value.found is None


async def test_another_schema_than_the_one_there_is_missing(
    make_client: MakeClient, call: Call
) -> None:
    with pytest.raises(SchemaNotMigrated, match="no Awa schema"):
        await call(make_client(schema="other"))


@pytest.mark.parametrize("version", [43, 44])
async def test_a_schema_that_is_too_old_is_named_with_both_versions(
    make_client: MakeClient, empty_database: Database, version: int
) -> None:
    await migrate(empty_database.dsn, to=version)
    client = make_client(empty_database.dsn)

    for name, call in CALLS.items():
        if name == "transaction":  # cannot look while its transaction is broken
            continue
        with pytest.raises(AwaError) as refusal:
            await call(client)
        assert isinstance(refusal.value, SchemaNotMigrated), name
        assert refusal.value.found == version, name
        assert f"has version {version} and version 51 is needed" in str(refusal.value)


async def test_a_schema_that_took_something_away_is_too_new(
    client: AsyncClient, session: asyncpg.Connection
) -> None:
    newest = packaged_catalog().latest
    await session.execute(
        "insert into awa.schema_version (version, name, kind, checksum, duration)"
        " select $1::int + 1, 'later', 'contract', checksum, duration"
        " from awa.schema_version limit 1",
        newest,
    )
    await session.execute("drop function awa.list_jobs_v1, awa.resume_queue_v1")

    for call in (CALLS["require_schema"], CALLS["list_jobs"], CALLS["resume_queue"]):
        with pytest.raises(SchemaTooNew, match="upgrade Awa") as refusal:
            await call(client)
        assert (refusal.value.found, refusal.value.needed) == (newest + 1, newest)


@pytest.mark.parametrize("version", ["14.11", "9.6.24"])
async def test_a_server_that_is_too_old_is_named_with_both_versions(
    make_client: MakeClient, serve: Serve, version: str
) -> None:
    client = make_client(await serve(of_version(version)))
    for call in CALLS.values():
        with pytest.raises(DatabaseTooOld, match="Awa needs 15 or newer"):
            await call(client)


@pytest.mark.parametrize(
    ("sqlstate", "text", "error", "says"),
    [
        ("28P01", "password authentication failed", DatabaseUnreachable, "role or its password"),
        ("28000", "no pg_hba.conf entry", DatabaseUnreachable, "role or its password"),
        ("3D000", "database does not exist", DatabaseUnreachable, "does not exist; create it"),
        ("53300", "too many clients already", DatabaseUnreachable, "no free connection"),
        ("57P03", "the database system is starting up", DatabaseUnreachable, "may be restarting"),
        ("42501", "permission denied for database", PermissionMissing, "lacks a right"),
        ("08P01", "unsupported startup parameter: jit", DatabaseUnreachable, "connection pooler"),
    ],
)
async def test_a_refusal_of_the_server_is_told_apart_and_keeps_the_password(
    make_client: MakeClient,
    serve: Serve,
    sqlstate: str,
    text: str,
    error: type[AwaError],
    says: str,
) -> None:
    client = make_client(await serve(refusing(sqlstate, text)))
    for call in CALLS.values():
        with pytest.raises(error, match=says) as refusal:
            await call(client)
        assert refusal.value.sqlstate == sqlstate  # type: ignore[attr-defined]
        assert "s3cret" not in repr(refusal.value)


@pytest.mark.parametrize("call", [call for call in CALLS if call != "start"])
async def test_a_session_that_the_server_has_ended_is_not_lent_again(
    make_client: MakeClient, serve: Serve, call: str
) -> None:
    ending = of_version("15.4", then=fatal("57P01", "terminating connection"))
    began = 0

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal began
        began += 1
        await ending(reader, writer)

    client = make_client(await serve(answer), max_connections=1)
    for nth in (1, 2):
        with pytest.raises(DatabaseUnreachable):
            await CALLS[call](client)
        assert began == nth


async def test_a_database_that_does_not_exist_is_told_by_a_real_server(
    make_client: MakeClient, database: Database
) -> None:
    client = make_client(database.server.dsn("nowhere"))
    with pytest.raises(DatabaseUnreachable, match="does not exist; create it"):
        await client.insert(Mail("a"))


@pytest.mark.parametrize(
    "address",
    ["", "app", "http://localhost/app", "postgresql://app:s3cret@host:port/app",
     "postgresql://app:s3cret@[::1/app"],
)  # fmt: skip
@pytest.mark.parametrize("make", [AsyncClient, Client])
async def test_what_is_no_address_is_refused_without_repeating_it(
    make: type[AsyncClient | Client], address: str
) -> None:
    client = make(address)
    with pytest.raises(ValidationError, match=r"AWA_DATABASE_URL|database_url") as refusal:
        client.list_jobs() if isinstance(client, Client) else await client.list_jobs()
    assert "s3cret" not in repr(refusal.value)
    closing = client.close()
    if closing is not None:
        await closing


async def test_a_role_that_may_only_look_cannot_enqueue(
    make_client: MakeClient, session: asyncpg.Connection, app: str, database: Database
) -> None:
    role = f"app_{database.name}"
    await session.execute(f"revoke execute on all functions in schema awa from {role}")
    await session.execute(f"grant select on all tables in schema awa to {role}")
    client = make_client(app)

    for name in ("insert", "insert_many", "insert_many_copy", "enqueue_many_copy", "transaction"):
        with pytest.raises(PermissionMissing, match="permission denied for function"):
            await CALLS[name](client)
    assert await client.require_schema() == packaged_catalog().latest
    assert await job_count(session) == 0
    assert await session.fetchval("select count(*) from awa.queue_meta") == 0


async def test_a_read_only_server_refuses_without_writing(
    make_client: MakeClient, connect: Connect, database: Database
) -> None:
    admin = await connect(database.dsn)
    await admin.execute(f"alter database {database.name} set default_transaction_read_only to on")
    client = make_client()
    with pytest.raises(AwaError, match="read-only") as refusal:
        await client.insert(Mail("a"))
    assert refusal.value.sqlstate == "25006"  # type: ignore[attr-defined]
    assert await job_count(admin) == 0
