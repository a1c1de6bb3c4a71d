"""A process that administers at random: cancels, retries, looks, pauses and resumes."""

import asyncio
import contextlib
import random
import signal
import sys
from pathlib import Path
from typing import Any

import awa
from support.soak.jobs import QUEUES
from support.soak.journal import TimedJournal

CANCELLED_STATES = ("available", "running", "retryable", "scheduled")
RETRIED_STATES = ("failed", "cancelled", "retryable", "scheduled")


class Manager:
    """Does one thing after another to jobs and queues, and notes what was answered."""

    def __init__(self, client: awa.AsyncClient, journal: TimedJournal, seed: int) -> None:
        self._client = client
        self._journal = journal
        self._chance = random.Random(seed)  # noqa: S311 - chance, not secrets

    async def step(self) -> None:
        """Do one thing. An error of the database leaves its outcome open."""
        ways = {self._cancel: 6, self._retry: 3, self._look: 6, self._pause: 1}
        way = self._chance.choices(list(ways), list(ways.values()))[0]
        with contextlib.suppress(awa.AwaError):
            await way()
        await asyncio.sleep(self._chance.random() * 0.2)

    async def _one_of(self, states: tuple[str, ...]) -> "awa.Job[Any] | None":
        jobs = await self._client.list_jobs(
            self._chance.choice(states), queue=self._chance.choice(QUEUES), limit=20
        )
        return self._chance.choice(jobs) if jobs else None

    async def _cancel(self) -> None:
        if (job := await self._one_of(CANCELLED_STATES)) is not None:
            key = job.args["key"]
            self._journal.note(("cancelling", key))
            found = await self._client.cancel(job.id)
            self._journal.note(("cancelled", key, str(found.state)))

    async def _retry(self) -> None:
        if (job := await self._one_of(RETRIED_STATES)) is not None:
            key = job.args["key"]
            self._journal.note(("retrying", key))
            await self._client.retry(job.id)
            self._journal.note(("retried", key))

    async def _look(self) -> None:
        if (job := await self._one_of(("completed",))) is not None:
            found = await self._client.get_job(job.id)
            token = (found.output or {}).get("token", "")
            self._journal.note(("seen", job.args["key"], token, str(found.state)))

    async def _pause(self) -> None:
        queue = self._chance.choice(QUEUES)
        self._journal.note(("pausing", queue))
        try:
            await self._client.pause_queue(queue, "soak")
            await asyncio.sleep(self._chance.random() * 0.7)
        finally:
            await self.resume(queue)

    async def resume(self, queue: str) -> None:
        """Resume a queue, whatever the database does meanwhile."""
        for _ in iter(int, 1):
            try:
                await self._client.resume_queue(queue)
            except awa.DatabaseError:
                await asyncio.sleep(0.1)
            else:
                self._journal.note(("resumed", queue))
                return


async def manage(dsn: str, folder: Path, seed: int) -> None:
    """Administer until SIGTERM."""
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    async with awa.AsyncClient(dsn, 2) as client:
        manager = Manager(client, TimedJournal(folder, "manager"), seed)
        for queue in QUEUES:  # a predecessor may have died while one was paused
            await manager.resume(queue)
        while not stop.is_set():
            await manager.step()


if __name__ == "__main__":
    asyncio.run(manage(sys.argv[1], Path(sys.argv[2]), int(sys.argv[3])))
