"""Somebody holds a lock that a migration needs: give up soon, say who, change nothing."""

import asyncio
from datetime import timedelta

import pytest

from awa_migrations import (
    DeadlockDetected,
    Limits,
    LockTimeout,
    StatementTimeout,
    migrate,
    status,
)
from support.migrating import THREE_STEPS, Hold, MakeCatalog, Run, Waiting, WriteFiles
from support.postgres import Connect, Database
from support.waiting import eventually

SHORT = Limits(lock=timedelta(seconds=0.4), lock_attempts=1)


@pytest.fixture
async def shelf(make_catalog: MakeCatalog, empty_database: Database) -> Database:
    """A database at version 7, where 8 needs the table `awa.shelf` for itself."""
    await migrate(empty_database.dsn, catalog=make_catalog(), to=7)
    return empty_database


async def test_a_reader_in_the_way_ends_the_run_with_its_name_and_no_change(
    shelf: Database, write_files: WriteFiles, hold: Hold, run: Run, make_catalog: MakeCatalog
) -> None:
    reader = await hold("select * from awa.shelf where id = 4711")

    outcome = await run(
        "up", "--json", "--lock-timeout=0.5", "--lock-attempts=2",
        folder=write_files(), AWA_DATABASE_URL=shelf.dsn,
    )  # fmt: skip

    assert outcome.code == 75
    assert outcome.line["error"] == "LockTimeout"
    assert outcome.line["applied"] == []
    message = outcome.line["message"]
    assert "migration 0008_add_label.sql gave up after waiting 0.5 s" in message
    assert (
        f"pid {reader.get_server_pid()} (application 'night dump', idle in transaction" in message
    )
    assert "s old)" in message
    assert "4711" not in outcome.out + outcome.err
    assert (await status(shelf.dsn, catalog=make_catalog())).current == 7


async def test_the_lock_is_asked_for_again_after_a_pause(
    shelf: Database, hold: Hold, make_catalog: MakeCatalog, waiting: Waiting, connect: Connect
) -> None:
    reader = await hold("select * from awa.shelf")
    observer = await connect(shelf.dsn)
    limits = Limits(lock=timedelta(seconds=0.3), lock_attempts=50)
    task = asyncio.create_task(migrate(shelf.dsn, catalog=make_catalog(), limits=limits))
    pid = await waiting("awa.shelf")
    pausing = "select not exists (select from pg_locks where pid = $1 and mode like 'Access%')"
    await eventually(lambda: observer.fetchval(pausing, pid), what="the first attempt is over")

    await reader.execute("rollback")

    assert (await task).applied == (8, 9)


async def test_writers_go_on_while_a_reader_blocks_the_migration(
    shelf: Database, hold: Hold, make_catalog: MakeCatalog, waiting: Waiting, connect: Connect
) -> None:
    await hold("select * from awa.shelf")
    writer = await connect(shelf.dsn)
    limits = Limits(lock=timedelta(seconds=1), lock_attempts=3)
    task = asyncio.create_task(migrate(shelf.dsn, catalog=make_catalog(), limits=limits))
    await waiting("awa.shelf")

    # Queues behind the migration, and must not have to wait for the reader too.
    async with asyncio.timeout(20):
        await writer.execute("insert into awa.shelf (id) values (1)")

    with pytest.raises(LockTimeout):
        await task


@pytest.mark.parametrize(
    ("setting", "limits", "expected"),
    [
        ("", Limits(), "2s"),
        ("?lock_timeout=300ms", Limits(), "300ms"),
        ("?lock_timeout=300ms", Limits(lock=timedelta(seconds=7)), "7s"),
    ],
)
async def test_a_file_waits_for_locks_as_long_as_asked_else_as_the_role_says_else_two_seconds(
    empty_database: Database,
    make_catalog: MakeCatalog,
    connect: Connect,
    setting: str,
    limits: Limits,
    expected: str,
) -> None:
    catalog = make_catalog(
        {"0001_note": "create table {schema}.note as select current_setting('lock_timeout');"}
    )

    await migrate(empty_database.dsn + setting, catalog=catalog, limits=limits)

    session = await connect(empty_database.dsn)
    assert await session.fetchval("select * from awa.note") == expected


