"""A process that owns an embedded server, for tests that kill it.

The argument is JSON: `folder`, `store`, `fork`. Writes one line of JSON when the server is up and
ends when its standard input does. `fork` leaves a child behind that shares its open files.
"""

import asyncio
import json
import os
import signal
import sys
from pathlib import Path

from awa._local.options import LaunchOptions
from awa._local.postgres import EmbeddedPostgres


def fork_child() -> int:
    pid = os.fork()
    if pid == 0:
        signal.pause()
        os._exit(0)
    return pid


async def main(folder: Path, store: Path, *, fork: bool) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    async with EmbeddedPostgres(folder, LaunchOptions(store=store)) as server:
        up = {
            "dsn": server.dsn,
            "uid": os.geteuid(),
            "guard_pid": server.owner.guard_pid,
            "owner_pid": server.owner.pid,
            "is_owner": server.is_owner,
            "data": str(server.data),
            "child_pid": fork_child() if fork else None,
        }
        sys.stdout.write(json.dumps(up) + "\n")
        sys.stdout.flush()
        await asyncio.to_thread(sys.stdin.read)


if __name__ == "__main__":
    told = json.loads(sys.argv[1])
    asyncio.run(main(Path(told["folder"]), Path(told["store"]), fork=told["fork"]))
