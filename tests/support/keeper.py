"""Ends the servers of one test run when the run is over, however it ended.

The run's main process holds a lock on `alive` in the run's folder. The kernel releases it when
that process ends, also by kill -9; the keeper then ends every PostgreSQL server whose data lies
in the folder and removes the folder. It holds `keeper.lock` while it lives, so that the main
process can wait for the end of the cleaning.

Started as a script with the folder as argument; needs only the standard library.
"""

import contextlib
import fcntl
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

LIMIT_SECONDS = 10.0


def end(pid_file: Path) -> None:
    """Ask the postmaster for an immediate end, and insist after a while."""
    pid = int(pid_file.read_text().splitlines()[0])
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGCONT)
        os.kill(pid, signal.SIGQUIT)
        limit = time.monotonic() + LIMIT_SECONDS
        # The server removes the file as its last act; its process may stay on as a zombie.
        while pid_file.exists() and time.monotonic() < limit:
            time.sleep(0.02)
            os.kill(pid, 0)
        if pid_file.exists():
            os.kill(pid, signal.SIGKILL)


def mounted_below(folder: Path) -> list[str]:
    """Return what is mounted in the folder: disks that were to be full."""
    mounts = Path("/proc/mounts")
    if not mounts.exists():
        return []
    places = [line.split()[1] for line in mounts.read_text().splitlines()]
    return [place for place in places if place.startswith(f"{folder}/")]


def main(folder: Path) -> None:
    """Wait for the end of the run, then clean up."""
    # Ctrl-C in the terminal is for the tests; the keeper outlives them.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with (folder / "keeper.lock").open("w") as mine, (folder / "alive").open() as alive:
        fcntl.flock(mine, fcntl.LOCK_EX)
        sys.stdout.write("ready\n")
        sys.stdout.flush()
        fcntl.flock(alive, fcntl.LOCK_SH)
        for depth in ("*", "*/*"):
            for pid_file in folder.glob(f"{depth}/data/postmaster.pid"):
                end(pid_file)
        for place in mounted_below(folder):
            subprocess.run(["umount", "--lazy", place], check=False)
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
