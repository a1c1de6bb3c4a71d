"""Connections to PostgreSQL are cut at exactly the chosen message."""

from datetime import timedelta

import asyncpg
import psycopg
import pytest

from support.pgwire import MakeProxy, PostgresProxy, When
from support.postgres import Connect, Database, Server

LOST = (asyncpg.PostgresConnectionError, asyncpg.InterfaceError, ConnectionError)


@pytest.fixture
def proxy(make_proxy: MakeProxy, postgres: Server) -> PostgresProxy:
    return make_proxy(postgres)


@pytest.fixture
async def direct(empty_database: Database, connect: Connect) -> asyncpg.Connection:
    """A connection past the proxy, with a table to write to."""
    connection = await connect(empty_database.dsn)
    await connection.execute("create table note (id int primary key)")
    return connection


@pytest.fixture
def through(proxy: PostgresProxy, empty_database: Database) -> str:
    return empty_database.dsn_through(proxy)


async def notes(direct: asyncpg.Connection) -> list[int]:
    # A backend whose client vanished ends its transaction on its own; this waits for its locks.
    await direct.execute("lock table note in access exclusive mode")
    return [row["id"] for row in await direct.fetch("select id from note order by id")]


async def test_a_commit_that_was_never_sent_commits_nothing(
    proxy: PostgresProxy, through: str, connect: Connect, direct: asyncpg.Connection
) -> None:
    connection = await connect(through)
    cut = proxy.cut_at("commit", When.BEFORE_SENT)
    with pytest.raises(LOST):
        async with connection.transaction():
            await connection.execute("insert into note values (1)")
    cut.wait()
    async with direct.transaction():
        assert await notes(direct) == []


async def test_a_commit_whose_answer_was_lost_has_committed(
    proxy: PostgresProxy, through: str, connect: Connect, direct: asyncpg.Connection
) -> None:
    connection = await connect(through)
    cut = proxy.cut_at("commit", When.BEFORE_ANSWER)
    with pytest.raises(LOST):
        async with connection.transaction():
            await connection.execute("insert into note values (1)")
    cut.wait()
    async with direct.transaction():
        assert await notes(direct) == [1]


async def test_a_prepared_statement_is_recognised_at_its_nth_execution(
    proxy: PostgresProxy, through: str, connect: Connect, direct: asyncpg.Connection
) -> None:
    connection = await connect(through)
    insert = await connection.prepare("insert into note values ($1)")
    cut = proxy.cut_at("INSERT INTO note", When.BEFORE_SENT, nth=3)
    await insert.fetch(1)
    await insert.fetch(2)
    assert not cut.tripped
    with pytest.raises(LOST):
        await insert.fetch(3)
    async with direct.transaction():
        assert await notes(direct) == [1, 2]


async def test_a_prepared_statement_whose_answer_was_lost_has_been_executed(
    proxy: PostgresProxy, through: str, connect: Connect, direct: asyncpg.Connection
) -> None:
    connection = await connect(through)
    insert = await connection.prepare("insert into note values ($1)")
    cut = proxy.cut_at("insert into note", When.BEFORE_ANSWER)
    with pytest.raises(LOST):
        await insert.fetch(1)
    cut.wait()
    async with direct.transaction():
        assert await notes(direct) == [1]


async def test_the_client_gets_the_first_row_and_no_more(
    proxy: PostgresProxy, through: str, direct: asyncpg.Connection
) -> None:
    with psycopg.connect(through) as connection:
        proxy.cut_at("generate_series", When.AFTER_FIRST_ANSWER)
        rows = connection.cursor().stream("select generate_series(1, 5)")
        assert next(rows) == (1,)
        with pytest.raises(psycopg.OperationalError):
            next(rows)


async def test_after_the_cut_a_new_connection_works(
    proxy: PostgresProxy, through: str, connect: Connect
) -> None:
    cut = proxy.cut_at("select 41", When.BEFORE_SENT)
    with pytest.raises(LOST):
        await (await connect(through)).fetchval("select 41")
    cut.wait()
    assert await (await connect(through)).fetchval("select 41") == 41


async def test_large_traffic_passes_unchanged(through: str, connect: Connect) -> None:
    connection = await connect(through)
    await connection.execute("create table blob (body bytea)")
    body = bytes(range(256)) * 20_000
    await connection.copy_records_to_table("blob", records=[(body,), (b"",)])
    assert await connection.fetchval("select body from blob where body <> ''") == body


async def test_waiting_for_a_cut_that_does_not_come_has_a_limit(proxy: PostgresProxy) -> None:
    cut = proxy.cut_at("never", When.BEFORE_SENT)
    with pytest.raises(AssertionError, match="never"):
        cut.wait(timedelta(milliseconds=10))
