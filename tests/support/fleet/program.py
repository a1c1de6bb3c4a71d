"""A worker process of a fleet: works until SIGTERM."""

import asyncio
import json
import signal
import sys
from datetime import timedelta
from pathlib import Path
from typing import Any

import awa
from support.fleet.tasks import Handlers, quick


async def work(dsn: str, folder: Path, name: str, knobs: dict[str, Any]) -> None:
    """Work until SIGTERM. Knobs ending in `_ms` are durations."""
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    given: dict[str, Any] = {
        key.removesuffix("_ms"): timedelta(milliseconds=value) if key.endswith("_ms") else value
        for key, value in knobs.items()
    }
    async with awa.AsyncClient(dsn, 4) as client:
        handlers = Handlers(folder, name)
        handlers.register(client)
        await client.start(settings=quick(**given), name=name)
        assert client.worker is not None
        handlers.watch(client.worker)
        await stop.wait()


if __name__ == "__main__":
    asyncio.run(work(sys.argv[1], Path(sys.argv[2]), sys.argv[3], json.loads(sys.argv[4])))
