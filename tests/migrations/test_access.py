"""Databases that cannot be reached, or not be migrated: our own words, no secret, an exit code."""

import asyncio
import struct
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest

from awa_migrations import (
    AccessRefused,
    ConfigurationError,
    DatabaseMissing,
    DatabaseReadOnly,
    DatabaseUnavailable,
    InvalidDatabaseUrl,
    Limits,
    MigrationsError,
    RightMissing,
    ServerTooOld,
    migrate,
    packaged_catalog,
    require,
    status,
)
from support.migrating import MakeCatalog
from support.postgres import Connect, Database, Server

type Answer = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]
type Serve = Callable[[Answer], Awaitable[str]]


@pytest.fixture
async def serve() -> AsyncIterator[Serve]:
    """Listen in place of PostgreSQL; returns the connection string."""
    servers: list[asyncio.Server] = []

    async def start(answer: Answer) -> str:
        servers.append(await asyncio.start_server(answer, "127.0.0.1", 0))
        port = servers[-1].sockets[0].getsockname()[1]
        return f"postgresql://app:s3cret@127.0.0.1:{port}/app?sslmode=disable"

    yield start
    for server in servers:
        server.close()
        await server.wait_closed()


def message(kind: bytes, body: bytes) -> bytes:
    return kind + struct.pack("!I", len(body) + 4) + body


def refusing(sqlstate: str, text: str) -> Answer:
    """A server whose answer to every start is a fatal error."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1000)
        fields = f"SFATAL\0VFATAL\0C{sqlstate}\0M{text}\0\0"
        writer.write(message(b"E", fields.encode()))
        await writer.drain()
        writer.close()

    return answer


def claiming_version(version: str) -> Answer:
    """A server that lets everybody in and says how old it is."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1000)
        settings = {
            "server_version": version,
            "server_encoding": "UTF8",
            "client_encoding": "UTF8",
            "standard_conforming_strings": "on",
        }
        writer.write(message(b"R", struct.pack("!I", 0)))
        for name, value in settings.items():
            writer.write(message(b"S", f"{name}\0{value}\0".encode()))
        writer.write(message(b"K", struct.pack("!II", 1, 1)))
        writer.write(message(b"Z", b"I"))
        await writer.drain()
        # Until the client hangs up; a too old server is never asked anything.
        assert (await reader.read(1000))[:1] in (b"X", b"")
        writer.close()

    return answer


@pytest.mark.parametrize(
    ("version", "name"), [("13.14", "13"), ("14.11 (Debian 14.11-1)", "14"), ("9.6.24", "9.6")]
)
async def test_a_server_that_is_too_old_is_refused_with_both_versions(
    serve: Serve, make_catalog: MakeCatalog, version: str, name: str
) -> None:
    dsn = await serve(claiming_version(version))
    catalog = make_catalog()

    with pytest.raises(ServerTooOld, match=f"PostgreSQL {name}, awa needs 15"):
        await migrate(dsn, catalog=catalog)
    with pytest.raises(ServerTooOld):
        await status(dsn, catalog=catalog)
    with pytest.raises(ServerTooOld):
        await require(dsn, catalog=catalog)


@pytest.mark.parametrize(
    ("sqlstate", "text", "error", "code"),
    [
        ("53300", "sorry, too many clients already", DatabaseUnavailable, 75),
        ("57P03", "the database system is starting up", DatabaseUnavailable, 75),
        ("57P01", "terminating connection", DatabaseUnavailable, 75),
        ("08P01", "server login failed", DatabaseUnavailable, 75),
        ("28P01", 'password authentication failed for user "app"', AccessRefused, 78),
        ("28000", "no pg_hba.conf entry", AccessRefused, 78),
        ("3D000", 'database "app" does not exist', DatabaseMissing, 78),
        ("42501", 'permission denied for database "app"', RightMissing, 78),
        ("42704", 'unrecognized configuration parameter "x"', ConfigurationError, 78),
    ],
)
async def test_a_refusal_of_the_server_is_told_apart(
    serve: Serve,
    make_catalog: MakeCatalog,
    sqlstate: str,
    text: str,
    error: type[MigrationsError],
    code: int,
) -> None:
    dsn = await serve(refusing(sqlstate, text))

    with pytest.raises(error, match=text) as refusal:
        await migrate(dsn, catalog=make_catalog())

    assert refusal.value.exit_code == code
    assert "s3cret" not in str(refusal.value)


