"""The faults: each takes the stage and chance, does its harm, and returns when it is over.

It returns whether it took effect: the same fault may find nobody to harm.
"""

import asyncio
import math
import os
import random
import signal
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from datetime import timedelta
from pathlib import Path

import asyncpg
import psutil

from support.pgwire import PostgresProxy, When
from support.soak.failover import fail_over
from support.soak.journal import clock_offset, read_offsets
from support.soak.stage import DATABASE, Member, Stage
from support.waiting import eventually

type Fault = Callable[[Stage, random.Random], Awaitable[bool]]

NETWORK_ERRORS = (asyncpg.PostgresError, asyncpg.InterfaceError, OSError, TimeoutError)
FAKE_CLOCKS = sorted(Path("/usr/lib").glob("*/faketime/libfaketimeMT.so.1"))
START_LIMIT = timedelta(seconds=180)
ORPHAN_LIMIT = timedelta(seconds=20)
LASTING_SECONDS = (20.0, 60.0)
HALF_AN_HOUR_SECONDS = 1800.0
PRUNE_LIMIT = timedelta(seconds=10)
"""So long a prune is waited for: longer than two turns of the ring are apart."""
SILENCE_SECONDS = 2.5
"""Longer than others wait for a heartbeat: who is silent for so long is declared dead."""
COMMITS = {
    "work": ("finish_v", "finish_v", "claim_v", "heartbeat_v"),
    "command": ("finish_v", "finish_v", "claim_v", "heartbeat_v"),
    "produce": ("enqueue_v", "commit"),
    "manage": ("cancel_v", "retry_v", "pause_queue_v"),
}
"""Statements of each kind of process that commit, by a part of their text."""
LEADER = """
select i.pid from awa.leader l join awa.runtime_instances i using (worker_id)
 where l.expires_at > clock_timestamp()
"""
HELD_BACK = "select age(backend_xmin) > 10 from pg_stat_activity where pid = $1"
HELD_UP = """
select blocker from awa.prune_v1(make_interval(secs => $1), pg_size_bytes('1 TB'))
"""


def mortal(stage: Stage, chance: random.Random) -> Member:
    """Draw a worker that may be killed."""
    return chance.choice([worker for worker in stage.workers if not worker.is_steady])


def someones_proxy(stage: Stage, chance: random.Random) -> PostgresProxy:
    """Draw whose network breaks."""
    return chance.choice([member.proxy for member in stage.members])


async def kill_worker(stage: Stage, chance: random.Random) -> bool:
    """A worker is gone from one instruction to the next."""
    return await stage.kill(mortal(stage, chance))


async def kill_leader(stage: Stage, chance: random.Random) -> bool:
    """The worker that leads maintenance is gone. The steady one is made to lose the lead first."""
    for _ in range(4):
        async with stage.session() as session:
            pid = await session.fetchval(LEADER)
        for worker in stage.workers:
            if pid not in worker.pids:
                continue
            if not worker.is_steady:
                return kill_process(pid)
            await suspend(pid)
        await asyncio.sleep(0.5)
    return False


async def kill_child(stage: Stage, chance: random.Random) -> bool:
    """A process of `awa worker` is gone; its supervisor settles what it had."""
    pids = [pid for worker in stage.workers if worker.is_command for pid in worker.pids]
    return bool(pids) and kill_process(chance.choice(pids))


async def kill_supervisor(stage: Stage, chance: random.Random) -> bool:
    """An `awa worker` is gone, and its processes with it; the next one settles what they had."""
    for worker in stage.workers:
        if worker.is_command and (pids := worker.pids) and await stage.kill(worker):
            await eventually(lambda: not any(map(psutil.pid_exists, pids)), ORPHAN_LIMIT)
            return True
    return False


def kill_process(pid: int) -> bool:
    """End a process from one instruction to the next; True when it was there."""
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return False
    return True


async def kill_producer(stage: Stage, chance: random.Random) -> bool:
    """A producer is gone, in the middle of what it was sending."""
    return await stage.kill(chance.choice(stage.producers))


async def restart_worker(stage: Stage, chance: random.Random) -> bool:
    """A worker is replaced as a deploy does it."""
    return await stage.end(mortal(stage, chance))


async def suspend_worker(stage: Stage, chance: random.Random) -> bool:
    """A worker stands still until it has been declared dead, then goes on."""
    pids = [pid for worker in stage.workers for pid in worker.pids]
    return bool(pids) and await suspend(chance.choice(pids))


