"""Several migrators at once."""

import asyncio
from datetime import timedelta

import pytest

from awa_migrations import Limits, MigratorBusy, migrate, packaged_catalog, status
from support.migrating import Begin, Hold, Leftovers, MakeCatalog, Waiting, WriteFiles, end
from support.postgres import Connect, Database
from support.waiting import eventually


@pytest.mark.parametrize("migrators", [2, 8])
async def test_migrators_at_once_apply_every_file_once_and_all_succeed(
    make_catalog: MakeCatalog,
    empty_database: Database,
    connect: Connect,
    leftovers: Leftovers,
    migrators: int,
) -> None:
    catalog = make_catalog()

    reports = await asyncio.gather(
        *(migrate(empty_database.dsn, catalog=catalog) for _ in range(migrators))
    )

    assert sorted(version for report in reports for version in report.applied) == [7, 8, 9]
    assert {report.to_version for report in reports} == {9}
    database = await connect(empty_database.dsn)
    assert await database.fetchval("select count(*) from awa.schema_version") == 3
    assert await database.fetchval("select count(*) from awa.book") == 0
    assert await leftovers() == []


async def test_eight_processes_bring_a_fresh_database_to_the_newest_schema(
    begin: Begin, empty_database: Database, leftovers: Leftovers
) -> None:
    started = [await begin("up", "--json", AWA_DATABASE_URL=empty_database.dsn) for _ in range(8)]

    ended = await asyncio.gather(*(end(process) for process in started))

    assert [outcome.code for outcome in ended] == [0] * 8
    applied = [version for outcome in ended for version in outcome.line["applied"]]
    assert sorted(applied) == [migration.version for migration in packaged_catalog()]
    assert {outcome.line["schemaVersion"] for outcome in ended} == {packaged_catalog().latest}
    assert await leftovers() == []


async def test_engines_in_one_database_do_not_wait_for_each_other(
    make_catalog: MakeCatalog, empty_database: Database, hold: Hold, lock_key: int
) -> None:
    await hold(f"select pg_advisory_xact_lock({lock_key})")

    report = await migrate(empty_database.dsn, schema="other", catalog=make_catalog())

    assert report.to_version == 9


async def test_a_migrator_that_waits_too_long_for_another_names_it_and_changes_nothing(
    make_catalog: MakeCatalog, empty_database: Database, hold: Hold, lock_key: int
) -> None:
    holder = await hold(f"select pg_advisory_xact_lock({lock_key})")
    limits = Limits(other_migrator=timedelta(seconds=1))

    with pytest.raises(MigratorBusy, match="waiting for another migrator") as refusal:
        await migrate(empty_database.dsn, catalog=make_catalog(), limits=limits)

    (blocker,) = refusal.value.blockers
    assert blocker.pid == holder.get_server_pid()
    assert blocker.application_name == "night dump"
    assert blocker.state == "idle in transaction"
    assert (await status(empty_database.dsn, catalog=make_catalog())).current == 0


async def test_a_migrator_takes_over_from_one_that_was_killed_in_the_middle(
    write_files: WriteFiles,
    begin: Begin,
    empty_database: Database,
    hold: Hold,
    waiting: Waiting,
    connect: Connect,
) -> None:
    observer = await connect(empty_database.dsn)
    await observer.execute("create table public.gate ()")
    folder = write_files({"0001_a": "select 1;", "0002_b": "lock table public.gate;"})
    holder = await hold("lock table public.gate")
    where = {"folder": folder, "AWA_DATABASE_URL": empty_database.dsn}
    first = await begin("up", "--lock-timeout=60", **where)
    await waiting("public.gate")
    second = await begin("up", "--json", **where)
    waits = """
        select count(*) from pg_locks l join pg_database d on d.oid = l.database
        where d.datname = current_database() and l.locktype = 'advisory' and not l.granted
    """
    await eventually(lambda: observer.fetchval(waits), what="the second migrator waits")

    first.kill()
    await first.wait()
    await holder.execute("rollback")
    outcome = await end(second)

    assert outcome.code == 0, outcome.err
    assert outcome.line["to"] == 2
    assert outcome.line["applied"] == [2]
