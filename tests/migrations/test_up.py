"""What `migrate` does to a database when nothing is in the way."""

import pytest

from awa_migrations import (
    HistoryChanged,
    InvalidSchemaName,
    MigrationFailed,
    SchemaTooNew,
    UnknownVersion,
    migrate,
    status,
)
from support.migrating import THREE_STEPS, MakeCatalog
from support.postgres import Connect, Database


async def test_files_are_applied_in_order_and_recorded(
    make_catalog: MakeCatalog, empty_database: Database, connect: Connect
) -> None:
    catalog = make_catalog()
    seen: list[int] = []

    report = await migrate(
        empty_database.dsn,
        catalog=catalog,
        on_applied=lambda migration, _duration: seen.append(migration.version),
    )

    assert (report.from_version, report.to_version, report.applied) == (0, 9, (7, 8, 9))
    assert seen == [7, 8, 9]
    database = await connect(empty_database.dsn)
    rows = await database.fetch("select * from awa.schema_version order by version")
    assert [(row["version"], row["name"], row["kind"]) for row in rows] == [
        (7, "make_shelf", "expand"),
        (8, "add_label", "expand"),
        (9, "add_book", "expand"),
    ]
    assert [row["checksum"] for row in rows] == [migration.checksum for migration in catalog]
    assert all(row["duration"].total_seconds() >= 0 for row in rows)
    assert await database.fetchval("select awa.shelf_count()") == 1


async def test_duration_is_the_time_of_the_file_alone(
    make_catalog: MakeCatalog, empty_database: Database, connect: Connect
) -> None:
    catalog = make_catalog({"0001_slow": "select pg_sleep(2);", "0002_quick": "select 1;"})

    await migrate(empty_database.dsn, catalog=catalog)

    database = await connect(empty_database.dsn)
    slow, quick = await database.fetch("select duration from awa.schema_version order by version")
    assert slow["duration"].total_seconds() >= 2
    assert quick["duration"] < slow["duration"]


async def test_a_second_run_finds_nothing_to_do(
    make_catalog: MakeCatalog, empty_database: Database
) -> None:
    catalog = make_catalog()
    await migrate(empty_database.dsn, catalog=catalog)

    report = await migrate(empty_database.dsn, catalog=catalog)

    assert (report.from_version, report.to_version, report.applied) == (9, 9, ())


async def test_a_run_stops_at_the_version_asked_for_and_goes_on_later(
    make_catalog: MakeCatalog, empty_database: Database
) -> None:
    catalog = make_catalog()

    first = await migrate(empty_database.dsn, catalog=catalog, to=8)
    between = await status(empty_database.dsn, catalog=catalog)
    rest = await migrate(empty_database.dsn, catalog=catalog)

    assert (first.to_version, first.applied) == (8, (7, 8))
    assert (between.current, between.latest, between.pending) == (8, 9, (9,))
    assert (rest.from_version, rest.to_version, rest.applied) == (8, 9, (9,))


async def test_a_schema_is_never_moved_down(
    make_catalog: MakeCatalog, empty_database: Database
) -> None:
    catalog = make_catalog()
    await migrate(empty_database.dsn, catalog=catalog)

    report = await migrate(empty_database.dsn, catalog=catalog, to=7)

    assert (report.to_version, report.applied) == (9, ())


@pytest.mark.parametrize("to", [0, 6, 10, -1])
async def test_a_version_that_does_not_exist_is_refused(
    make_catalog: MakeCatalog, empty_database: Database, to: int
) -> None:
    with pytest.raises(UnknownVersion, match=r"7 to 9"):
        await migrate(empty_database.dsn, catalog=make_catalog(), to=to)

    assert (await status(empty_database.dsn, catalog=make_catalog())).current == 0


async def test_status_of_an_empty_database_changes_nothing(
    make_catalog: MakeCatalog, empty_database: Database, connect: Connect
) -> None:
    found = await status(empty_database.dsn, catalog=make_catalog())

    assert (found.current, found.pending, found.ahead) == (0, (7, 8, 9), ())
    database = await connect(empty_database.dsn)
    assert await database.fetchval("select to_regnamespace('awa') is null")


async def test_a_schema_that_exists_already_is_used(
    make_catalog: MakeCatalog, empty_database: Database, connect: Connect
) -> None:
    database = await connect(empty_database.dsn)
    await database.execute("create schema awa")

    report = await migrate(empty_database.dsn, catalog=make_catalog())

    assert report.to_version == 9


async def test_several_engines_live_in_one_database(
    make_catalog: MakeCatalog, empty_database: Database, connect: Connect
) -> None:
    catalog = make_catalog()
    await migrate(empty_database.dsn, schema="user", catalog=catalog, to=8)
    await migrate(empty_database.dsn, schema="_2", catalog=catalog)

    assert (await status(empty_database.dsn, "user", catalog=catalog)).current == 8
    assert (await status(empty_database.dsn, "_2", catalog=catalog)).current == 9
    assert (await status(empty_database.dsn, "awa", catalog=catalog)).current == 0
    database = await connect(empty_database.dsn)
    assert await database.fetchval('select label from "_2".shelf') == "_2"


