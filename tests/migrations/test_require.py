"""What `require` accepts, before a worker or a client relies on the schema."""

from pathlib import Path

import asyncpg
import pytest

from awa_migrations import (
    Catalog,
    InvalidSchemaName,
    SchemaMissing,
    SchemaTooNew,
    SchemaTooOld,
    migrate,
    require,
)
from support.migrating import THREE_STEPS, MakeCatalog, WriteFiles
from support.postgres import Connect, Database


async def test_the_newest_schema_is_accepted_and_its_version_returned(database: Database) -> None:
    catalog_default = await require(database.dsn)

    assert await require(database.dsn, "awa", minimum=43) == catalog_default


async def test_a_database_without_the_schema_is_refused_and_told_how_to_get_it(
    empty_database: Database, make_catalog: MakeCatalog
) -> None:
    with pytest.raises(SchemaMissing, match='no schema "other" made by awa: run `awa migrate`'):
        await require(empty_database.dsn, "other", catalog=make_catalog())


async def test_a_schema_that_is_there_but_empty_is_missing_too(
    empty_database: Database, make_catalog: MakeCatalog, connect: Connect
) -> None:
    session = await connect(empty_database.dsn)
    await session.execute("create schema awa")

    with pytest.raises(SchemaMissing):
        await require(session, catalog=make_catalog())


async def test_a_schema_below_the_minimum_is_refused_with_both_versions(
    empty_database: Database, make_catalog: MakeCatalog
) -> None:
    catalog = make_catalog()
    await migrate(empty_database.dsn, catalog=catalog, to=8)

    with pytest.raises(SchemaTooOld) as refusal:
        await require(empty_database.dsn, catalog=catalog)
    assert (refusal.value.current, refusal.value.minimum) == (8, 9)
    # A release that can do without the newest version says so.
    assert await require(empty_database.dsn, minimum=8, catalog=catalog) == 8


async def test_a_later_release_that_only_added_is_accepted(
    empty_database: Database, write_files: WriteFiles, make_catalog: MakeCatalog
) -> None:
    later = later_release(write_files, kind="expand")
    await migrate(empty_database.dsn, catalog=later)

    assert await require(empty_database.dsn, catalog=make_catalog()) == 11


async def test_a_later_release_that_took_something_away_is_refused(
    empty_database: Database, write_files: WriteFiles, make_catalog: MakeCatalog
) -> None:
    later = later_release(write_files, kind="contract")
    await migrate(empty_database.dsn, catalog=later)

    with pytest.raises(SchemaTooNew) as refusal:
        await require(empty_database.dsn, catalog=make_catalog())

    assert (refusal.value.current, refusal.value.latest) == (11, 9)
    assert await require(empty_database.dsn, catalog=later) == 11


def later_release(write_files: WriteFiles, *, kind: str) -> Catalog:
    folder: Path = write_files(THREE_STEPS, folder="later")
    write_files({"0010_drop": "select 1;"}, folder="later", kind=kind)
    write_files({"0011_add": "select 1;"}, folder="later")
    return Catalog.read(folder)


async def test_an_open_connection_is_used_and_left_as_it_was(
    database: Database, connect: Connect
) -> None:
    session = await connect(database.dsn)
    before = await session.fetchval("show search_path")

    assert await require(session)

    assert not session.is_closed()
    assert not session.is_in_transaction()
    assert await session.fetchval("show search_path") == before


async def test_a_refusal_does_not_end_the_callers_transaction(
    empty_database: Database, make_catalog: MakeCatalog, connect: Connect
) -> None:
    session = await connect(empty_database.dsn)
    async with session.transaction():
        with pytest.raises(SchemaMissing):
            await require(session, catalog=make_catalog())
        assert await session.fetchval("select 1") == 1


async def test_a_transaction_begun_by_hand_is_no_obstacle(
    database: Database, connect: Connect
) -> None:
    session = await connect(database.dsn)
    await session.execute("begin")

    assert await require(session)

    await session.execute("commit")


async def test_a_connection_of_a_pool_will_do(database: Database) -> None:
    async with (
        asyncpg.create_pool(database.dsn, min_size=1, max_size=1) as pool,
        pool.acquire() as session,
    ):
        assert await require(session)


async def test_a_bad_schema_name_is_refused(database: Database) -> None:
    with pytest.raises(InvalidSchemaName):
        await require(database.dsn, "no such")