async def suspend(pid: int) -> bool:
    """Let a process stand still for longer than others wait for it; True when it did."""
    with suppress(ProcessLookupError, psutil.NoSuchProcess):
        os.kill(pid, signal.SIGSTOP)
        await asyncio.sleep(SILENCE_SECONDS)
        stood = psutil.Process(pid).status() == psutil.STATUS_STOPPED
        os.kill(pid, signal.SIGCONT)
        return stood
    return False


async def wrong_clock(stage: Stage, chance: random.Random) -> bool:
    """A worker is replaced by one whose clock is an hour off, until it dies for another reason."""
    worker = mortal(stage, chance)
    worker.environment.update(
        LD_PRELOAD=str(FAKE_CLOCKS[0]), FAKETIME=chance.choice(("+1h", "-1h")),
        FAKETIME_DONT_FAKE_MONOTONIC="1",
    )  # fmt: skip
    starts, offsets = worker.starts, len(read_offsets(stage.folder))
    await stage.kill(worker)
    await eventually(lambda: worker.starts > starts, START_LIMIT)
    for name in ("LD_PRELOAD", "FAKETIME"):
        del worker.environment[name]
    with suppress(AssertionError):
        # Another one may be killed and started meanwhile, so not each new one is the one meant.
        await eventually(
            lambda: any(map(is_off, read_offsets(stage.folder)[offsets:])), START_LIMIT
        )
        return True
    return False


def is_off(offset: float) -> bool:
    """Whether a process had another time of day than this one."""
    return abs(offset - clock_offset()) > HALF_AN_HOUR_SECONDS


async def kill_server(stage: Stage, chance: random.Random) -> bool:
    """The server is gone from one instruction to the next, and comes back."""
    await stage.look_at_statistics()
    former = stage.server.pid
    await asyncio.to_thread(stage.server.kill)
    await asyncio.to_thread(stage.server.start)
    return stage.server.pid != former


async def restart_server(stage: Stage, chance: random.Random) -> bool:
    """The server is restarted as for a setting."""
    await stage.look_at_statistics()
    former = stage.server.pid
    await asyncio.to_thread(stage.server.restart)
    return stage.server.pid != former


async def fail_over_to_standby(stage: Stage, chance: random.Random) -> bool:
    """The primary is lost and a standby that follows synchronously is promoted."""
    former = stage.server
    await fail_over(stage, chance.random() * 2)
    return stage.server is not former


async def pin_snapshot(stage: Stage, chance: random.Random) -> bool:
    """Somebody holds an old snapshot open for long, while others commit."""
    until = time.monotonic() + chance.uniform(*LASTING_SECONDS)
    async with stage.session() as session:
        await session.execute("begin isolation level repeatable read")
        await session.fetchval("select count(*) from pg_class")
        await asyncio.sleep(2)
        async with stage.session() as other:
            holds_back = bool(await other.fetchval(HELD_BACK, session.get_server_pid()))
        await stay(stage, session, until)
    return holds_back


async def block_prune(stage: Stage, chance: random.Random) -> bool:
    """Somebody who has read every table of the ring stays for long, and holds up prunes."""
    until = time.monotonic() + chance.uniform(*LASTING_SECONDS)
    async with stage.session() as session:
        await session.execute("begin")
        for table in ("ready_entries", "claim_batches", "receipt_completion_batches"):
            await session.fetchval(f"select slot from awa.{table} limit 1")  # noqa: S608
        async with stage.session() as other:

            async def holds_up() -> bool:
                blocker = await other.fetchval(HELD_UP, stage.retention_seconds)
                return f"process {session.get_server_pid()} of" in (blocker or "")

            try:
                await eventually(holds_up, PRUNE_LIMIT)
            except AssertionError:
                return False
        await stay(stage, session, until)
    return True


async def stay(stage: Stage, session: asyncpg.Connection, until: float) -> None:
    """Keep a transaction open until then, or until the soak is to end or the server is lost."""
    lost = asyncio.Event()
    session.add_termination_listener(lambda _: lost.set())
    if not session.is_closed():
        with suppress(TimeoutError):
            await asyncio.wait_for(lost.wait(), min(until, stage.until) - time.monotonic())


