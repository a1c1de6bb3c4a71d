"""What can go wrong gives an error that says what to do, and leaves nothing behind."""

import asyncio
import errno
import os
import re
import socket
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from datetime import timedelta
from pathlib import Path

import pytest

from awa._local.diagnosis import diagnose
from awa._local.errors import NoSpace, PasswordLost, PortTaken, ServerFailed
from awa._local.place import local_errors
from local.accounts import require_root
from local.owners import MakePostgres, data_of, fetch, is_clean, processes_in, shell

TINY_BYTES = 24 << 20


@pytest.fixture
def taken_port() -> Iterator[int]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield int(listener.getsockname()[1])


@pytest.fixture
def tiny_disk(workplace: Path) -> Iterator[Path]:
    """A file system with less room than a new database needs."""
    require_root()
    disk = workplace / "tiny"
    disk.mkdir()
    shell(f"mount -t tmpfs -o size={TINY_BYTES},mode=755 none {disk}")
    yield disk
    shell(f"umount {disk}")


async def test_a_port_that_is_taken_is_named(
    make_postgres: MakePostgres, folder: Path, workplace: Path, taken_port: int
) -> None:
    with pytest.raises(PortTaken, match=f"port {taken_port} of 127.0.0.1 is taken"):
        await make_postgres(folder, port=taken_port).start()
    assert processes_in(workplace) == []


