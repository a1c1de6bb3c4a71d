"""PostgreSQL servers of the tests start, crash, come back and never stay behind."""

import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import asyncpg
import psutil
import psycopg
import pytest

from support.postgres import Connect, Database, MakeDatabase, MakeServer, Server
from support.run import Run
from support.waiting import eventually_sync

TESTS = Path(__file__).parents[1]


def test_nothing_of_the_shell_reaches_a_test() -> None:
    assert [name for name in os.environ if name.startswith(("AWA_", "PG"))] == []


def test_a_run_forgets_what_the_shell_says_about_databases() -> None:
    node = f"{Path(__file__)}::{test_nothing_of_the_shell_reaches_a_test.__name__}"
    run = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", node],
        cwd=TESTS.parent, env={**os.environ, "AWA_DATABASE_URL": "x", "PGHOST": "x"},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert "1 passed" in run.stdout, run.stdout


def test_a_test_with_a_server_is_marked(postgres: Server, request: pytest.FixtureRequest) -> None:
    assert postgres.pid
    assert request.node.get_closest_marker("postgres") is not None
    assert request.node.get_closest_marker("slow") is None


def test_the_server_is_not_run_by_root(postgres: Server) -> None:
    assert psutil.Process(postgres.pid).uids().real != 0


async def test_databases_of_a_test_are_apart(make_database: MakeDatabase, connect: Connect) -> None:
    one, two = make_database(), make_database()
    await (await connect(one.dsn)).execute("create table only_here ()")
    there = await connect(two.socket_dsn)
    assert await there.fetchval("select to_regclass('only_here')") is None


async def test_acknowledged_work_survives_kill_9(durable_postgres: Server) -> None:
    dsn = durable_postgres.dsn()
    connection = await asyncpg.connect(dsn)
    await connection.execute("create table kept (id int)")
    await connection.execute("insert into kept values (1)")
    durable_postgres.kill()
    assert not durable_postgres.is_running
    # A server that shut down would have removed its file.
    assert durable_postgres.pid
    with pytest.raises((asyncpg.PostgresConnectionError, ConnectionError)):
        await connection.fetch("select 1")
    with pytest.raises(ConnectionError):
        await asyncpg.connect(dsn)
    durable_postgres.start()
    again = await asyncpg.connect(dsn)
    assert await again.fetchval("select count(*) from kept") == 1
    await again.close()


def test_a_server_has_the_settings_that_a_test_asks_for(make_server: MakeServer) -> None:
    with psycopg.connect(make_server(max_connections="7").dsn()) as connection:
        assert connection.execute("show max_connections").fetchone() == ("7",)
        assert connection.execute("show fsync").fetchone() == ("on",)


def test_a_durable_server_can_be_stopped_and_restarted(
    durable_postgres: Server, request: pytest.FixtureRequest
) -> None:
    assert request.node.get_closest_marker("slow") is not None
    first = durable_postgres.pid
    durable_postgres.restart()
    assert durable_postgres.pid != first
    durable_postgres.stop()
    durable_postgres.stop()
    assert not durable_postgres.is_running
    durable_postgres.start()
    with psycopg.connect(durable_postgres.dsn()) as connection:
        assert connection.execute("select 1").fetchone() == (1,)


def test_a_thing_of_the_run_is_made_once(test_run: Run) -> None:
    name = test_run.new_path("once").name
    assert test_run.once(name, lambda: [1]) == [1]
    assert test_run.once(name, lambda: [2]) == [1]


def test_the_server_of_a_run_that_was_killed_is_ended_and_its_folder_removed(
    postgres_binaries: Path,
) -> None:
    run_that_hangs = textwrap.dedent(
        """
        import sys
        from pathlib import Path
        from support.postgres import Server
        from support.run import Run
        run = Run.begin()
        run.ensure_keeper()
        server = Server(run.folder / "left", Path(sys.argv[1]))
        server.create()
        server.start()
        print(run.folder, server.pid, flush=True)
        sys.stdin.read()
        """
    )
    with subprocess.Popen(
        [sys.executable, "-c", run_that_hangs, postgres_binaries],
        cwd=TESTS, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    ) as process:  # fmt: skip
        assert process.stdout is not None
        folder, pid = process.stdout.readline().split()
        assert psutil.pid_exists(int(pid))
        process.send_signal(signal.SIGKILL)
    eventually_sync(lambda: not Path(folder).exists(), what="folder of the killed run removed")
    eventually_sync(lambda: not is_running(int(pid)), what="server of the killed run ended")


def is_running(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


async def test_a_database_of_a_test_has_the_newest_schema(
    database: Database, connect: Connect
) -> None:
    connection = await connect(database.dsn)
    assert await connection.fetchval("select to_regnamespace('awa') is not null")
