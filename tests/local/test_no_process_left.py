"""No server outlives its owner, and no data are lost, however owner, guard and server end."""

import asyncio
import os
import signal
import sys
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from pathlib import Path

import asyncpg
import psutil
import pytest

from awa._local.postgres import EmbeddedPostgres
from local.owners import MakePostgres, StartOwner, fetch, processes_in
from support.waiting import eventually, eventually_sync

# Keeps a backend from noticing anything: it never waits and never looks around.
BUSY = "do $$ begin loop begin perform 1; exception when others then null; end; end loop; end $$"


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM, signal.SIGSEGV])
async def test_a_killed_owner_leaves_no_process_and_loses_nothing(
    make_postgres: MakePostgres,
    start_owner: StartOwner,
    folder: Path,
    gone: Callable[[], None],
    how: signal.Signals,
) -> None:
    owner = start_owner(folder).until_up()
    await fetch(owner.up["dsn"], "create table kept as select 7 as number")

    owner.process.send_signal(how)
    assert owner.process.wait(30) == -how

    gone()
    async with make_postgres(folder) as server:
        assert await fetch(server.dsn, "select number from kept") == 7


def test_a_child_that_was_forked_off_a_killed_owner_does_not_keep_the_server_up(
    start_owner: StartOwner, folder: Path
) -> None:
    owner = start_owner(folder, fork=True).until_up()
    child, postmaster = psutil.Process(owner.up["child_pid"]), owner.postmaster

    owner.process.kill()

    try:
        assert psutil.wait_procs([postmaster], timeout=30)[1] == []
        assert child.is_running()
    finally:
        child.kill()
    eventually_sync(lambda: not child.is_running())


def test_an_owner_killed_while_the_database_is_made_leaves_nothing_half_made(
    start_owner: StartOwner, workplace: Path, gone: Callable[[], None]
) -> None:
    folder = workplace / "new" / ".awa"
    owner = start_owner(folder)
    eventually_sync(lambda: list(folder.glob("postgres/*/unfinished/base")), what="initdb works")

    owner.process.kill()

    gone()
    assert list(folder.glob("postgres/*/data")) == []
    assert list(folder.glob("postgres/*/initial-password")) == []
    assert start_owner(folder).until_up().end() == 0


async def test_leftovers_of_a_killed_initdb_do_not_disturb_the_next_start(
    make_postgres: MakePostgres, start_owner: StartOwner, workplace: Path, gone: Callable[[], None]
) -> None:
    folder = workplace / "new" / ".awa"
    owner = start_owner(folder)
    await eventually(lambda: list(folder.glob("postgres/*/unfinished/base")), what="initdb works")

    # Everything at once, so that nobody can clean up.
    kill_all(*processes_in(workplace))

    owner.process.wait(30)
    gone()
    assert list(folder.glob("postgres/*/unfinished"))
    async with make_postgres(folder) as server:
        assert await fetch(server.dsn, "select 1") == 1
    assert list(folder.glob("postgres/*/unfinished")) == []


async def test_a_killed_guard_takes_the_server_with_it(
    make_postgres: MakePostgres, folder: Path, workplace: Path
) -> None:
    server = await make_postgres(folder).start()
    postmaster = psutil.Process(server.owner.guard_pid).children()[0]

    os.kill(server.owner.guard_pid, signal.SIGKILL)

    async with asyncio.timeout(30):
        await server.wait()
    assert not server.is_running
    if sys.platform == "linux":  # elsewhere stop has to do it
        await eventually(lambda: not postmaster.is_running(), timedelta(seconds=30))
    await server.stop()
    assert processes_in(workplace) == []


async def test_a_killed_server_is_noticed_and_starts_again_without_loss(
    make_postgres: MakePostgres, folder: Path, workplace: Path
) -> None:
    server = await make_postgres(folder).start()
    await fetch(server.dsn, "create table kept as select 7 as number")
    busy = await begin_busy_session(server.dsn)

    psutil.Process(server.owner.guard_pid).children()[0].kill()

    async with asyncio.timeout(60):
        await server.wait()
    assert not server.is_running
    assert processes_in(workplace) == []
    busy.terminate()
    await server.start()
    assert await fetch(server.dsn, "select number from kept") == 7


async def test_after_everything_was_killed_at_once_the_next_start_recovers(
    make_postgres: MakePostgres, start_owner: StartOwner, folder: Path
) -> None:
    owner = start_owner(folder).until_up()
    await fetch(owner.up["dsn"], "create table kept as select 7 as number")
    busy = await begin_busy_session(owner.up["dsn"])
    session = psutil.Process(await fetch(owner.up["dsn"], BUSY_PID))

    kill_all(psutil.Process(owner.process.pid), owner.guard, owner.postmaster)
    owner.process.wait(30)
    assert session.is_running(), "the busy session should not have noticed"

    async with make_postgres(folder) as server:
        assert await fetch(server.dsn, "select number from kept") == 7
        # Dead, though its new parent may not have asked for its end yet.
        assert not session.is_running() or session.status() == psutil.STATUS_ZOMBIE
    busy.terminate()


@pytest.mark.parametrize("moment", ["lock", "*/unfinished", "*/data/postmaster.pid"])
async def test_a_cancelled_start_leaves_no_process_and_can_be_repeated(
    make_postgres: MakePostgres, workplace: Path, moment: str
) -> None:
    server = await cancelled_at(moment, make_postgres, workplace)

    assert processes_in(workplace) == []
    await server.start()
    assert await fetch(server.dsn, "select 1") == 1


async def cancelled_at(
    moment: str, make_postgres: MakePostgres, workplace: Path
) -> EmbeddedPostgres:
    """Cancel the start of a server while a file is there, which may be for milliseconds only."""
    for number in range(20):
        folder = workplace / f"new{number}" / ".awa"
        server = make_postgres(folder)
        starting = asyncio.create_task(server.start())
        await eventually(lambda: [*folder.glob(f"postgres/{moment}")], what=moment)  # noqa: B023
        starting.cancel()
        try:
            await starting
        except asyncio.CancelledError:
            return server
        await server.stop()  # it was up before it heard of that: once more
    raise AssertionError(f"no start could be cancelled at {moment}")


BUSY_PID = "select pid from pg_stat_activity where query like 'do %'"


async def begin_busy_session(dsn: str) -> asyncpg.Connection:
    connection = await asyncpg.connect(dsn)
    task = asyncio.create_task(connection.execute(BUSY))
    task.add_done_callback(lambda done: done.exception())

    async def runs() -> bool:
        return await fetch(dsn, BUSY_PID) is not None

    await eventually(runs, what="the busy session")
    return connection


def kill_all(*processes: psutil.Process) -> None:
    """Kill -9 them all before any can react to the death of another."""
    for act in (psutil.Process.suspend, psutil.Process.kill):
        for process in processes:
            with suppress(psutil.NoSuchProcess):  # short-lived children of initdb
                act(process)