async def test_the_error_tells_how_long_the_lock_was_waited_for(
    shelf: Database, hold: Hold, make_catalog: MakeCatalog
) -> None:
    await hold("select * from awa.shelf")

    with pytest.raises(LockTimeout, match=r"after waiting 0\.4 s for a lock"):
        await migrate(shelf.dsn, catalog=make_catalog(), limits=SHORT)


async def test_a_prepared_transaction_in_the_way_is_named_as_such(
    shelf: Database, hold: Hold, make_catalog: MakeCatalog, connect: Connect
) -> None:
    holder = await hold("insert into awa.shelf values (1)")
    await holder.execute("prepare transaction 'migrations_test'")

    with pytest.raises(LockTimeout, match="a prepared transaction") as failure:
        await migrate(shelf.dsn, catalog=make_catalog(), limits=SHORT)

    assert failure.value.blockers[0].pid == 0
    await holder.execute("rollback prepared 'migrations_test'")


async def test_a_role_that_may_not_see_other_sessions_still_gets_pid_and_name(
    shelf: Database, role: str, hold: Hold, make_catalog: MakeCatalog, connect: Connect
) -> None:
    admin = await connect(shelf.dsn)
    for thing in ("schema awa", "table awa.shelf", "table awa.schema_version"):
        await admin.execute(f"alter {thing} owner to {role}")
    await hold("select * from awa.shelf")
    dsn = shelf.server.dsn(shelf.name, user=role)

    with pytest.raises(LockTimeout, match="'night dump', state visible to pg_read_all_stats only"):
        await migrate(dsn, catalog=make_catalog(), limits=SHORT)


async def test_a_deadlock_is_tried_again_and_nothing_is_half_done(
    shelf: Database, make_catalog: MakeCatalog, hold: Hold, waiting: Waiting, connect: Connect
) -> None:
    admin = await connect(shelf.dsn)
    await admin.execute("create table public.other ()")
    crossing = "lock table public.other; alter table {schema}.shelf add column label text;"
    catalog = make_catalog({**THREE_STEPS, "0008_add_label": crossing})
    worker = await hold("select * from awa.shelf")
    # The migrator looks for a deadlock once, when both wait; the worker much later.
    dsn = shelf.dsn + "?deadlock_timeout=2s"
    await worker.execute("set local deadlock_timeout = '1min'")
    limits = Limits(lock=timedelta(seconds=30), lock_attempts=1)
    task = asyncio.create_task(migrate(dsn, catalog=catalog, limits=limits))
    await waiting("awa.shelf")

    blocked = asyncio.create_task(worker.execute("lock table public.other in share mode"))
    with pytest.raises(DeadlockDetected, match="0008_add_label"):
        await task

    await blocked
    await worker.execute("rollback")
    assert (await migrate(shelf.dsn, catalog=catalog)).applied == (8, 9)


async def test_a_statement_over_its_limit_is_one_to_try_again(
    empty_database: Database, make_catalog: MakeCatalog
) -> None:
    catalog = make_catalog({"0001_slow": "select pg_sleep(60);"})
    limits = Limits(statement=timedelta(seconds=0.2))

    with pytest.raises(StatementTimeout, match=r"0001_slow\.sql was cancelled"):
        await migrate(empty_database.dsn, catalog=catalog, limits=limits)


async def test_a_short_statement_limit_of_the_role_does_not_apply(
    empty_database: Database, make_catalog: MakeCatalog
) -> None:
    catalog = make_catalog({"0001_slow": "select pg_sleep(0.3);"})

    report = await migrate(empty_database.dsn + "?statement_timeout=200ms", catalog=catalog)

    assert report.to_version == 1


async def test_the_step_to_outputs_waits_for_no_transaction_that_enqueues(
    empty_database: Database, connect: Connect
) -> None:
    await migrate(empty_database.dsn, to=51)
    producer = await connect(empty_database.dsn)
    async with producer.transaction():
        await producer.execute("select awa.enqueue_v1('q', 2::smallint, '{k}', array['{}'::jsonb])")
        await migrate(empty_database.dsn, to=52, limits=SHORT)
