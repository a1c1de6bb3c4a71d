"""Work by key: no key twice at once, no key twice in line, each again after a failure.

`Schedule` holds the rules and no clock; `WorkQueue` runs handlers by them.
"""

import asyncio
import contextlib
import heapq
import logging
import random
import time
from collections.abc import Awaitable, Callable, Hashable
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Literal, Protocol

from awa_operator.errors import ApiConflict, ApiTooManyRequests, NotLeading

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Backoff:
    """Waits that double from `first` to `longest`, each shortened by chance to at least half."""

    first: timedelta = timedelta(milliseconds=200)
    longest: timedelta = timedelta(seconds=30)

    def wait_seconds(self, failures: int, chance: float) -> float:
        """Return the wait after so many failures in a row; `chance` is from 0 to 1."""
        full = self.first.total_seconds() * 2.0 ** min(max(failures - 1, 0), 32)
        full = min(full, self.longest.total_seconds())
        return full * (0.5 + chance / 2)


@dataclass(slots=True)
class _Entry:
    """What is known of one key that is in line, running, due or failing."""

    ready_since: float | None = None
    running_since: float | None = None
    due: float | None = None
    failures: int = 0


@dataclass(slots=True)
class Schedule[K: Hashable]:
    """Which key is next. Times are seconds of one monotonic clock.

    A key is in line at most once; it does not run twice at the same time: what is added while it
    runs runs after it. An earlier due time wins over a later one.
    """

    entries: dict[K, _Entry] = field(default_factory=dict)
    _line: dict[K, None] = field(default_factory=dict)
    _dues: list[tuple[float, int, K]] = field(default_factory=list)
    _counter: int = 0

    def add(self, key: K, now: float) -> None:
        """Put a key in line now."""
        entry = self.entries.setdefault(key, _Entry())
        entry.due = None
        if entry.ready_since is None:
            entry.ready_since = now
        if entry.running_since is None:
            self._line.setdefault(key)

    def add_at(self, key: K, due: float) -> None:
        """Put a key in line at `due`, unless it is in line already or due before that."""
        entry = self.entries.setdefault(key, _Entry())
        if entry.ready_since is not None or (entry.due is not None and entry.due <= due):
            return
        entry.due = due
        self._counter += 1
        heapq.heappush(self._dues, (due, self._counter, key))

    def take(self, now: float) -> K | None:
        """Return the key to run now, and None if there is none; `end` it later."""
        self._collect(now)
        if not self._line:
            return None
        key = next(iter(self._line))
        del self._line[key]
        entry = self.entries[key]
        entry.ready_since, entry.running_since = None, now
        return key

    def end(self, key: K, now: float, *, failed: bool) -> int:
        """Note that a key has run; return how many failures in a row that makes."""
        entry = self.entries[key]
        entry.running_since = None
        entry.failures = entry.failures + 1 if failed else 0
        failures = entry.failures
        if entry.ready_since is not None:
            self._line.setdefault(key)
        elif entry.due is None and not failed:
            del self.entries[key]
        return failures

    def forget(self, key: K) -> None:
        """Take a key out of line and out of what is due; a run of it goes on to its end."""
        self._line.pop(key, None)
        entry = self.entries.get(key)
        if entry is None:
            return
        entry.ready_since = entry.due = None
        if entry.running_since is None:
            del self.entries[key]

    def wait(self, now: float) -> float | None:
        """Return the seconds until a key may be taken: 0 at once, None when none is known."""
        self._collect(now)
        if self._line:
            return 0.0
        return max(self._dues[0][0] - now, 0.0) if self._dues else None

    @property
    def depth(self) -> int:
        """Keys in line."""
        return len(self._line)

    def oldest_wait(self, now: float) -> float:
        """Return for how many seconds the first in line waits."""
        first = next(iter(self._line), None)
        since = None if first is None else self.entries[first].ready_since
        return 0.0 if since is None else now - since

    def _collect(self, now: float) -> None:
        """Put what is due in line, and drop due times that no longer count."""
        while self._dues:
            due, _, key = self._dues[0]
            entry = self.entries.get(key)
            if entry is not None and entry.due == due:
                if due > now:
                    return
                entry.due = None
                self.add(key, now)
            heapq.heappop(self._dues)


type Result = Literal["success", "conflict", "error"]
"""How a run ended. A conflict is no fault: something changed meanwhile, so it starts again."""


class QueueNotes(Protocol):
    """What a work queue tells to whoever measures it."""

    def started(self, waited_seconds: float, depth: int) -> None:
        """Tell that a key began to run after a wait in line."""

    def ended(self, took_seconds: float, waited_seconds: float, result: Result) -> None:
        """Tell that a key has run, with what result, and how long it had waited before that."""


