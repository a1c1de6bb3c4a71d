"""A migrator that ends at any point: the next run finds whole files and nothing in its way."""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import timedelta
from pathlib import Path

import pytest

from awa_migrations import (
    DatabaseUnavailable,
    Limits,
    TryAgainError,
    migrate,
    packaged_catalog,
    status,
)
from awa_migrations.snapshot import difference, dump
from support.migrating import Begin, Hold, Leftovers, MakeCatalog, Run, Waiting, WriteFiles
from support.pgwire import MakeProxy, When
from support.postgres import Connect, Database
from support.waiting import eventually

GATES = ["first_begins", "first_ends", "second_begins", "second_ends", "third_ends"]
GATED_STEPS = {
    "0001_first": """
        lock table public.first_begins;
        create table {schema}.shelf (id integer primary key);
        lock table public.first_ends;""",
    "0002_second": """
        lock table public.second_begins;
        alter table {schema}.shelf add column label text;
        insert into {schema}.shelf values (1, 'a');
        lock table public.second_ends;""",
    "0003_third": """
        insert into {schema}.shelf values (2, 'b');
        lock table public.third_ends;""",
}
PACKAGED = [migration.version for migration in packaged_catalog()]
LONG_LOCKS = Limits(lock=timedelta(seconds=60))


@pytest.fixture
async def shut(connect: Connect, empty_database: Database, hold: Hold) -> Hold:
    """Make the gates, and shut one of them until the returned session's transaction ends."""
    session = await connect(empty_database.dsn)
    for gate in GATES:
        await session.execute(f"create table public.{gate} ()")
    return lambda gate: hold(f"lock table public.{gate}")


@pytest.mark.parametrize("gate", GATES)
async def test_kill_9_at_any_step_leaves_whole_files_and_no_lock(
    write_files: WriteFiles,
    begin: Begin,
    run: Run,
    empty_database: Database,
    shut: Hold,
    waiting: Waiting,
    leftovers: Leftovers,
    gate: str,
) -> None:
    where = {"folder": write_files(GATED_STEPS), "AWA_DATABASE_URL": empty_database.dsn}
    holder = await shut(gate)
    killed = await begin("up", "--lock-timeout=60", **where)
    await waiting(f"public.{gate}")

    killed.kill()
    await killed.wait()
    # The gate is still shut: the server itself must notice that its client is gone.
    assert [lock["pid"] for lock in await leftovers()] == []
    await holder.execute("rollback")

    complete = GATES.index(gate) // 2
    again = await run("up", "--json", **where)
    assert again.code == 0, again.err
    assert again.line["applied"] == [1, 2, 3][complete:]
    rows = await holder.fetch("select id, label from awa.shelf order by id")
    assert [tuple(row) for row in rows] == [(1, "a"), (2, "b")]


@pytest.mark.parametrize("gate", GATES)
async def test_cancellation_at_any_step_leaves_whole_files_and_no_lock(
    make_catalog: MakeCatalog,
    empty_database: Database,
    shut: Hold,
    waiting: Waiting,
    leftovers: Leftovers,
    gate: str,
) -> None:
    catalog = make_catalog(GATED_STEPS)
    holder = await shut(gate)
    task = asyncio.create_task(migrate(empty_database.dsn, catalog=catalog, limits=LONG_LOCKS))
    await waiting(f"public.{gate}")

    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert await leftovers() == []
    assert (await status(empty_database.dsn, catalog=catalog)).current == GATES.index(gate) // 2
    await holder.execute("rollback")

    report = await migrate(empty_database.dsn, catalog=catalog)
    assert report.to_version == 3


async def test_cancellation_while_waiting_for_another_migrator(
    make_catalog: MakeCatalog,
    empty_database: Database,
    hold: Hold,
    waiting: Waiting,
    leftovers: Leftovers,
    lock_key: int,
) -> None:
    holder = await hold(f"select pg_advisory_xact_lock({lock_key})")
    task = asyncio.create_task(migrate(empty_database.dsn, catalog=make_catalog()))
    await waiting()

    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await holder.execute("rollback")

    assert await leftovers() == []


STATEMENTS = [
    "pg_is_in_recovery",
    "BEGIN ISOLATION",
    "pg_advisory_xact_lock",
    "create table",
    "COMMIT;",
]


