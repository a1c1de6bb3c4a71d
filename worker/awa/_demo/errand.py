"""The demo's jobs: enqueued, some one by one and then the rest at once, and followed to their ends.

The first one finds no worker and has to wait for one. Each of the next is enqueued when the one
before has ended, and shows how soon a job starts when nothing is in its way. The many at once show
what the workers get done.
"""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

from awa._demo.findings import Finding
from awa._demo.pictures import Picture
from awa.client import AsyncClient
from awa.errors import AwaError
from awa.job import Job

KIND = "thumbnail"
ONE_BY_ONE = 25
PATIENCE = timedelta(minutes=2)
"""Without any job coming to its end for so long, something is wrong."""
LOOK_SECONDS = 0.1
LOOK_CLOSELY_SECONDS = 0.005


class Stuck(AwaError):
    """No job has ended for a long time."""

    def __init__(self) -> None:
        super().__init__(f"no job has ended for {PATIENCE.total_seconds():.0f} seconds")


@dataclass(frozen=True, slots=True)
class Ends:
    """All jobs of the demo, at their ends."""

    first: list[Finding]
    one_by_one: list[Finding]
    at_once: list[Finding]

    @property
    def all(self) -> list[Finding]:
        """All of them, in the order of the files."""
        return [*self.first, *self.one_by_one, *self.at_once]


class Errand:
    """Enqueues a job for every picture, and waits for all of them.

    `on_progress` hears how many jobs have ended, those that earlier runs have left included.
    """

    def __init__(
        self,
        client: AsyncClient,
        queue: str,
        thumbnails: Path,
        on_progress: Callable[[int], None],
    ) -> None:
        self._client = client
        self._queue = queue
        self._thumbnails = thumbnails.absolute()
        self._on_progress = on_progress
        self._ended_before = 0
        self.left_over = 0

    async def look_for_leftovers(self) -> int:
        """Return how many jobs an earlier run has left to do; they are done too."""
        open_jobs, self._ended_before = await self._counts()
        self.left_over = open_jobs
        return open_jobs

    async def run(self, pictures: Sequence[Picture]) -> Ends:
        """Enqueue everything and return what came of it. Raises Stuck."""
        alone = min(ONE_BY_ONE, len(pictures) // 4)
        few, many = pictures[:alone], pictures[alone:]
        findings = [Finding(picture, await self._one(picture)) for picture in few]
        ids = await self._enqueue(many)
        await self._until_ended(self.left_over + len(pictures))
        at_once = [Finding(one, await self._end_of(i)) for one, i in zip(many, ids, strict=True)]
        return Ends(findings[:1], findings[1:], at_once)

    async def _enqueue(self, pictures: Sequence[Picture]) -> list[int]:
        args = [{"path": str(one.path), "into": str(self._thumbnails)} for one in pictures]
        jobs = await self._client.insert_many(args, kind=KIND, queue=self._queue)
        return [job.id for job in jobs]

    async def _one(self, picture: Picture) -> Job[Any]:
        (job_id,) = await self._enqueue([picture])
        job = await self._end_of(job_id)
        self._on_progress((await self._counts())[1] - self._ended_before)
        return job

    async def _until_ended(self, wanted: int) -> None:
        ended, changed_at = -1, asyncio.get_running_loop().time()
        while ended < wanted:
            now, (_, total) = asyncio.get_running_loop().time(), await self._counts()
            if total - self._ended_before != ended:
                ended, changed_at = total - self._ended_before, now
                self._on_progress(ended)
            elif now - changed_at > PATIENCE.total_seconds():
                raise Stuck
            await asyncio.sleep(LOOK_SECONDS)

    async def _end_of(self, job_id: int) -> Job[Any]:
        try:
            async with asyncio.timeout(PATIENCE.total_seconds()):
                while True:
                    job = await self._client.get_job(job_id)
                    if job.state.is_terminal:
                        return job
                    await asyncio.sleep(LOOK_CLOSELY_SECONDS)
        except TimeoutError:
            raise Stuck from None

    async def _counts(self) -> tuple[int, int]:
        """Return how many jobs of the queue are to be done now, and how many have ended."""
        for found in await self._client.queue_counts(self._queue):
            to_do = found.available + found.running + found.retryable
            return to_do, found.completed + found.failed + found.cancelled
        return 0, 0
