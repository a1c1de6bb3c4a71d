"""Jobs in a transaction of another library's connection, which stays its owner's."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import asyncpg
import psycopg
import pytest
from django.db import DEFAULT_DB_ALIAS, connections, transaction
from django.db.backends.base.base import BaseDatabaseWrapper
from psycopg.rows import dict_row, scalar_row
from sqlalchemy import create_engine, text
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine
from sqlalchemy.orm import Session

from awa import (
    AsyncClient,
    DatabaseError,
    Job,
    PermissionMissing,
    SchemaNotMigrated,
    UniqueConflict,
)
from awa.bridge import insert_job, insert_job_sync
from support.clients import Mail, job_count, unique_claims
from support.postgres import Database

LATER = datetime.now(UTC) + timedelta(hours=12)

type Insert = Callable[..., Awaitable[Job[Any]]]
type Open = Callable[[Database], AbstractAsyncContextManager[Insert]]


class Refused(Exception):
    pass


@asynccontextmanager
async def by_asyncpg(database: Database) -> AsyncIterator[Insert]:
    connection = await asyncpg.connect(database.dsn)
    # A codec of the caller's own must not touch what is enqueued.
    await connection.set_type_codec(
        "jsonb", schema="pg_catalog", encoder=json.dumps, decoder=json.loads
    )
    try:
        async with connection.transaction():
            yield lambda *a, **o: insert_job(connection, *a, **o)
    finally:
        await connection.close()


@asynccontextmanager
async def by_asyncpg_pool(database: Database) -> AsyncIterator[Insert]:
    async with (
        asyncpg.create_pool(database.dsn, min_size=0, max_size=1) as pool,
        pool.acquire() as connection,
        connection.transaction(),
    ):
        yield lambda *a, **o: insert_job(connection, *a, **o)


@asynccontextmanager
async def by_psycopg(database: Database, **options: Any) -> AsyncIterator[Insert]:
    async with await psycopg.AsyncConnection.connect(database.dsn, **options) as connection:
        yield lambda *a, **o: insert_job(connection, *a, **o)


def by_psycopg_dicts(database: Database) -> AbstractAsyncContextManager[Insert]:
    return by_psycopg(database, row_factory=dict_row, cursor_factory=psycopg.AsyncRawCursor)


@asynccontextmanager
async def by_psycopg_blocking(database: Database, **options: Any) -> AsyncIterator[Insert]:
    with psycopg.connect(database.dsn, **options) as connection:
        yield _threaded(connection)


def by_psycopg_blocking_dicts(database: Database) -> AbstractAsyncContextManager[Insert]:
    return by_psycopg_blocking(database, row_factory=dict_row, cursor_factory=psycopg.RawCursor)


def by_psycopg_blocking_scalars(database: Database) -> AbstractAsyncContextManager[Insert]:
    return by_psycopg_blocking(database, row_factory=scalar_row)


def sqlalchemy_async(driver: str) -> Open:
    @asynccontextmanager
    async def by_connection(database: Database) -> AsyncIterator[Insert]:
        engine = create_async_engine(_address(database, driver))
        try:
            async with engine.begin() as connection:
                yield lambda *a, **o: insert_job(connection, *a, **o)
        finally:
            await engine.dispose()

    return by_connection


def sqlalchemy_async_session(driver: str) -> Open:
    @asynccontextmanager
    async def by_session(database: Database) -> AsyncIterator[Insert]:
        engine = create_async_engine(_address(database, driver))
        try:
            async with AsyncSession(engine) as session, session.begin():
                yield lambda *a, **o: insert_job(session, *a, **o)
        finally:
            await engine.dispose()

    return by_session


@asynccontextmanager
async def by_sqlalchemy(database: Database) -> AsyncIterator[Insert]:
    engine = create_engine(_address(database, "psycopg"))
    try:
        with engine.begin() as connection:
            yield _threaded(connection)
    finally:
        engine.dispose()


@asynccontextmanager
async def by_sqlalchemy_session(database: Database) -> AsyncIterator[Insert]:
    engine = create_engine(_address(database, "psycopg"))
    try:
        with Session(engine) as session, session.begin():
            session.execute(text("select 1"))
            yield _threaded(session)
    finally:
        engine.dispose()


def _threaded(connection: Any) -> Insert:
    return lambda *a, **o: asyncio.to_thread(insert_job_sync, connection, *a, **o)


def _address(database: Database, driver: str) -> str:
    return database.dsn.replace("postgresql://", f"postgresql+{driver}://", 1)


BRIDGES: dict[str, Open] = {
    "asyncpg with a codec": by_asyncpg,
    "asyncpg from a pool": by_asyncpg_pool,
    "psycopg async": by_psycopg,
    "psycopg async, dicts": by_psycopg_dicts,
    "psycopg": by_psycopg_blocking,
    "psycopg, dicts": by_psycopg_blocking_dicts,
    "psycopg, scalars": by_psycopg_blocking_scalars,
    "sqlalchemy async, asyncpg": sqlalchemy_async("asyncpg"),
    "sqlalchemy async, psycopg": sqlalchemy_async("psycopg"),
    "sqlalchemy async session, asyncpg": sqlalchemy_async_session("asyncpg"),
    "sqlalchemy async session, psycopg": sqlalchemy_async_session("psycopg"),
    "sqlalchemy": by_sqlalchemy,
    "sqlalchemy session": by_sqlalchemy_session,
}


@pytest.fixture(params=BRIDGES)
def bridge(request: pytest.FixtureRequest) -> Open:
    return BRIDGES[request.param]


async def test_jobs_exist_when_the_owner_commits(
    database: Database, session: asyncpg.Connection, bridge: Open
) -> None:
    async with bridge(database) as insert:
        job = await insert(
            Mail("ä", 1), queue="mails", priority=1, max_attempts=3, tags=["t"],
            metadata={"m": [1]}, unique_opts={"by_args": True},
        )  # fmt: skip
        later = await insert({"x": {"y": 1.5}}, kind="plain", run_at=LATER)
        assert await job_count(session) == 0

    async with AsyncClient(database.dsn, 1) as client:
        found = await client.get_job(job.id)
        assert found.args == job.args == {"to": "ä", "n": 1}
        assert (found.kind, found.queue, found.priority, found.max_attempts) == (
            "mail", "mails", 1, 3,
        )  # fmt: skip
        assert (found.tags, found.metadata) == (["t"], {"m": [1]})
        scheduled = await client.get_job(later.id)
    assert (scheduled.args, scheduled.run_at) == ({"x": {"y": 1.5}}, LATER)
    assert str(scheduled.state) == str(later.state) == "scheduled"
    assert await unique_claims(session) == 1


async def test_jobs_never_exist_when_the_owner_rolls_back(
    database: Database, session: asyncpg.Connection, bridge: Open
) -> None:
    async def work() -> None:
        async with bridge(database) as insert:
            await insert(Mail("a"))
            await insert(Mail("b"), unique_opts={}, run_at=LATER)
            raise Refused

    with pytest.raises(Refused):
        await work()
    assert (await job_count(session), await unique_claims(session)) == (0, 0)


async def test_a_conflict_is_ours_and_the_transaction_the_owners_to_roll_back(
    database: Database, session: asyncpg.Connection, bridge: Open
) -> None:
    async with bridge(database) as insert:
        holder = await insert(Mail("a"), unique_opts={})

    async def work() -> None:
        async with bridge(database) as insert:
            await insert(Mail("b"))
            with pytest.raises(UniqueConflict) as refusal:
                await insert(Mail("a"), unique_opts={})
            assert refusal.value.holder_id == holder.id
            with pytest.raises(DatabaseError, match="can only be rolled back"):
                await insert(Mail("c"))
            raise Refused

    with pytest.raises(Refused):
        await work()
    assert await job_count(session) == 1


async def test_a_missing_schema_is_told_as_by_the_client(
    empty_database: Database, bridge: Open
) -> None:
    async def work() -> None:
        async with bridge(empty_database) as insert:
            await insert(Mail("a"), schema="other")

    with pytest.raises(SchemaNotMigrated, match="run `awa migrate`"):
        await work()


def test_django_commits_and_rolls_back(
    database: Database, django_connection: BaseDatabaseWrapper
) -> None:
    connections[DEFAULT_DB_ALIAS] = django_connection
    try:
        with transaction.atomic():
            job = insert_job_sync(connections[DEFAULT_DB_ALIAS], Mail("a"), unique_opts={})

        def fail() -> None:
            with transaction.atomic():
                insert_job_sync(django_connection, Mail("b"))
                insert_job_sync(django_connection, Mail("a"), unique_opts={})

        with pytest.raises(UniqueConflict) as refusal:
            fail()
        assert refusal.value.holder_id == job.id
        insert_job_sync(django_connection, Mail("c"), run_at=LATER)  # by itself: autocommit
    finally:
        del connections[DEFAULT_DB_ALIAS]

    with psycopg.connect(database.dsn) as session:
        found = session.execute(
            "select args->>'to' from awa.ready_entries union all"
            " select args->>'to' from awa.deferred_jobs"
        ).fetchall()
    assert sorted(found) == [("a",), ("c",)]


async def test_an_asynchronous_function_names_the_blocking_one_for_blocking_connections(
    database: Database, django_connection: BaseDatabaseWrapper
) -> None:
    engine = create_engine(_address(database, "psycopg"))
    with psycopg.connect(database.dsn) as blocking, engine.connect() as alchemy:
        for wrong in (
            blocking,
            alchemy,
            Session(engine),
            django_connection,
            engine,
            object(),
            None,
        ):
            with pytest.raises(TypeError, match="use insert_job_sync for blocking"):
                await insert_job(wrong, Mail("a"))
    engine.dispose()


async def test_a_blocking_function_names_the_asynchronous_one_for_asynchronous_connections(
    database: Database, session: asyncpg.Connection
) -> None:
    engine = create_async_engine(_address(database, "asyncpg"))
    async with (
        await psycopg.AsyncConnection.connect(database.dsn) as other,
        engine.connect() as alchemy,
        asyncpg.create_pool(database.dsn, min_size=0) as pool,
    ):
        wrongs = (session, other, alchemy, AsyncSession(engine), pool, engine, engine.sync_engine)
        for wrong in (*wrongs, object(), None):
            with pytest.raises(TypeError, match="use insert_job for asynchronous"):
                insert_job_sync(wrong, Mail("a"))
        with pytest.raises(TypeError, match=r"not asyncpg\.transaction\.Transaction"):
            await insert_job(session.transaction(), Mail("a"))
    await engine.dispose()
    assert await job_count(session) == 0


def test_a_database_of_another_make_is_refused() -> None:
    engine = create_engine("sqlite://")
    with engine.connect() as connection, pytest.raises(TypeError, match="uses pysqlite"):
        insert_job_sync(connection, Mail("a"))
    engine.dispose()


async def test_a_role_without_rights_is_told_so(
    database: Database, session: asyncpg.Connection, bridge: Open
) -> None:
    await session.execute("create schema locked")
    await session.execute(
        "create function locked.enqueue_v1(text, smallint, text[], jsonb[], timestamptz[],"
        " smallint[], jsonb[], bytea[], smallint[], boolean) returns bigint[] language plpgsql"
        " as $$ begin raise insufficient_privilege using message = 'not you'; end $$"
    )

    async def work() -> None:
        async with bridge(database) as insert:
            await insert(Mail("a"), schema="locked")

    with pytest.raises(PermissionMissing, match="not you"):
        await work()