@pytest.mark.parametrize("name", ["", "Awa", "1a", "a-b", 'a"b', "a.b", "pg_awa", "a" * 49])
async def test_a_schema_name_that_is_not_safe_is_refused_before_anything_else(
    make_catalog: MakeCatalog, name: str
) -> None:
    nowhere = "postgresql://127.0.0.1:1/none"

    with pytest.raises(InvalidSchemaName):
        await migrate(nowhere, schema=name, catalog=make_catalog())
    with pytest.raises(InvalidSchemaName):
        await status(nowhere, name, catalog=make_catalog())


async def test_a_file_that_fails_leaves_nothing_of_itself_and_all_before_it(
    make_catalog: MakeCatalog, empty_database: Database, connect: Connect
) -> None:
    broken = {**THREE_STEPS, "0009_add_book": "create table {schema}.a ();\ncreate tible x ();"}

    with pytest.raises(MigrationFailed) as failure:
        await migrate(empty_database.dsn, catalog=make_catalog(broken))

    assert failure.value.version == 9
    assert failure.value.sqlstate == "42601"
    assert "0009_add_book.sql" in str(failure.value)
    assert "in the line 'create tible x ()'" in str(failure.value)
    database = await connect(empty_database.dsn)
    assert await database.fetchval("select max(version) from awa.schema_version") == 8
    assert await database.fetchval("select to_regclass('awa.a') is null")
    mended = await migrate(empty_database.dsn, catalog=make_catalog())
    assert mended.applied == (9,)


async def test_a_failure_of_the_first_file_leaves_no_schema(
    make_catalog: MakeCatalog, empty_database: Database, connect: Connect
) -> None:
    with pytest.raises(MigrationFailed):
        await migrate(empty_database.dsn, catalog=make_catalog({"0001_broken": "select 1/0;"}))

    database = await connect(empty_database.dsn)
    assert await database.fetchval("select to_regnamespace('awa') is null")


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ("alter column id type integer using id::integer", "SQLSTATE 22P02: data does not fit"),
        ("add constraint is_short check (length(id) < 3)", r"does not fit \(is_short\)"),
    ],
)
async def test_values_of_rows_stay_out_of_the_error(
    make_catalog: MakeCatalog, empty_database: Database, change: str, told: str
) -> None:
    catalog = make_catalog(
        {
            "0001_make": "create table {schema}.a (id text primary key);",
            "0002_fill": "insert into {schema}.a values ('s3cret');",
            "0003_change": f"alter table {{schema}}.a {change};",
        }
    )

    with pytest.raises(MigrationFailed, match=told) as failure:
        await migrate(empty_database.dsn, catalog=catalog)

    assert "s3cret" not in str(failure.value)
    assert failure.value.__cause__ is None


async def test_a_file_that_changed_after_it_was_applied_is_refused(
    make_catalog: MakeCatalog, empty_database: Database
) -> None:
    await migrate(empty_database.dsn, catalog=make_catalog(), to=8)
    changed = {**THREE_STEPS, "0007_make_shelf": THREE_STEPS["0007_make_shelf"] + " -- better"}

    with pytest.raises(HistoryChanged, match=r"0007_make_shelf\.sql has another checksum"):
        await migrate(empty_database.dsn, catalog=make_catalog(changed))

    assert (await status(empty_database.dsn, catalog=make_catalog())).current == 8


async def test_a_file_that_was_renamed_after_it_was_applied_is_refused(
    make_catalog: MakeCatalog, empty_database: Database, connect: Connect
) -> None:
    await migrate(empty_database.dsn, catalog=make_catalog())
    database = await connect(empty_database.dsn)
    await database.execute("delete from awa.schema_version where version = 8")

    with pytest.raises(HistoryChanged, match=r"no record of 0008_add_label\.sql"):
        await migrate(empty_database.dsn, catalog=make_catalog())


async def test_a_schema_of_other_software_is_refused(
    make_catalog: MakeCatalog, empty_database: Database, connect: Connect
) -> None:
    database = await connect(empty_database.dsn)
    await database.execute(
        "create schema awa; create table awa.schema_version (version int, description text)"
    )

    with pytest.raises(HistoryChanged, match="other software"):
        await migrate(empty_database.dsn, catalog=make_catalog())

    assert await database.fetchval("select to_regclass('awa.shelf') is null")


async def test_an_older_migrator_refuses_a_newer_schema_and_leaves_it_alone(
    make_catalog: MakeCatalog, empty_database: Database, connect: Connect
) -> None:
    older = make_catalog(folder="old")
    newer = make_catalog({**THREE_STEPS, "0010_drop_label": "select 1;"}, folder="new")
    await migrate(empty_database.dsn, catalog=newer)
    database = await connect(empty_database.dsn)
    before = await database.fetch("select * from awa.schema_version order by version")

    with pytest.raises(SchemaTooNew) as refusal:
        await migrate(empty_database.dsn, catalog=older)

    assert (refusal.value.current, refusal.value.latest) == (10, 9)
    assert await database.fetch("select * from awa.schema_version order by version") == before
    assert (await status(empty_database.dsn, catalog=older)).ahead == (10,)


async def test_the_roles_search_path_does_not_reach_the_files(
    make_catalog: MakeCatalog, empty_database: Database
) -> None:
    catalog = make_catalog({"0001_unqualified": "create table stray ();"})

    with pytest.raises(MigrationFailed, match="no schema has been selected"):
        await migrate(empty_database.dsn + "?search_path=public", catalog=catalog)