async def cut_at_commit(stage: Stage, chance: random.Random) -> bool:
    """A connection breaks after the server has committed and before the client hears of it."""
    member = chance.choice(stage.members)
    when = chance.choice((When.BEFORE_ANSWER, When.BEFORE_ANSWER, When.AFTER_FIRST_ANSWER))
    point = member.proxy.cut_at(chance.choice(COMMITS[member.module]), when)
    return await asyncio.to_thread(point.wait_quietly, timedelta(seconds=3))


async def cut_everything(stage: Stage, chance: random.Random) -> bool:
    """All connections of a process break at once."""
    proxy = someones_proxy(stage, chance)
    open_ones = proxy.connections
    await asyncio.to_thread(proxy.cut)
    return open_ones > 0


async def black_hole(stage: Stage, chance: random.Random) -> bool:
    """One process's packets go nowhere for a while; then they arrive late, or never."""
    proxy = someones_proxy(stage, chance)
    await asyncio.to_thread(proxy.black_hole)
    await asyncio.sleep(SILENCE_SECONDS + chance.random())
    held = proxy.connections
    if chance.random() < 0.5:
        await asyncio.to_thread(proxy.cut)
    await asyncio.to_thread(proxy.forward)
    return held > 0


async def use_up_connections(stage: Stage, chance: random.Random) -> bool:
    """The server is out of connections while a process loses the ones it had."""
    taken: list[asyncpg.Connection] = []
    proxy = someones_proxy(stage, chance)
    end = math.inf
    refused = 0
    try:
        while time.monotonic() < end:
            for answer in await asyncio.gather(*_connects(stage, 8), return_exceptions=True):
                if isinstance(answer, asyncpg.Connection):
                    taken.append(answer)
                elif refused == 0:
                    refused, end = 1, time.monotonic() + 2
                    await asyncio.to_thread(proxy.cut)
                else:
                    refused += 1
            await asyncio.sleep(0.02)
    finally:
        for session in taken:
            session.terminate()
    stage.counts["connections refused"] += refused
    return refused > 0


def _connects(stage: Stage, count: int) -> list[Awaitable[asyncpg.Connection]]:
    return [asyncpg.connect(stage.server.dsn(DATABASE), timeout=5) for _ in range(count)]


async def make_read_only(stage: Stage, chance: random.Random) -> bool:
    """The server takes no writes for a while."""
    try:
        await stage.configure("default_transaction_read_only", "on")
        await asyncio.sleep(2)
        return await _refuses_writes(stage)
    finally:
        await stage.configure("default_transaction_read_only", None)


async def _refuses_writes(stage: Stage) -> bool:
    session = await asyncpg.connect(stage.dsn, timeout=5)
    try:
        await session.execute("create table awa.soak_probe ()")
    except asyncpg.ReadOnlySQLTransactionError:
        return True
    else:
        await session.execute("drop table awa.soak_probe")
        return False
    finally:
        await session.close(timeout=5)


async def fill_disk(stage: Stage, chance: random.Random) -> bool:
    """The disk with the database's files is full for a while."""
    try:
        await asyncio.to_thread(stage.disk.fill)
        await asyncio.sleep(3)
        return await asyncio.to_thread(lambda: stage.disk.is_full)
    finally:
        await asyncio.to_thread(stage.disk.relieve)


# fault: how often it comes in one round
FAULTS: dict[Fault, int] = {
    kill_worker: 2, kill_leader: 1, kill_child: 1, kill_supervisor: 1, kill_producer: 1,
    restart_worker: 1, suspend_worker: 1, wrong_clock: 1, kill_server: 1, restart_server: 1,
    fail_over_to_standby: 1, pin_snapshot: 1, block_prune: 1, cut_at_commit: 4, cut_everything: 1,
    black_hole: 1, use_up_connections: 1, make_read_only: 1, fill_disk: 1,
}  # fmt: skip

LASTING: set[Fault] = {pin_snapshot, block_prune}
"""These go on while others come."""


def possible_faults(stage: Stage, only: tuple[str, ...] = ()) -> tuple[list[Fault], dict[str, str]]:
    """Return one round of faults, all or only those named, and which are left out here and why."""
    left_out: dict[str, str] = {}
    if not FAKE_CLOCKS:
        left_out[wrong_clock.__name__] = "libfaketime is not installed"
    if not stage.disk.mounted:
        left_out[fill_disk.__name__] = "only root may mount a disk"
    return [
        fault
        for fault, times in FAULTS.items()
        for _ in range(times)
        if fault.__name__ not in left_out and (not only or fault.__name__ in only)
    ], {name: reason for name, reason in left_out.items() if not only or name in only}
