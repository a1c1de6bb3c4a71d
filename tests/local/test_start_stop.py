"""A server is started for a folder, keeps its data, and is gone when it is stopped."""

import asyncio
import os
import signal
import stat
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import asyncpg
import psutil
import pytest

from local.owners import MakePostgres, StartOwner, fetch, processes_in, shell


async def test_a_new_folder_gets_a_database_on_a_socket_and_on_tcp(
    make_postgres: MakePostgres, workplace: Path
) -> None:
    server = await make_postgres(workplace / "checkout" / ".awa").start()

    assert server.is_running
    # State of one machine, not to be committed.
    assert (workplace / "checkout" / ".awa" / ".gitignore").read_text() == "*\n"
    assert server.is_owner
    for dsn in (server.dsn, server.tcp_dsn):
        assert await fetch(dsn, "select current_database()") == "awa"
    assert str(server.port) in server.tcp_dsn


async def test_nobody_gets_in_without_the_password(
    make_postgres: MakePostgres, folder: Path
) -> None:
    server = await make_postgres(folder).start()
    socket_folder = folder / "postgres" / str(server.owner.major) / "run"

    for host in (str(socket_folder), "127.0.0.1"):
        for password in ("wrong", ""):
            with pytest.raises(asyncpg.InvalidPasswordError):
                await asyncpg.connect(
                    host=host, port=server.port, user="awa", database="awa", password=password
                )


async def test_the_server_listens_on_this_machine_alone(
    make_postgres: MakePostgres, folder: Path
) -> None:
    server = await make_postgres(folder).start()

    postmaster = psutil.Process(server.owner.guard_pid).children()[0]
    listening = [each.laddr for each in postmaster.net_connections("inet")]
    assert [tuple(each) for each in listening] == [("127.0.0.1", server.port)]
    run = server.data.with_name("run")
    assert stat.S_IMODE(run.stat().st_mode) == 0o700
    assert stat.S_IMODE((run / f".s.PGSQL.{server.port}").stat().st_mode) == 0o700


async def test_commits_are_durable_whatever_the_configuration_file_says(
    make_postgres: MakePostgres, folder: Path
) -> None:
    server = make_postgres(folder)
    await server.start()
    with (server.data / "postgresql.conf").open("a") as conf:
        conf.write("fsync = off\nfull_page_writes = off\nsynchronous_commit = off\n")
    await server.stop()
    await server.start()

    for setting in ("fsync", "full_page_writes", "synchronous_commit", "data_checksums"):
        assert await fetch(server.dsn, f"show {setting}") == "on", setting


async def test_data_and_port_survive_a_restart(make_postgres: MakePostgres, folder: Path) -> None:
    server = make_postgres(folder)
    async with server:
        port = server.port
        await fetch(server.dsn, "create table kept as select 7 as number")
    async with server:
        assert await fetch(server.dsn, "select number from kept") == 7
        assert server.port == port


async def test_stop_leaves_no_process_and_may_be_repeated(
    make_postgres: MakePostgres, folder: Path, workplace: Path
) -> None:
    server = make_postgres(folder)
    await server.stop()
    await server.start()
    assert processes_in(workplace)

    await server.stop()

    assert processes_in(workplace) == []
    assert not server.is_running
    await server.stop()


async def test_stop_ends_sessions_in_the_middle_of_a_transaction(
    make_postgres: MakePostgres, folder: Path, workplace: Path
) -> None:
    server = await make_postgres(folder).start()
    connection = await asyncpg.connect(server.dsn)
    await connection.execute("begin; create table unfinished ()")

    await server.stop()

    assert processes_in(workplace) == []
    connection.terminate()
    await server.start()
    assert await fetch(server.dsn, "select to_regclass('unfinished')") is None


async def test_start_may_be_repeated(make_postgres: MakePostgres, folder: Path) -> None:
    server = make_postgres(folder)
    await asyncio.gather(server.start(), server.start())
    guard = server.owner.guard_pid
    await server.start()
    assert server.owner.guard_pid == guard


async def test_using_a_server_that_is_not_running_says_so(make_postgres: MakePostgres) -> None:
    server = make_postgres()
    with pytest.raises(RuntimeError, match=r"call start\(\) first"):
        _ = server.dsn


