"""Handlers of the projects that tests run: each waits for what its test does."""

import asyncio
import os
import signal
from pathlib import Path
from typing import Any

import awa

client = awa.AsyncClient()


@client.task(dict, kind="quick")
async def quick(job: awa.Job[dict[str, Any]]) -> None:
    job.set_output(
        {"worker": os.environ["AWA_WORKER_NAME"], "greeting": os.environ.get("GREETING")}
    )


@client.task(dict, kind="hold")
async def hold(job: awa.Job[dict[str, Any]]) -> None:
    """Say that it runs and where, then wait until the test lets it go."""
    place = Path(job.args["place"])
    (place / f"started-{job.id}-{job.attempt}").write_text(os.environ["AWA_WORKER_NAME"])
    signs = (place / f"release-{job.id}", place / "release-all")
    while True:
        if any(sign.exists() for sign in signs):
            return
        await asyncio.sleep(0.02)


@client.task(dict, kind="die_once")
async def die_once(job: awa.Job[dict[str, Any]]) -> None:
    if job.attempt == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    job.set_output({"attempt": job.attempt})
