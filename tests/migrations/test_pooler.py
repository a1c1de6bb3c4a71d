"""A real PgBouncer in between: transaction and session mode work, statement mode is refused."""

import asyncio
import os
import pwd
import shutil
import signal
import socket
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

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
from support.postgres import Connect, Database, Server
from support.run import Run
from support.waiting import eventually_sync

type Pooler = Callable[..., "Pool"]


class Pool:
    """One PgBouncer with one server connection at most for every database."""

    def __init__(self, folder: Path, server: Server, mode: str, size: int) -> None:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        folder.mkdir()
        config = folder / "pgbouncer.ini"
        config.write_text(
            f"""
            [databases]
            * = host={server.host} port={server.port} user=postgres
            nowhere = host={server.host} port={server.port} dbname=nowhere user=postgres
            closed = host={server.host} port=1 user=postgres
            [pgbouncer]
            listen_addr = 127.0.0.1
            listen_port = {self.port}
            unix_socket_dir =
            auth_type = any
            pool_mode = {mode}
            default_pool_size = {size}
            max_client_conn = 50
            server_login_retry = 1
            query_wait_timeout = 2
            """.replace("            ", "")
        )
        self._log = (folder / "log").open("wb")
        self._process = subprocess.Popen(
            [_program(), config], stdin=subprocess.DEVNULL, stdout=self._log, stderr=self._log,
            **_unprivileged(folder),
        )  # fmt: skip
        eventually_sync(self._listens, what=f"PgBouncer listens, see {folder}/log")

    def dsn(self, database: str) -> str:
        return f"postgresql://postgres@127.0.0.1:{self.port}/{database}?sslmode=disable"

    def stop(self) -> None:
        self._process.send_signal(signal.SIGTERM)
        self._process.wait(10)
        self._log.close()

    def _listens(self) -> bool:
        assert self._process.poll() is None, "PgBouncer ended"
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", self.port)) == 0


def _program() -> str:
    # Debian keeps it off an ordinary user's PATH.
    found = shutil.which("pgbouncer", path=f"{os.environ['PATH']}:/usr/sbin")
    assert found, "PgBouncer is not installed: it is the Debian package `pgbouncer`"
    return found


def _unprivileged(folder: Path) -> dict[str, Any]:
    """PgBouncer refuses to run as root."""
    if os.geteuid() != 0:
        return {}
    user = pwd.getpwnam("nobody")
    os.chown(folder, user.pw_uid, user.pw_gid)
    return {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}


@pytest.fixture
def pooler(test_run: Run, postgres: Server) -> Iterator[Pooler]:
    """Start a PgBouncer before the shared server: `pooler("transaction")`."""
    pools: list[Pool] = []

    def start(mode: str, size: int = 1) -> Pool:
        pools.append(Pool(test_run.new_path("pgbouncer"), postgres, mode, size))
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
    ("database", "reason"),
    [("nowhere", '"nowhere" does not exist'), ("closed", "query_wait_timeout")],
)
async def test_a_pooler_that_cannot_reach_its_database_says_so(
    pooler: Pooler, make_catalog: MakeCatalog, database: str, reason: str
) -> None:
    dsn = pooler("transaction").dsn(database)

    # PgBouncer passes on the server's words, but not its code.
    with pytest.raises(DatabaseUnavailable, match=reason):
        await migrate(dsn, catalog=make_catalog())
