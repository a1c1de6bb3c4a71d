"""A producer process: enqueues in every way there is until it is stopped or has made enough."""

import asyncio
import contextlib
import random
import signal
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import awa
from support.soak.jobs import QUEUES, Soak, draw_mode, max_attempts
from support.soak.journal import Journal


class RolledBackError(Exception):
    """The producer changes its mind."""


class Producer:
    """One producer. Keys are unique over all producers and starts."""

    def __init__(self, client: awa.AsyncClient, journal: Journal, name: str, seed: int) -> None:
        self._client = client
        self._journal = journal
        self._name = name
        self._chance = random.Random(seed)  # noqa: S311 - chance, not secrets
        self.made = 0

    async def step(self) -> None:
        """Enqueue once, in a way drawn by chance, and note how it went."""
        way = self._chance.choices(
            (
                self._single,
                self._batch,
                self._copy,
                self._transaction,
                self._scheduled,
                self._unique,
            ),
            (50, 20, 5, 15, 5, 5),
        )[0]
        jobs: list[Soak] = []
        try:
            await way(jobs)
        except RolledBackError:
            self._journal.note(*(("rolled_back", job.key) for job in jobs))
        except awa.UniqueConflict:
            self._journal.note(*(("rolled_back", job.key) for job in jobs))
        except awa.DatabaseError:
            await asyncio.sleep(0.2)  # what was tried stays unknown: it may have been committed
        else:
            self._journal.note(*(("committed", job.key, job.mode) for job in jobs))

    def _make(self, jobs: list[Soak], count: int, mode: str | None = None) -> str:
        queue = self._chance.choice(QUEUES)
        mode = mode or draw_mode(self._chance)
        for _ in range(count):
            self.made += 1
            jobs.append(Soak(f"{self._name}-{self.made}", mode))
        self._journal.note(*(("tried", job.key, job.mode) for job in jobs[-count:]))
        return queue

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

    async def _transaction(self, jobs: list[Soak]) -> None:
        queue = self._make(jobs, self._chance.randint(1, 5))
        async with self._client.transaction() as transaction:
            for job in jobs:
                await transaction.insert(job, queue=queue, max_attempts=max_attempts(job.mode))
                await asyncio.sleep(self._chance.random() * 0.2)
            if self._chance.random() < 0.25:
                raise RolledBackError

    async def _scheduled(self, jobs: list[Soak]) -> None:
        queue = self._make(jobs, self._chance.randint(1, 5))
        due = datetime.now(UTC) + timedelta(seconds=self._chance.random() * 2)
        await self._client.insert_many(
            jobs, queue=queue, run_at=due, max_attempts=max_attempts(jobs[0].mode)
        )

    async def _unique(self, jobs: list[Soak]) -> None:
        queue = self._make(jobs, 1, "ok")
        bucket = self._chance.randint(0, 1_000_000)
        await self._client.insert(
            jobs[0], queue=queue, unique_opts={"by_args": False, "by_period": bucket}
        )


async def produce(dsn: str, folder: Path, name: str, seed: int, limit: int) -> None:
    """Enqueue until SIGTERM or until `limit` jobs have been made."""
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    async with awa.AsyncClient(dsn, 4) as client:
        producer = Producer(client, Journal(folder, "producer"), name, seed)

        async def steps() -> None:
            while not stop.is_set() and producer.made < limit:
                await producer.step()

        async with asyncio.TaskGroup() as group:
            for _ in range(4):
                group.create_task(steps())


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(
            produce(sys.argv[1], Path(sys.argv[2]), sys.argv[3], int(sys.argv[4]), int(sys.argv[5]))
        )
