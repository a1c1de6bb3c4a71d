"""Server processes whose guard is gone, and what they leave behind.

With a guard there are none; these cases are left: the guard was killed together with everything
else, or alone on a system whose kernel does not pass that on, or the machine went down.
"""

import os
import signal
import subprocess
import sys
from contextlib import suppress

from awa._local.account import run_as
from awa._local.cluster import Cluster, Owner, is_alive
from awa._local.errors import ServerAlreadyRunning
from awa._local.guard import server_processes


def end_orphans(ours: Cluster, owner: Owner) -> None:
    """Ask what `owner`'s guard left running to end. Call again until the lock is free.

    Does nothing while the guard lives. Never hits the processes of a newer owner: that one makes
    the old entry disappear before it starts any, and the entry is compared after looking.
    """
    if is_alive(owner.guard_pid):
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


def clear_stale_pid_file(ours: Cluster, major: int) -> None:
    """Remove a `postmaster.pid` of a server that is gone. For the holder of the lock.

    PostgreSQL does so itself, except when another program has got the old process id meanwhile
    (usual in containers, where ids start anew); it then believes that the server still runs.
    Raises ServerAlreadyRunning for a server that was started on these data by other means.
    """
    postmaster = ours.read_postmaster(major)
    if postmaster is None or not is_alive(postmaster.pid):
        return
    data = ours.place.data(major)
    if sys.platform == "linux":
        runs = bool(server_processes(data))
    else:
        runs = _is_postgres(postmaster.pid)
    if runs:
        raise ServerAlreadyRunning(
            ours.place.home, postmaster.pid, "a PostgreSQL that was started by hand"
        )
    (data / "postmaster.pid").unlink(missing_ok=True)


def _is_postgres(pid: int) -> bool:
    try:
        asked = run_as(None, ["/bin/ps", "-o", "comm=", "-p", str(pid)])
    except (OSError, subprocess.TimeoutExpired):
        return True  # unknown: better an error than two servers on the same data
    return "postgres" in asked.stdout


def _send(pid: int, how: signal.Signals) -> None:
    with suppress(ProcessLookupError):
        os.kill(pid, how)
