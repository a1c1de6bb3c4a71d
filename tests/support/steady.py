"""One worker process for long: what it holds before and after many jobs, failures, cut lines.

    python -m support.steady DSN JOBS RECONNECTS FAILURES POLLS

prints two JSON lines: what the process held when it was warm, and at the end.
"""

import asyncio
import gc
import json
import sys
import threading
from datetime import timedelta
from typing import Any

import asyncpg
import psutil

from awa import AsyncClient, Job, QueueSettings, WorkerSettings
from support.waiting import eventually

HELD_BYTES = 1024 * 1024
BATCH = 2000
LONG = timedelta(minutes=10)
WARM = (5000, 5, 300, 50)
"""Jobs, reconnects, failures and polls after which everything has come into being."""


async def quick(job: Job[Any]) -> None:
    """End at once."""


async def failing(job: Job[Any]) -> None:
    """Fail with a traceback whose frame holds a megabyte."""
    held = bytearray(HELD_BYTES)
    raise ValueError(f"as told, {len(held)} bytes are held")


class Steady:
    """A worker, its producer and somebody who ends their sessions."""

    def __init__(self, client: AsyncClient, admin: asyncpg.Connection) -> None:
        self._client = client
        self._admin = admin

    async def jobs(self, count: int) -> None:
        """Work jobs that do nothing."""
        for start in range(0, count, BATCH):
            size = min(BATCH, count - start)
            await self._client.enqueue_many_copy([{}] * size, kind="quick")
            await self._quiet()

    async def failures(self, count: int) -> None:
        """Work jobs that fail for good."""
        for start in range(0, count, BATCH):
            size = min(BATCH, count - start)
            await self._client.insert_many([{}] * size, kind="failing", max_attempts=1)
            await self._quiet()

    async def reconnects(self, count: int) -> None:
        """End every session and see a job through, again and again."""
        for _ in range(count):
            await self._admin.execute(
                "select pg_terminate_backend(pid) from pg_stat_activity where datname ="
                " current_database() and application_name like 'awa%' and pid <> pg_backend_pid()"
            )
            await self._admin.execute(
                "select awa.enqueue_v1('default', 2::smallint, array['quick'], array['{}'::jsonb])"
            )
            await self._quiet()

    async def polls(self, count: int) -> None:
        """Wake the worker for nothing until it has asked in vain so often."""
        worker = self._client.worker
        assert worker is not None
        claims = worker.metrics.claims
        wanted = claims["nothing"] + count
        while claims["nothing"] < wanted:
            await self._admin.execute(
                "select pg_notify('awa:' || queue_id, '') from awa.queue_meta"
                " where queue = 'default'"
            )

    async def _quiet(self) -> None:
        async def nothing() -> bool:
            row: Any = await self._admin.fetchrow(
                "select available + running + retryable + scheduled as left"
                " from awa.queue_counts_v1('default')"
            )
            return not row["left"]

        await eventually(nothing, LONG, what="an empty queue")

    async def held(self) -> dict[str, int]:
        """Return what the process holds once it is at rest."""
        await asyncio.sleep(0.5)
        gc.collect()
        process = psutil.Process()
        timers = getattr(asyncio.get_running_loop(), "_scheduled", ())
        return {
            "rss_bytes": process.memory_info().rss,
            "tasks": len(asyncio.all_tasks()),
            "threads": threading.active_count(),
            "descriptors": process.num_fds(),
            "timers": sum(not (timer.cancelled() or _is_of_a_statement(timer)) for timer in timers),
        }


def _is_of_a_statement(timer: asyncio.TimerHandle) -> bool:
    """Whether asyncpg set it for a prepared statement that it keeps.

    It has one timer for each statement of each connection, so their number says only which
    statements ran in the last five minutes; asyncpg keeps at most a hundred per connection.
    """
    callback = getattr(timer, "_callback", None)
    return getattr(callback, "__qualname__", "") == "_StatementCache._on_entry_expired"


async def run(dsn: str, *numbers: int) -> None:
    """Warm up, tell, do it all, tell."""
    admin = await asyncpg.connect(dsn)
    settings = WorkerSettings(
        queues=(QueueSettings(name="default", max_workers=200),),
        poll_interval=timedelta(milliseconds=10),
    )
    async with AsyncClient(dsn, 2) as client:
        client.registry.add(quick, kind="quick")
        client.registry.add(failing, kind="failing")
        await client.start(settings=settings)
        steady = Steady(client, admin)
        for each in (WARM, numbers):
            jobs, reconnects, failures, polls = each
            await steady.jobs(jobs)
            await steady.failures(failures)
            await steady.reconnects(reconnects)
            await steady.polls(polls)
            sys.stdout.write(json.dumps(await steady.held()) + "\n")
            sys.stdout.flush()
    await admin.close()


if __name__ == "__main__":
    asyncio.run(run(sys.argv[1], *map(int, sys.argv[2:])))
