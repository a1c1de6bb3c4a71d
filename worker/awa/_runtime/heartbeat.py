"""Saying that this process lives, and noticing when somebody has said otherwise."""

import asyncio
import time
from collections.abc import Awaitable, Callable

from awa._runtime.executor import Executor
from awa._runtime.identity import Identity
from awa._runtime.service import Service
from awa.settings import WorkerSettings

STARTED_LIMIT = 10_000
RECONNECTION = 15.0
"""Seconds after an outage in which every worker that lives has had the time to say so.

Never more than the limit after which a silent one counts as dead.
"""


class Heartbeat(Service):
    """One statement per interval, whatever runs.

    Its answer names what runs here although somebody else has ended it: a cancel is notified, and
    who cannot be notified, or was not at that moment, learns of it so.
    """

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
        staleness = settings.heartbeat_staleness.total_seconds()
        self._reconnection = min(RECONNECTION, staleness)
        # Well before others could take this worker for dead, and it itself, when it judges.
        self._late_after = min(2 * self._interval + 1, staleness * 2 / 3)
        self.said_at: float | None = None
        self._silent_until: float | None = None

    @property
    def is_steady(self) -> bool:
        """Whether this worker's own heartbeats came through lately.

        If they did not, others could not be heard either, and none of them may be called dead. One
        that has just started cannot tell: it may be the first to get through after an outage.
        """
        now = time.monotonic()
        return (
            self.said_at is not None
            and now - self.said_at < self._late_after
            and self._silent_until is not None
            and now - self._silent_until > self._reconnection
        )

    async def run(self) -> None:
        """Send heartbeats for ever, the first at once."""
        while True:
            started = self._executor.running()[:STARTED_LIMIT]
            ended = await self._identity.say_alive(started)
            if ended is None:
                await self._declared_dead()
            else:
                self._executor.stop_ended(ended)
            now = time.monotonic()
            late = self.said_at is None or now - self.said_at > self._late_after
            if self.failures or late:
                self._silent_until = now
            self.said_at = now
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
