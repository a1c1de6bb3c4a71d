"""A server of a folder that runs already is found, whoever started it."""

import asyncio
import os
import signal
import subprocess
from pathlib import Path

import psutil
import pytest

from awa._local.errors import ServerAlreadyRunning
from awa._local.postgres import EmbeddedPostgres
from local.owners import MakePostgres, StartOwner, fetch
from support.waiting import eventually


async def test_a_second_start_uses_the_running_server_and_leaves_it_alone(
    make_postgres: MakePostgres, start_owner: StartOwner, folder: Path
) -> None:
    owner = start_owner(folder).until_up()

    async with make_postgres(folder) as found:
        assert found.is_running
        assert not found.is_owner
        assert found.owner.pid == owner.process.pid
        assert "owner_program.py" in str(found.owner)
        assert str(owner.process.pid) in str(found.owner)
        assert found.dsn == owner.up["dsn"]
        assert await fetch(found.tcp_dsn, "select 1") == 1

    assert await fetch(owner.up["dsn"], "select 1") == 1
    assert owner.end() == 0


async def test_a_second_start_can_be_refused_and_says_who_runs_it(
    make_postgres: MakePostgres, start_owner: StartOwner, folder: Path
) -> None:
    owner = start_owner(folder).until_up()

    with pytest.raises(ServerAlreadyRunning) as refused:
        await make_postgres(folder, reuse=False).start()

    assert refused.value.pid == owner.process.pid
    assert f"owner_program.py (process {owner.process.pid})" in str(refused.value)
    assert await fetch(owner.up["dsn"], "select 1") == 1


async def test_who_uses_a_server_sees_its_owner_stop_it_and_can_start_its_own(
    make_postgres: MakePostgres, start_owner: StartOwner, folder: Path
) -> None:
    owner = start_owner(folder).until_up()
    found = await make_postgres(folder).start()
    down = asyncio.create_task(found.wait())

    assert owner.end() == 0
    async with asyncio.timeout(30):
        await down

    assert not found.is_running
    await found.start()
    assert found.is_owner
    assert await fetch(found.dsn, "select 1") == 1


async def test_of_two_that_start_at_once_one_owns_the_server_and_both_use_it(
    make_postgres: MakePostgres, workplace: Path
) -> None:
    new = workplace / "new" / ".awa"
    servers = [make_postgres(new) for _ in range(3)]

    # Used at once: what one of them has found must have its database already.
    assert await asyncio.gather(*(start_and_use(server) for server in servers)) == [1, 1, 1]

    assert sorted(server.is_owner for server in servers) == [False, False, True]
    assert len({server.dsn for server in servers}) == 1
    for server in servers:
        assert await fetch(server.dsn, "select 1") == 1


async def test_a_start_while_the_server_stops_waits_for_the_end(
    make_postgres: MakePostgres, folder: Path
) -> None:
    first, second = make_postgres(folder), make_postgres(folder)
    await first.start()
    log = first.log
    await fetch(first.dsn, "create table kept as select generate_series(1, 200000)")
    before = requests_to_stop(log)

    stopping = asyncio.create_task(first.stop())
    await eventually(lambda: requests_to_stop(log) > before, what="the server stops")
    await second.start()
    await stopping

    assert second.is_owner
    assert await fetch(second.dsn, "select count(*) from kept") == 200000


async def test_a_server_that_was_started_by_hand_is_not_touched(
    make_postgres: MakePostgres, folder: Path
) -> None:
    async with make_postgres(folder) as server:
        command = psutil.Process(server.owner.guard_pid).children()[0].cmdline()
        data = server.data
    by_hand = start_by_hand(command, data)
    pid_file = data / "postmaster.pid"
    await eventually(lambda: pid_file.exists() and "ready" in pid_file.read_text())

    with pytest.raises(ServerAlreadyRunning, match="started by hand") as refused:
        await make_postgres(folder).start()

    assert refused.value.pid == by_hand.pid
    assert by_hand.poll() is None
    by_hand.send_signal(signal.SIGINT)
    assert await asyncio.to_thread(by_hand.wait, 30) == 0


async def start_and_use(server: EmbeddedPostgres) -> object:
    await server.start()
    return await fetch(server.dsn, "select 1")


def requests_to_stop(log: Path) -> int:
    return log.read_text().count("received fast shutdown request")


def start_by_hand(command: list[str], data: Path) -> "subprocess.Popen[bytes]":
    owner = data.stat()
    as_root = os.geteuid() == 0
    return subprocess.Popen(
        command, cwd="/", stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        user=owner.st_uid if as_root else None, group=owner.st_gid if as_root else None,
        extra_groups=[] if as_root else None,
    )  # fmt: skip