@pytest.mark.parametrize("when", list(When))
@pytest.mark.parametrize("statement", STATEMENTS)
async def test_a_connection_lost_at_any_statement_says_try_again_and_the_next_run_finishes(
    make_catalog: MakeCatalog,
    empty_database: Database,
    make_proxy: MakeProxy,
    leftovers: Leftovers,
    statement: str,
    when: When,
) -> None:
    catalog = make_catalog()
    proxy = make_proxy(empty_database.server)
    cut = proxy.cut_at(statement, when)

    with pytest.raises(DatabaseUnavailable):
        await migrate(empty_database.dsn_through(proxy), catalog=catalog)

    cut.wait()
    assert await leftovers() == []
    report = await migrate(empty_database.dsn, catalog=catalog)
    assert report.to_version == 9
    # A commit whose answer was lost did happen, and is not applied twice.
    committed = statement == "COMMIT;" and when is not When.BEFORE_SENT
    assert report.from_version == (7 if committed else 0)


async def test_the_server_ends_a_migrator_that_stands_still_with_its_locks(
    make_catalog: MakeCatalog, empty_database: Database, make_proxy: MakeProxy, connect: Connect
) -> None:
    proxy = make_proxy(empty_database.server)
    observer = await connect(empty_database.dsn)
    await observer.execute("create table public.gate (); create table public.inner_gate ()")
    holder = await connect(empty_database.dsn)
    await holder.execute("begin; lock table public.inner_gate")
    catalog = make_catalog({"0001_lock": "lock table public.gate; lock table public.inner_gate;"})
    limits = Limits(lock=timedelta(seconds=60))
    through = empty_database.dsn_through(proxy)
    task = asyncio.create_task(migrate(through, catalog=catalog, limits=limits))
    locked = "select count(*) from pg_locks where relation = 'public.gate'::regclass"
    await eventually(lambda: observer.fetchval(locked), what="the file locks the table")

    # From here on the migrator hears and says nothing: frozen, or cut off without a word.
    proxy.black_hole()
    await holder.execute("rollback")

    async def is_free() -> bool:
        return bool(await observer.fetchval(locked) == 0)

    await eventually(is_free, timedelta(seconds=30), what="the server takes the lock back")
    proxy.forward()
    with pytest.raises(TryAgainError):
        await task
    assert (await status(empty_database.dsn, catalog=catalog)).current == 0


# Stops a migrator at the third statement of one file that defines something.
STOP = """
create schema stop;
create sequence stop.counter;
create function stop.at_statement() returns event_trigger language plpgsql as $$
declare
    v_version integer;
begin
    if to_regclass('awa.schema_version') is not null then
        select max(version) into v_version from awa.schema_version;
    end if;
    if coalesce(v_version, {first} - 1) = {version} - 1 and nextval('stop.counter') = 3 then
        perform pg_advisory_lock(42);
    end if;
end $$;
create event trigger stop_here on ddl_command_start execute function stop.at_statement();
"""

type KillInside = Callable[[int], Awaitable[None]]


@pytest.fixture
async def kill_inside(
    begin: Begin, empty_database: Database, hold: Hold, waiting: Waiting, leftovers: Leftovers
) -> KillInside:
    """Start a migrator and kill it in the middle of one packaged file."""

    async def kill(version: int) -> None:
        first = packaged_catalog().first
        holder = await hold(STOP.format(first=first, version=version))
        await holder.execute("commit; begin; select pg_advisory_xact_lock(42)")
        killed = await begin("up", "--lock-timeout=60", AWA_DATABASE_URL=empty_database.dsn)
        await waiting()
        killed.kill()
        await killed.wait()
        await holder.execute("rollback")
        assert await leftovers() == []
        await holder.execute("drop event trigger stop_here; drop schema stop cascade")

    return kill


@pytest.mark.parametrize("version", PACKAGED[::3] + PACKAGED[-1:])
async def test_kill_9_inside_a_packaged_file_leads_to_the_same_schema(
    kill_inside: KillInside,
    run: Run,
    database: Database,
    empty_database: Database,
    postgres_binaries: Path,
    version: int,
) -> None:
    await kill_inside(version)

    again = await run("up", "--json", AWA_DATABASE_URL=empty_database.dsn)

    assert again.code == 0, again.err
    assert again.line["from"] == (version - 1 if version > PACKAGED[0] else 0)
    assert again.line["to"] == PACKAGED[-1]
    expected = await dump(database.dsn, "awa", postgres_binaries)
    assert not difference(expected, await dump(empty_database.dsn, "awa", postgres_binaries))
