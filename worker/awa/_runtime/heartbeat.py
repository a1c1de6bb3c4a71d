"""Saying that this process lives, and noticing when somebody has said otherwise."""

import asyncio
import time
from collections.abc import Awaitable, Callable

from awa._runtime.executor import Executor
from awa._runtime.identity import Identity
from awa._runtime.service import Service
from awa.settings import WorkerSettings

STARTED_LIMIT = 10_000


class Heartbeat(Service):
    """One statement per interval, whatever runs. Also asks attempts past their deadline to stop."""

    name = "heartbeat"

    def __init__(
        self,
        identity: Identity,
        executor: Executor,
        settings: WorkerSettings,
        declared_dead: Callable[[], Awaitable[None]],
    ) -> None:
        super().__init__()
        self._identity = identity
        self._executor = executor
        self._interval = self.longest_pause = settings.heartbeat_interval.total_seconds()
        self._declared_dead = declared_dead
        self.said_at: float | None = None

    async def run(self) -> None:
        """Send heartbeats for ever, the first at once."""
        while True:
            started = self._executor.running()[:STARTED_LIMIT]
            if not await self._identity.say_alive(started):
                await self._declared_dead()
            self.said_at = time.monotonic()
            self.progressed()
            await asyncio.sleep(self._interval)


class DeadlineWatch(Service):
    """Asks attempts past their deadline to stop; the database ends those that do not."""

    name = "deadlines"

    def __init__(self, executor: Executor) -> None:
        super().__init__()
        self._executor = executor

    async def run(self) -> None:
        """Look every quarter of a second."""
        while True:
            await asyncio.sleep(0.25)
            self._executor.stop_overdue(time.perf_counter())
