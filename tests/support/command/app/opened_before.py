"""Clients that were used while the module was imported, so before any process was forked."""

import asyncio
import os
from typing import Any

from awa import AsyncClient, Client, Job

client = AsyncClient()
shared, blocking = AsyncClient(), Client()

asyncio.run(shared.insert({"key": f"shared {os.getpid()}"}, kind="opened", queue="made"))
blocking.insert({"key": f"blocking {os.getpid()}"}, kind="opened", queue="made")


@client.task(dict, kind="shared")
async def by_shared(job: Job[Any]) -> None:
    """Enqueue through the client that this module has used."""
    await shared.insert(job.args, kind="made", queue="made")
    job.set_output(os.getpid())


@client.task(dict, kind="blocking")
def by_blocking(job: Job[Any]) -> None:
    """Do the same in a thread."""
    blocking.insert(job.args, kind="made", queue="made")
    job.set_output(os.getpid())