async def test_a_server_that_never_answers_is_given_up(
    serve: Serve, make_catalog: MakeCatalog
) -> None:
    async def silence(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        writer.close()

    dsn = await serve(silence)
    limits = Limits(connect=Limits().connect / 50)

    with pytest.raises(DatabaseUnavailable, match="did not answer in time"):
        await migrate(dsn, catalog=make_catalog(), limits=limits)


async def test_a_server_that_is_no_postgresql_is_not_available(
    serve: Serve, make_catalog: MakeCatalog
) -> None:
    async def web(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1000)
        writer.write(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n")
        await writer.drain()
        writer.close()

    dsn = await serve(web)
    limits = Limits(connect=Limits().connect / 10)

    with pytest.raises(MigrationsError):
        await migrate(dsn, catalog=make_catalog(), limits=limits)


async def test_a_closed_port_and_an_unknown_host_are_not_available(
    make_catalog: MakeCatalog,
) -> None:
    for dsn in (
        "postgresql://app:s3cret@127.0.0.1:1/app",
        "postgresql://app:s3cret@host.invalid/app",
    ):
        with pytest.raises(DatabaseUnavailable) as refusal:
            await migrate(dsn, catalog=make_catalog())
        assert "s3cret" not in str(refusal.value)


@pytest.mark.parametrize(
    "dsn",
    [
        "",
        "app",
        "s3cret@localhost/app",
        "mysql://app:s3cret@localhost/app",
        "postgresql+asyncpg://app:s3cret@localhost/app",
        "host=localhost password=s3cret",
        "postgresql://app:s3cret@localhost:port/app",
        "postgresql://app:s3cret/with@localhost/slash",
        "postgresql://app:s3cret@[localhost/app",
        "postgresql://app:s3cret@localhost/app?sslmode=s3cret",
    ],
)
async def test_a_malformed_url_is_refused_without_repeating_it(
    make_catalog: MakeCatalog, dsn: str
) -> None:
    with pytest.raises(InvalidDatabaseUrl) as refusal:
        await migrate(dsn, catalog=make_catalog())

    error: BaseException | None = refusal.value
    while error is not None:
        assert "s3cret" not in str(error)
        error = error.__cause__ or error.__context__


async def test_a_role_that_may_not_create_the_schema_learns_which_right_it_lacks(
    empty_database: Database, role: str, make_catalog: MakeCatalog
) -> None:
    dsn = empty_database.server.dsn(empty_database.name, user=role)

    with pytest.raises(RightMissing) as refusal:
        await migrate(dsn, catalog=make_catalog())

    assert f'role "{role}"' in str(refusal.value)
    assert f'lacks CREATE on database "{empty_database.name}"' in str(refusal.value)


async def test_a_role_that_may_not_create_in_the_schema_learns_which_right_it_lacks(
    empty_database: Database, role: str, make_catalog: MakeCatalog, connect: Connect
) -> None:
    admin = await connect(empty_database.dsn)
    await admin.execute("create schema awa")
    dsn = empty_database.server.dsn(empty_database.name, user=role)

    with pytest.raises(RightMissing, match='lacks CREATE or USAGE on schema "awa"'):
        await migrate(dsn, catalog=make_catalog())


async def test_a_role_that_owns_the_schema_needs_no_right_on_the_database(
    empty_database: Database, role: str, make_catalog: MakeCatalog, connect: Connect
) -> None:
    admin = await connect(empty_database.dsn)
    await admin.execute(f"create schema awa authorization {role}")
    dsn = empty_database.server.dsn(empty_database.name, user=role)

    assert (await migrate(dsn, catalog=make_catalog())).to_version == 9


async def test_a_role_that_does_not_own_the_tables_is_told_so(
    empty_database: Database, role: str, make_catalog: MakeCatalog, connect: Connect
) -> None:
    catalog = make_catalog()
    await migrate(empty_database.dsn, catalog=catalog, to=8)
    admin = await connect(empty_database.dsn)
    await admin.execute(f"grant all on schema awa to {role}")
    await admin.execute(f"grant all on all tables in schema awa to {role}")
    dsn = empty_database.server.dsn(empty_database.name, user=role)

    with pytest.raises(RightMissing, match="does not own the tables"):
        await migrate(dsn, catalog=catalog)


async def test_a_role_that_may_only_read_the_version_can_ask_for_it(
    empty_database: Database, role: str, make_catalog: MakeCatalog, connect: Connect
) -> None:
    catalog = make_catalog()
    await migrate(empty_database.dsn, catalog=catalog)
    dsn = empty_database.server.dsn(empty_database.name, user=role)
    with pytest.raises(RightMissing, match=r'lacks SELECT on "awa"\.schema_version'):
        await status(dsn, catalog=catalog)

    admin = await connect(empty_database.dsn)
    await admin.execute(
        f"grant usage on schema awa to {role}; grant select on awa.schema_version to {role}"
    )

    assert (await status(dsn, catalog=catalog)).current == 9
    assert await require(dsn, catalog=catalog) == 9
    assert (await migrate(dsn, catalog=catalog)).applied == ()


async def test_a_right_that_a_file_misses_is_named(
    empty_database: Database, role: str, make_catalog: MakeCatalog, connect: Connect
) -> None:
    admin = await connect(empty_database.dsn)
    await admin.execute(f"create schema awa authorization {role}; create table public.secret ()")
    dsn = empty_database.server.dsn(empty_database.name, user=role)
    catalog = make_catalog({"0001_peek": "select * from public.secret;"})

    with pytest.raises(RightMissing, match=r"0001_peek\.sql: permission denied for table secret"):
        await migrate(dsn, catalog=catalog)


async def test_a_database_that_takes_no_writes_is_one_to_try_again(
    empty_database: Database, make_catalog: MakeCatalog
) -> None:
    with pytest.raises(DatabaseReadOnly, match="takes no writes"):
        await migrate(
            empty_database.dsn + "?default_transaction_read_only=on", catalog=make_catalog()
        )


async def test_a_missing_database_is_named(postgres: Server, make_catalog: MakeCatalog) -> None:
    with pytest.raises(DatabaseMissing, match='database "nowhere" does not exist'):
        await migrate(postgres.dsn("nowhere"), catalog=make_catalog())


async def test_a_server_without_tls_is_a_matter_of_configuration(
    postgres: Server, make_catalog: MakeCatalog
) -> None:
    with pytest.raises(ConfigurationError, match="TLS"):
        await migrate(postgres.dsn() + "?sslmode=require", catalog=make_catalog())


async def test_the_packaged_schema_needs_no_superuser(empty_database: Database, role: str) -> None:
    with empty_database.server.admin() as admin:
        admin.execute(f"grant create on database {empty_database.name} to {role}")
    dsn = empty_database.server.dsn(empty_database.name, user=role)

    report = await migrate(dsn)

    assert report.to_version == packaged_catalog().latest
    assert await require(dsn) == report.to_version
