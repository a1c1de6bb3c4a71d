"""Server processes whose guard is gone, and what they leave behind.

With a guard there are none; these cases are left: the guard was killed together with everything
else, or alone on a system whose kernel does not pass that on, or the machine went down.
"""

import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

from awa._local.account import run_as
from awa._local.cluster import Cluster, Owner, is_alive
from awa._local.errors import ServerAlreadyRunning
from awa._local.guard import server_processes


def end_orphans(ours: Cluster, owner: Owner) -> None:
    """Ask what `owner`'s guard left running to end. Call again until the lock is free.

    Does nothing while the guard lives. Never hits the processes of a newer owner: that one makes
    the old entry disappear before it starts any, and the entry is compared after looking.
    """
    if ours.is_guarded():
        return
    data = ours.place.data(owner.major)
    postmaster = ours.read_postmaster(owner.major)
    running = server_processes(data)
    if postmaster is not None and sys.platform != "linux" and _is_postgres(postmaster.pid):
        running = (postmaster.pid,)
    if ours.read_owner() != owner:
        return
    if postmaster is not None and postmaster.pid in running:
        _send(postmaster.pid, signal.SIGINT)  # a fast shutdown, which ends its backends too
        return
    for pid in running:
        _send(pid, signal.SIGQUIT)


def clear_stale_files(ours: Cluster, major: int, socket_folder: Path) -> None:
    """Remove the pid file and the sockets of a server that is gone. For the holder of the lock.

    PostgreSQL does so itself, except when a process with the old id exists: another program
    (usual in containers, where ids start anew) or a zombie that nobody waits for (usual where
    process 1 is no init). It then believes that the old server still runs. Raises
    ServerAlreadyRunning for a server that was started on these data by other means.
    """
    data = ours.place.data(major)
    postmaster = ours.read_postmaster(major)
    if postmaster is not None and is_alive(postmaster.pid):
        if _runs_on(data, postmaster.pid):
            raise ServerAlreadyRunning(
                ours.place.home, postmaster.pid, "a PostgreSQL that was started by hand"
            )
        (data / "postmaster.pid").unlink(missing_ok=True)
    for file in socket_folder.glob(".s.PGSQL.*"):
        file.unlink(missing_ok=True)


def _runs_on(data: Path, pid: int) -> bool:
    return bool(server_processes(data)) if sys.platform == "linux" else _is_postgres(pid)


def _is_postgres(pid: int) -> bool:
    try:
        asked = run_as(None, ["/bin/ps", "-o", "comm=", "-p", str(pid)])
    except (OSError, subprocess.TimeoutExpired):
        return True  # unknown: better an error than two servers on the same data
    return "postgres" in asked.stdout


def _send(pid: int, how: signal.Signals) -> None:
    with suppress(ProcessLookupError):
        os.kill(pid, how)
