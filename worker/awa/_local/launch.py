"""Starts one server: choose the programs, make the data, run it under a guard, wait until ready."""

import asyncio
import os
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta

from awa._local import cluster, orphans
from awa._local.binaries import Binaries, choose_binaries, copy_binaries, find_binaries
from awa._local.cluster import Address, Cluster, Owner
from awa._local.command import initdb_command, server_command
from awa._local.diagnosis import diagnose
from awa._local.errors import NoSpace, PortTaken, ServerFailed
from awa._local.guard import Task
from awa._local.guarded import GuardedServer
from awa._local.options import LaunchOptions
from awa._local.place import Place, free_bytes
from awa._local.session import ensure_database

LOOK_INTERVAL = timedelta(milliseconds=20)
# What a guard may need beyond the limit of a fast shutdown, see its steps.
GRACE_OF_GUARD = timedelta(seconds=15)
FREE_PORT_TRIES = 3


@dataclass(frozen=True, slots=True)
class Launched:
    """A server that is ready, and ours."""

    server: GuardedServer
    owner: Owner
    address: Address


async def launch(ours: Cluster, lock: int, options: LaunchOptions) -> Launched:
    """Start the server of a home whose lock we hold.

    Raises a LocalPostgresError; nothing runs then, and no half-made data are left.
    """
    programs = await asyncio.to_thread(_choose_binaries, ours.place, options)
    if not ours.place.data(programs.major).exists():
        _require_space(ours.place, options.free_bytes_needed)
    if options.port is not None:
        return await _launch_on(ours, lock, options, programs, options.port)
    for port in _ports(ours.read_owner()):
        try:
            return await _launch_on(ours, lock, options, programs, port)
        except PortTaken as error:
            last_error = error  # somebody was quicker: take another
    raise last_error


async def until_unused(ours: Cluster, owner: Owner, limit: timedelta) -> None:
    """Return when no process uses the data any more, also if the guard could not see to that."""
    try:
        async with asyncio.timeout(limit.total_seconds()):
            while ours.is_in_use() and ours.read_owner() == owner:
                orphans.end_orphans(ours, owner)
                await asyncio.sleep(LOOK_INTERVAL.total_seconds())
    except TimeoutError:
        raise ServerFailed("PostgreSQL did not stop", ours.log, limit) from None


async def _launch_on(
    ours: Cluster, lock: int, options: LaunchOptions, programs: Binaries, port: int
) -> Launched:
    if not cluster.is_free(port):
        raise PortTaken(port)
    socket_folder = ours.make_folders(programs.major)
    orphans.clear_stale_files(ours, programs.major, socket_folder)
    address = Address(port, socket_folder, ours.password())
    with cluster.closing(ours.open_log()) as log, cluster.closing(ours.lock_for_guard()) as own:
        said_before = os.fstat(log).st_size
        # Until our own entry is written, nobody may take what holds the lock for the processes
        # of an earlier owner, see `orphans`.
        ours.forget_owner()
        server = await GuardedServer.launch(lock, own, log)
    try:
        owner = ours.write_owner(server.guard_pid, programs, address)
        server.begin(_task(ours, options, programs, address))
        await _until_ready(ours, server, owner, options.start_limit, said_before)
        await ensure_database(address, ours)
    except BaseException:
        # Told before anything is awaited: a second cancellation cannot keep the server up.
        server.tell_to_stop()
        await server.stop(options.stop_limit + GRACE_OF_GUARD)
        raise
    return Launched(server, owner, address)


async def _until_ready(
    ours: Cluster, server: GuardedServer, owner: Owner, limit: timedelta, said_before: int
) -> None:
    try:
        async with asyncio.timeout(limit.total_seconds()):
            while not _is_ready(ours, server, owner):
                if server.has_ended:
                    what = "initdb" if server.failed_to_make_data else "PostgreSQL"
                    raise diagnose(ours.log_from(said_before), what, owner.port, ours.log)
                await asyncio.sleep(LOOK_INTERVAL.total_seconds())
    except TimeoutError:
        raise ServerFailed("PostgreSQL was not ready", ours.log, limit) from None


def _is_ready(ours: Cluster, server: GuardedServer, owner: Owner) -> bool:
    postmaster = ours.read_postmaster(owner.major)
    # A file that a killed server left behind names another process.
    return (
        postmaster is not None and postmaster.is_ready and postmaster.pid == server.postmaster_pid
    )


def _choose_binaries(place: Place, options: LaunchOptions) -> Binaries:
    found = find_binaries(options.binaries, place.user)
    chosen = choose_binaries(
        found, place.home, place.data_majors(), is_explicit=options.binaries is not None
    )
    if chosen.must_be_copied:
        return copy_binaries(chosen, options.store.absolute() / "binaries")
    return chosen


def _require_space(place: Place, needed_bytes: int) -> None:
    free = free_bytes(place.home)
    if free < needed_bytes:
        raise NoSpace(place.home, free, needed_bytes)


def _ports(last: Owner | None) -> Iterator[int]:
    """Yield ports to try: the last one first, so that a client's settings stay right."""
    if last is not None and cluster.is_free(last.port):
        yield last.port
    for _ in range(FREE_PORT_TRIES):
        yield cluster.free_port()


def _task(ours: Cluster, options: LaunchOptions, programs: Binaries, address: Address) -> Task:
    user, data = ours.place.user, ours.place.data(programs.major)
    unfinished = data.with_name("unfinished")
    initdb = initdb_command(programs, unfinished, data.with_name("initial-password"))
    server = server_command(programs, data, address.socket_folder, address.port, options.settings)
    is_ours = address.socket_folder.is_relative_to(ours.place.home)
    return Task(
        owner_pid=os.getpid(),
        uid=None if user is None else user.uid,
        gid=None if user is None else user.gid,
        initdb=() if data.exists() else initdb,
        unfinished=str(unfinished),
        data=str(data),
        password=address.password,
        server=server,
        temporary_folder=None if is_ours else str(address.socket_folder),
        stop_limit_seconds=options.stop_limit.total_seconds(),
    )