class WorkQueue[K: Hashable]:
    """Runs `handle(key)` for every key that is added, at most `concurrency` at once.

    `handle` returns when to come back, or None. When it raises, the key comes back after a wait
    that doubles with each failure; a conflict comes back at once, a throttled request when the
    server said. A run longer than `timeout` is cancelled and counts as failed. Nothing runs while
    the queue is paused; what is added then waits in line.
    """

    def __init__(
        self,
        handle: Callable[[K], Awaitable[timedelta | None]],
        *,
        concurrency: int = 8,
        backoff: Backoff | None = None,
        timeout: timedelta = timedelta(seconds=60),
        notes: QueueNotes | None = None,
        clock: Callable[[], float] = time.monotonic,
        chance: Callable[[], float] = random.random,
    ) -> None:
        self._handle = handle
        self._concurrency = concurrency
        self._backoff = backoff or Backoff()
        self._timeout = timeout
        self._notes = notes
        self._clock = clock
        self._chance = chance
        self._schedule: Schedule[K] = Schedule()
        self._changed = asyncio.Event()
        self._running: dict[asyncio.Task[None], K] = {}
        self._open = True
        self._last_end = clock()

    def add(self, key: K) -> None:
        """Run a key as soon as possible; again if it is running now."""
        self._schedule.add(key, self._clock())
        self._changed.set()

    def add_after(self, key: K, delay: timedelta) -> None:
        """Run a key after `delay`, or earlier if something else asks for it."""
        self._schedule.add_at(key, self._clock() + max(delay.total_seconds(), 0.0))
        self._changed.set()

    def forget(self, key: K) -> None:
        """Do not come back to a key unless it is added again."""
        self._schedule.forget(key)

    def pause(self) -> None:
        """Start nothing from now on."""
        self._open = False

    def resume(self) -> None:
        """Start what is in line."""
        self._open = True
        self._last_end = self._clock()
        self._changed.set()

    @property
    def depth(self) -> int:
        """Keys in line."""
        return self._schedule.depth

    @property
    def running(self) -> int:
        """Keys that run now."""
        return len(self._running)

    def stuck_for(self) -> timedelta:
        """Return for how long work has been there and none of it ended; zero if there is none."""
        if not self._open or not (self._running or self._schedule.depth):
            return timedelta(0)
        now = self._clock()
        entries = self._schedule.entries
        running = [entries[key].running_since for key in self._running.values()]
        began = [since for since in running if since is not None]
        waits = max([now - since for since in began] or [0.0])
        waits = max(waits, self._schedule.oldest_wait(now))
        return timedelta(seconds=max(min(waits, now - self._last_end), 0.0))

    async def run(self) -> None:
        """Run until cancelled; then cancel what runs and wait for it."""
        try:
            while True:
                self._start_what_may()
                await self._wait()
        finally:
            tasks = list(self._running)
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def drain(self, limit: timedelta) -> bool:
        """Start nothing more and wait for what runs; return whether all of it ended in time."""
        self.pause()
        if not self._running:
            return True
        _, late = await asyncio.wait(list(self._running), timeout=limit.total_seconds())
        return not late

    def _start_what_may(self) -> None:
        self._changed.clear()
        while self._open and len(self._running) < self._concurrency:
            now = self._clock()
            waited = self._schedule.oldest_wait(now)
            key = self._schedule.take(now)
            if key is None:
                return
            if self._notes is not None:
                self._notes.started(waited, self._schedule.depth)
            task = asyncio.create_task(self._run_one(key, waited), name=f"reconcile {key}")
            self._running[task] = key
            task.add_done_callback(self._ended)

    async def _wait(self) -> None:
        """Wait until something may have become startable."""
        limit = None
        if self._open and len(self._running) < self._concurrency:
            limit = self._schedule.wait(self._clock())
        if limit is not None and limit <= 0:
            await asyncio.sleep(0)
            return
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(limit):
                await self._changed.wait()

    async def _run_one(self, key: K, waited: float) -> None:
        began = self._clock()
        again: timedelta | None = None
        error: Exception | None = None
        try:
            async with asyncio.timeout(self._timeout.total_seconds()):
                again = await self._handle(key)
        except Exception as raised:  # noqa: BLE001 - a key that fails comes back
            error = raised
        finally:
            now = self._clock()
            self._last_end = now
            failures = self._schedule.end(key, now, failed=error is not None)
            if self._notes is not None:
                self._notes.ended(now - began, waited, _result_of(error))
        if error is not None:
            self._retry(key, error, failures)
        elif again is not None:
            self.add_after(key, again)

    def _retry(self, key: K, error: Exception, failures: int) -> None:
        """Let a key that failed come back."""
        seconds = self._backoff.wait_seconds(failures, self._chance())
        if isinstance(error, ApiConflict) and failures <= 3:
            seconds = 0.0
        if isinstance(error, ApiTooManyRequests):
            seconds = max(seconds, error.retry_after.total_seconds())
        told = {"key": str(key), "failures": failures, "retry_seconds": round(seconds, 3)}
        if isinstance(error, NotLeading | ApiConflict):
            log.debug("reconcile starts again", extra={**told, "error": type(error).__name__})
        else:
            log.warning("reconcile failed", extra=told, exc_info=error)
        self.add_after(key, timedelta(seconds=seconds))

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._running.pop(task, None)
        self._changed.set()


def _result_of(error: Exception | None) -> Result:
    if error is None:
        return "success"
    return "conflict" if isinstance(error, ApiConflict) else "error"
