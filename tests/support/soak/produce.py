"""A producer process: enqueues in every way there is until it is stopped or has made enough."""

import asyncio
import contextlib
import os
import random
import signal
import sys
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import awa
from support.soak.jobs import QUEUES, RARE_SHARE, Soak, draw_mode, make_job, max_attempts
from support.soak.journal import TimedJournal

UNIQUE_KEYS = 30
"""So few that conflicts are common."""
UNFINISHED = ("scheduled", "available", "running", "retryable")
STEPS_AT_ONCE = 4


class RolledBackError(Exception):
    """The producer changes its mind."""


class Producer:
    """One producer. Keys are unique over all producers and starts."""

    def __init__(
        self, client: awa.AsyncClient, journal: TimedJournal, name: str, rate: float
    ) -> None:
        self._client = client
        self._journal = journal
        self._name = f"{name}.{os.getpid()}"
        self._chance = random.Random(name)  # noqa: S311 - chance, not secrets
        self._rate = rate
        self._begun = time.monotonic()
        self.made = 0

    async def step(self) -> None:
        """Enqueue once, in a way drawn by chance, and note how it went."""
        ways = {
            self._single: 50, self._batch: 20, self._copy: 5, self._transaction: 15,
            self._long_transaction: 1, self._scheduled: 5, self._unique: 15,
        }  # fmt: skip
        way = self._chance.choices(list(ways), list(ways.values()))[0]
        jobs: list[Soak] = []
        try:
            await way(jobs)
        except (RolledBackError, awa.UniqueConflict):
            self._journal.note(*(("rolled_back", job.key) for job in jobs))
        except awa.DatabaseError:
            await asyncio.sleep(0.2)  # what was tried stays unknown: it may have been committed
        else:
            self._journal.note(*(("committed", job.key) for job in jobs))
        ahead = self.made / self._rate - (time.monotonic() - self._begun)
        await asyncio.sleep(max(0.0, min(1.0, ahead)))

    def _make(
        self,
        jobs: list[Soak],
        count: int,
        mode: str | None = None,
        *note: str,
        is_rare: bool | None = None,
    ) -> str:
        queue = self._chance.choice(QUEUES)
        if is_rare is None:
            is_rare = self._draw_rare()
        mode = mode or draw_mode(self._chance, alone=count == 1)
        for _ in range(count):
            self.made += 1
            jobs.append(make_job(f"{self._name}-{self.made}", mode, is_rare=is_rare))
        self._journal.note(*(("tried", job.key, job.mode, *note) for job in jobs[-count:]))
        return queue

    def _draw_rare(self) -> bool:
        return self._chance.random() < RARE_SHARE

    async def _single(self, jobs: list[Soak]) -> None:
        queue = self._make(jobs, 1)
        priority = self._chance.choice((1, 2, 2, 2, 3, 4))
        await self._client.insert(
            jobs[0], queue=queue, priority=priority, max_attempts=max_attempts(jobs[0].mode)
        )

    async def _batch(self, jobs: list[Soak]) -> None:
        queue = self._make(jobs, self._chance.randint(2, 50))
        await self._client.insert_many(
            jobs, queue=queue, max_attempts=max_attempts(jobs[0].mode), tags=["batch"]
        )

    async def _copy(self, jobs: list[Soak]) -> None:
        queue = self._make(jobs, self._chance.randint(20, 300), "ok")
        await self._client.enqueue_many_copy(jobs, queue=queue)

    async def _transaction(self, jobs: list[Soak], longest: float = 0.2) -> None:
        queue = self._make(jobs, self._chance.randint(1, 5))
        async with self._client.transaction() as transaction:
            for job in jobs:
                await transaction.insert(job, queue=queue, max_attempts=max_attempts(job.mode))
                await asyncio.sleep(self._chance.random() * longest)
            if self._chance.random() < 0.25:
                raise RolledBackError

    async def _long_transaction(self, jobs: list[Soak]) -> None:
        """Stay open over turns of the ring, with numbers drawn that nobody can see."""
        await self._transaction(jobs, 3.0)

    async def _scheduled(self, jobs: list[Soak]) -> None:
        delay = self._chance.random() * 3
        queue = self._make(
            jobs, self._chance.randint(1, 5), None, "due", f"{time.monotonic() + delay:.3f}"
        )
        due = datetime.now(UTC) + timedelta(seconds=delay)
        await self._client.insert_many(
            jobs, queue=queue, run_at=due, max_attempts=max_attempts(jobs[0].mode)
        )

    async def _unique(self, jobs: list[Soak]) -> None:
        bucket = self._chance.randrange(UNIQUE_KEYS)
        mode = self._chance.choice(("ok", "ok", "slow", "fail_once"))
        is_rare = self._draw_rare()
        key = f"{'rare ' if is_rare else ''}{bucket}"  # the kind is always part of it
        queue = self._make(jobs, 1, mode, "unique", key, is_rare=is_rare)
        unique = awa.UniqueOptions(by_args=False, by_period=bucket, states=UNFINISHED)
        await self._client.insert(jobs[0], queue=queue, unique_opts=unique)


async def produce(dsn: str, folder: Path, name: str, rate: float, limit: int) -> None:
    """Enqueue `rate` jobs a second until SIGTERM or until `limit` jobs have been made."""
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    async with awa.AsyncClient(dsn, STEPS_AT_ONCE) as client:
        producer = Producer(client, TimedJournal(folder, "producer"), name, rate)

        async def steps() -> None:
            while not stop.is_set() and producer.made < limit:
                await producer.step()

        async with asyncio.TaskGroup() as group:
            for _ in range(STEPS_AT_ONCE):
                group.create_task(steps())


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(
            produce(
                sys.argv[1], Path(sys.argv[2]), sys.argv[3], float(sys.argv[4]), int(sys.argv[5])
            )
        )
