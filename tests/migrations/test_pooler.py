"""A real PgBouncer in between: transaction and session mode work, statement mode is refused."""

import asyncio
from collections.abc import Callable, Iterator

import pytest

from awa_migrations import (
    DatabaseUnavailable,
    Limits,
    LockTimeout,
    PoolerUnsupported,
    migrate,
    require,
    status,
)
from support.migrating import Hold, Leftovers, MakeCatalog
from support.pooler import Pool
from support.postgres import Connect, Database, Server
from support.run import Run

type Pooler = Callable[..., "Pool"]


@pytest.fixture
def pooler(test_run: Run, postgres: Server) -> Iterator[Pooler]:
    """Start a PgBouncer before the shared server: `pooler("transaction")`."""
    pools: list[Pool] = []

    def start(mode: str, size: int = 1, wait_seconds: int = 60) -> Pool:
        path = test_run.new_path("pgbouncer")
        pools.append(Pool(path, postgres, mode, size, wait_seconds=wait_seconds))
        return pools[-1]

    yield start
    for pool in pools:
        pool.stop()


@pytest.mark.parametrize("mode", ["transaction", "session"])
async def test_migrations_work_through_a_pooler(
    pooler: Pooler,
    make_catalog: MakeCatalog,
    empty_database: Database,
    connect: Connect,
    mode: str,
) -> None:
    dsn = pooler(mode).dsn(empty_database.name)
    catalog = make_catalog()

    assert (await migrate(dsn, catalog=catalog)).applied == (7, 8, 9)

    assert (await status(dsn, catalog=catalog)).current == 9
    assert await require(dsn, catalog=catalog) == 9
    database = await connect(empty_database.dsn)
    assert await database.fetchval("select awa.shelf_count()") == 1


async def test_a_transaction_pooler_hands_on_sessions_without_our_settings(
    pooler: Pooler, make_catalog: MakeCatalog, empty_database: Database, connect: Connect
) -> None:
    dsn = pooler("transaction").dsn(empty_database.name)
    names = ["search_path", "lock_timeout", "statement_timeout", "client_min_messages",
             "idle_in_transaction_session_timeout"]  # fmt: skip
    fresh = await connect(empty_database.dsn)
    expected = [await fresh.fetchval(f"show {name}") for name in names]

    await migrate(dsn, catalog=make_catalog())

    # The pool has one server session, so this is the one that migrated.
    other = await connect(dsn, statement_cache_size=0)
    assert [await other.fetchval(f"show {name}") for name in names] == expected
    held = """
        select count(*) from pg_locks l join pg_database d on d.oid = l.database
        where d.datname = current_database() and l.locktype = 'advisory'
    """
    assert await other.fetchval(held) == 0


async def test_eight_migrators_share_a_transaction_pooler(
    pooler: Pooler, make_catalog: MakeCatalog, empty_database: Database, leftovers: Leftovers
) -> None:
    dsn = pooler("transaction", size=3).dsn(empty_database.name)
    catalog = make_catalog()

    reports = await asyncio.gather(*(migrate(dsn, catalog=catalog) for _ in range(8)))

    assert sorted(version for report in reports for version in report.applied) == [7, 8, 9]
    assert {report.to_version for report in reports} == {9}


async def test_the_version_is_read_through_a_pooler_that_switches_sessions_all_the_time(
    pooler: Pooler, make_catalog: MakeCatalog, empty_database: Database, connect: Connect
) -> None:
    dsn = pooler("transaction", size=2).dsn(empty_database.name)
    catalog = make_catalog()
    await migrate(dsn, catalog=catalog)

    async def keep_busy() -> None:
        # Leaves another unnamed statement behind on every server session it is given.
        session = await connect(dsn, statement_cache_size=0)
        while True:
            async with session.transaction():
                await session.fetch("select $1::integer, $2::text, $3::text", 1, "a", "b")

    async with asyncio.TaskGroup() as others:
        busy = [others.create_task(keep_busy()) for _ in range(6)]
        found = [await require(dsn, catalog=catalog) for _ in range(10)]
        for task in busy:
            task.cancel()

    assert found == [9] * 10


async def test_a_lock_in_the_way_is_explained_through_a_transaction_pooler(
    pooler: Pooler, make_catalog: MakeCatalog, empty_database: Database, hold: Hold
) -> None:
    pool = pooler("transaction", size=2)
    dsn = pool.dsn(empty_database.name)
    catalog = make_catalog()
    await migrate(dsn, catalog=catalog, to=7)
    holder = await hold("select * from awa.shelf")

    with pytest.raises(LockTimeout) as failure:
        await migrate(dsn, catalog=catalog, limits=Limits(lock_attempts=1))

    assert [blocker.pid for blocker in failure.value.blockers] == [holder.get_server_pid()]
    assert (await status(dsn, catalog=catalog)).current == 7


async def test_a_statement_pooler_is_refused_and_nothing_is_changed(
    pooler: Pooler, make_catalog: MakeCatalog, empty_database: Database
) -> None:
    dsn = pooler("statement").dsn(empty_database.name)

    with pytest.raises(PoolerUnsupported, match="statement mode") as refusal:
        await migrate(dsn, catalog=make_catalog())

    assert refusal.value.exit_code == 78
    assert (await status(empty_database.dsn, catalog=make_catalog())).current == 0


@pytest.mark.parametrize(
    ("database", "wait_seconds", "reason"),
    [("nowhere", 60, '"nowhere" does not exist'), ("closed", 2, "query_wait_timeout")],
)
async def test_a_pooler_that_cannot_reach_its_database_says_so(
    pooler: Pooler, make_catalog: MakeCatalog, database: str, wait_seconds: int, reason: str
) -> None:
    dsn = pooler("transaction", wait_seconds=wait_seconds).dsn(database)

    # PgBouncer passes on the server's words, but not its code.
    with pytest.raises(DatabaseUnavailable, match=reason):
        await migrate(dsn, catalog=make_catalog())