async def test_a_free_port_can_be_asked_for(make_postgres: MakePostgres, folder: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        wanted = int(listener.getsockname()[1])
    server = await make_postgres(folder, port=wanted).start()
    assert server.port == wanted
    assert await fetch(server.tcp_dsn, "select inet_server_port()") == wanted


async def test_when_the_port_of_the_last_start_is_taken_another_is_used(
    make_postgres: MakePostgres, folder: Path
) -> None:
    server = make_postgres(folder)
    async with server:
        last = server.port
    with socket.create_server(("127.0.0.1", last)):
        async with server:
            assert server.port != last
            assert await fetch(server.tcp_dsn, "select 1") == 1


async def test_a_new_database_is_not_begun_without_room_for_it(
    make_postgres: MakePostgres, workplace: Path
) -> None:
    folder = workplace / "new" / ".awa"
    with pytest.raises(NoSpace, match="are needed") as error:
        await make_postgres(folder, free_bytes_needed=1 << 60).start()
    assert error.value.needed_bytes == 1 << 60
    assert is_clean(folder)


async def test_a_disk_that_gets_full_while_the_database_is_made_is_named_and_left_clean(
    make_postgres: MakePostgres, workplace: Path, tiny_disk: Path
) -> None:
    folder = tiny_disk / ".awa"
    with pytest.raises(NoSpace, match="no space for the database") as error:
        await make_postgres(folder, free_bytes_needed=0).start()
    assert error.value.free_bytes <= TINY_BYTES
    assert processes_in(workplace) == []
    assert is_clean(folder)


async def test_a_full_disk_at_start_is_named(
    make_postgres: MakePostgres, workplace: Path, folder: Path, tiny_disk: Path
) -> None:
    shell(f"mount -o remount,size=100m {tiny_disk} && cp -a {folder} {tiny_disk}")
    fill(tiny_disk)

    with pytest.raises(NoSpace, match="0 MiB are free"):
        await make_postgres(tiny_disk / ".awa").start()
    assert processes_in(workplace) == []

    (tiny_disk / "filler").unlink()
    server = await make_postgres(tiny_disk / ".awa").start()
    assert await fetch(server.dsn, "select 1") == 1
    await server.stop()


@pytest.mark.parametrize("lost", ["missing", "wrong"])
async def test_a_lost_password_is_named(
    make_postgres: MakePostgres, workplace: Path, folder: Path, lost: str
) -> None:
    file = folder / "postgres" / "password"
    kept = file.read_text()
    file.unlink() if lost == "missing" else file.write_text("wrong\n")

    with pytest.raises(PasswordLost, match=re.escape(str(file))):
        await make_postgres(folder).start()

    assert processes_in(workplace) == []
    file.write_text(kept)
    await make_postgres(folder).start()


async def test_a_pid_file_whose_id_another_program_got_does_not_prevent_a_start(
    make_postgres: MakePostgres, folder: Path
) -> None:
    data = data_of(folder)
    other = start_other_program(data)
    try:
        text = f"{other.pid}\n{data}\n1\n5432\n{data.parent}/run\n127.0.0.1\n 1 1\nready   \n"
        (data / "postmaster.pid").write_text(text)
        os.chown(data / "postmaster.pid", data.stat().st_uid, data.stat().st_gid)

        server = await make_postgres(folder).start()

        assert await fetch(server.dsn, "select 1") == 1
        assert other.poll() is None
    finally:
        other.kill()
        await asyncio.to_thread(other.wait)


async def test_a_broken_configuration_is_reported_with_the_servers_words(
    make_postgres: MakePostgres, folder: Path, workplace: Path
) -> None:
    with (data_of(folder) / "postgresql.conf").open("a") as file:
        file.write("shared_buffers = 'a lot'\n")

    with pytest.raises(ServerFailed, match=r"FATAL.*configuration file") as error:
        await make_postgres(folder).start()

    assert str(error.value.log) in str(error.value)
    assert processes_in(workplace) == []


async def test_a_start_that_takes_too_long_is_given_up(
    make_postgres: MakePostgres, folder: Path, workplace: Path
) -> None:
    server = make_postgres(folder, start_limit=timedelta(milliseconds=1))
    with pytest.raises(ServerFailed, match=r"not ready within 0\.001 s"):
        await server.start()
    assert processes_in(workplace) == []


async def test_a_server_that_does_not_stop_in_time_is_ended_as_in_a_crash_without_loss(
    make_postgres: MakePostgres, folder: Path, workplace: Path
) -> None:
    server = await make_postgres(folder, stop_limit=timedelta(milliseconds=1)).start()
    await fetch(server.dsn, "create table kept as select 7 as number")
    log = server.log

    await server.stop()

    assert processes_in(workplace) == []
    assert "received immediate shutdown request" in await asyncio.to_thread(log.read_text)
    await server.start()
    assert await fetch(server.dsn, "select number from kept") == 7


async def test_settings_of_the_caller_win(make_postgres: MakePostgres, folder: Path) -> None:
    server = await make_postgres(folder, settings={"max_connections": "23"}).start()
    assert await fetch(server.dsn, "show max_connections") == "23"


@pytest.mark.parametrize(
    ("said", "kind", "words"),
    [
        ("FATAL:  could not write lock file: No space left on device", NoSpace, "MiB are free"),
        ("LOG:  could not bind: Address already in use\nFATAL:  no", PortTaken, "port 5555"),
        ("FATAL:  could not create any TCP/IP sockets", PortTaken, "port 5555"),
        ("LOG:  one\nFATAL:  the reason\nLOG:  down", ServerFailed, "FATAL:  the reason;"),
        ("initdb: error: cannot be run", ServerFailed, "initdb: error: cannot be run;"),
        ("error while loading shared libraries: x.so", ServerFailed, "libraries: x.so;"),
        ("", ServerFailed, "PostgreSQL ended before it was ready;"),
    ],
)
def test_the_last_words_of_a_server_say_why_it_ended(
    tmp_path: Path, said: str, kind: type[Exception], words: str
) -> None:
    error = diagnose(said, "PostgreSQL", 5555, tmp_path / "server.log")
    assert type(error) is kind
    assert words in str(error)


def test_a_full_disk_is_told_from_missing_rights(tmp_path: Path) -> None:
    with pytest.raises(NoSpace), local_errors(tmp_path / "not" / "there"):
        raise OSError(errno.ENOSPC, "No space left on device")


def start_other_program(data: Path) -> "subprocess.Popen[bytes]":
    """Start a program that is no server, as the server's user."""
    as_root = os.geteuid() == 0
    return subprocess.Popen(
        ["sleep", "600"], cwd="/", user=data.stat().st_uid if as_root else None,
    )  # fmt: skip


def fill(disk: Path) -> None:
    """Leave no byte free."""
    with (disk / "filler").open("ab", buffering=0) as filler, suppress(OSError):
        while filler.write(b"x" * 4096):
            pass
