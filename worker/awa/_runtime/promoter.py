"""Making due jobs ready, without asking all the time when nothing is due.

The leader looks every promote interval while anything is due soon, and whenever it cannot be told.
Else it sleeps as workers do: it holds a lock that says so, and whoever writes a job that is due
soon notifies it. It sleeps only once a look has shown that every transaction which may have passed
by the lock before it was taken has ended, and has left nothing.
"""

import asyncio
import time
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from awa._runtime.listener import Listener
from awa._store.database import Database
from awa.metrics import WorkerMetrics
from awa.settings import WorkerSettings

LONGEST_SLEEP_SECONDS = 5.0
"""A job that is due later than this is found in time by itself (`wake_leader` in the schema)."""


SETTLE_PAUSE_SECONDS = 0.05
"""Between two parts of what claims have left, so that a long run of it leaves claims their time."""


@dataclass(frozen=True, slots=True)
class _Look:
    """What a look has found."""

    promoted: int
    due_in_seconds: float | None
    has_holes: bool
    ended_below: int

    @property
    def is_idle(self) -> bool:
        """Whether nothing was there and nothing is due soon."""
        later = self.due_in_seconds is None or self.due_in_seconds > LONGEST_SLEEP_SECONDS
        return later and not self.promoted and not self.has_holes


class Promoter:
    """The duty of making jobs ready: those that are due, and those that claims have passed over."""

    def __init__(
        self,
        database: Database,
        settings: WorkerSettings,
        listener: Listener,
        metrics: WorkerMetrics,
    ) -> None:
        self._database = database
        self._interval = settings.promote_interval.total_seconds()
        self._batch_size = settings.promote_batch_size
        self._listener = listener
        self._metrics = metrics
        self._look: _Look | None = None
        self._holes = asyncio.Event()
        self._settle_pause = 0.0

    async def run(self) -> None:
        """Look once, and do what there is to do."""
        self._look = None
        self._listener.due.clear()
        self._look = look = await self._promote()
        if look.has_holes:
            self._holes.set()

    async def settle(self) -> None:
        """Make the jobs ready that claims have passed over, when there are any: a duty of its own.

        It holds up no job that is due. What waits for open transactions is looked at in vain until
        these end, so the more a look costs the longer is the pause after it.
        """
        await self._holes.wait()
        self._holes.clear()
        began = time.perf_counter()
        moved = await self._database.value("settle_holes")
        took = time.perf_counter() - began
        self._settle_pause = SETTLE_PAUSE_SECONDS if moved else max(self._interval, 10 * took)
        if moved:
            self._holes.set()

    async def pause_settling(self) -> None:
        """Leave claims their time."""
        await asyncio.sleep(self._settle_pause)

    async def rest(self) -> None:
        """Wait for the time to look again."""
        await asyncio.sleep(self._interval)
        if self._look is None or not self._look.is_idle:
            await self._listener.leader_awake()
            return
        asleep_since = await self._listener.leader_sleeps()
        if asleep_since is None or self._look.ended_below < asleep_since:
            return
        with suppress(TimeoutError):
            async with asyncio.timeout(LONGEST_SLEEP_SECONDS):
                await self._listener.due.wait()

    async def _promote(self) -> _Look:
        promoted = 0
        while True:
            row: Any = (await self._database.fetch("promote", self._batch_size))[0]
            promoted += row["promoted"]
            self._metrics.promoted += row["promoted"]
            if row["promoted"] < self._batch_size:
                return _Look(promoted, row["due_in_seconds"], row["has_holes"], row["ended_below"])