async def test_an_error_in_the_body_stops_the_server(
    make_postgres: MakePostgres, folder: Path, workplace: Path
) -> None:
    with pytest.raises(ZeroDivisionError):
        async with make_postgres(folder):
            _ = 1 / 0
    assert processes_in(workplace) == []


@pytest.mark.parametrize("name", ["with spaces", 'it\'s, "quoted"', "ümläut %41 100%", "d" * 120])
async def test_any_folder_name_will_do(
    make_postgres: MakePostgres, make_folder: Callable[[str], Path], name: str
) -> None:
    folder = make_folder(name)
    server = make_postgres(folder)
    async with server:
        for dsn in (server.dsn, server.tcp_dsn):
            assert await fetch(dsn, "select 1") == 1
        assert shell(f"{server.psql_command} -Atc 'select 6 * 7'") == "42\n"
        # A path that does not suit a socket gets a short one elsewhere, for as long as it runs.
        socket_folder = await fetch(server.dsn, "show unix_socket_directories")
        assert not socket_folder.startswith(str(folder))
    assert shell(f"ls -d {socket_folder} || true") == ""


async def test_two_folders_have_two_databases(
    make_postgres: MakePostgres, make_folder: Callable[[str], Path]
) -> None:
    one, other = make_postgres(make_folder("one")), make_postgres(make_folder("other"))
    await asyncio.gather(one.start(), other.start())

    await fetch(one.dsn, "create table mine ()")
    assert await fetch(other.dsn, "select to_regclass('mine')") is None
    await one.stop()
    assert await fetch(other.dsn, "select 1") == 1


async def test_variables_of_the_shell_do_not_reach_the_server(
    make_postgres: MakePostgres, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in {
        "PGPORT": "1", "PGDATA": "/nonexistent", "PGTZ": "Asia/Tokyo", "PGOPTIONS": "-c x.y=1",
        "LANG": "tr_TR.UTF-8",
    }.items():  # fmt: skip
        monkeypatch.setenv(name, value)
    server = await make_postgres(folder).start()
    assert await fetch(server.dsn, "show timezone") == "UTC"
    assert await fetch(server.dsn, "show server_encoding") == "UTF8"


async def test_secrets_lie_in_private_files_and_nowhere_else(
    make_postgres: MakePostgres, workplace: Path
) -> None:
    server = await make_postgres().start()
    home = server.log.parent
    password = (home / "password").read_text().strip()

    assert len(password) >= 32
    for name in ("password", "service.conf"):
        assert stat.S_IMODE((home / name).stat().st_mode) == 0o600
    assert password not in server.psql_command
    assert password not in server.log.read_text()
    assert password not in repr(server)
    for process in processes_in(workplace):
        with suppress(psutil.NoSuchProcess):
            assert not any(password in each for each in process.cmdline())
            assert password not in str(process.environ())
    assert not list(server.data.parent.glob("*password*"))


async def test_the_log_holds_no_statement_and_no_value(
    make_postgres: MakePostgres, folder: Path
) -> None:
    server = await make_postgres(folder).start()
    connection = await asyncpg.connect(server.dsn)
    await connection.execute("create table one (value text unique); insert into one values ('x')")
    with pytest.raises(asyncpg.UniqueViolationError):
        await connection.execute("insert into one values ($1), ('marked-secret')", "x")
    with pytest.raises(asyncpg.UndefinedTableError):
        await connection.execute("select 'marked-secret' from nowhere")
    await connection.close()

    assert "duplicate key" in server.log.read_text()
    assert "marked-secret" not in server.log.read_text()


async def test_ctrl_c_in_the_terminal_does_not_stop_the_database(
    start_owner: StartOwner, folder: Path
) -> None:
    owner = start_owner(folder).until_up()

    # What a terminal does: the signal goes to the whole group in the foreground.
    os.killpg(owner.process.pid, signal.SIGINT)

    assert await fetch(owner.up["dsn"], "select 1") == 1
    assert owner.process.poll() is None
    assert owner.end() == 0


async def test_a_long_log_is_set_aside(
    make_postgres: MakePostgres, folder: Path, gone: Callable[[], None]
) -> None:
    log = folder / "postgres" / "server.log"
    with log.open("a") as file:
        file.truncate(11 << 20)
    async with make_postgres(folder):
        assert log.stat().st_size < 1 << 20
        assert log.with_name("server.log.1").stat().st_size == 11 << 20
    gone()
