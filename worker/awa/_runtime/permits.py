"""Places for running jobs: nothing is claimed that cannot start.

Each queue has its own places, or (`global_max_workers`) reserved ones and a share by weight of
those that nobody has reserved. A queue that has no work lends its share to the others. A rate limit
takes a token for each start; tokens of jobs that were not there go back.
"""

import asyncio
import math
import time
from collections.abc import Callable

from awa.queue_settings import QueueSettings, RateLimit
from awa.settings import WorkerSettings


class TokenBucket:
    """A rate limit in one process. The clock is monotonic seconds."""

    def __init__(self, limit: RateLimit, clock: Callable[[], float] = time.monotonic) -> None:
        self._rate = limit.rate
        self._capacity = float(limit.capacity)
        self._clock = clock
        self._tokens = self._capacity
        self._at = clock()

    def available(self) -> int:
        """Return how many jobs may start now."""
        now = self._clock()
        self._tokens = min(self._capacity, self._tokens + (now - self._at) * self._rate)
        self._at = now
        return int(self._tokens)

    def take(self, count: int) -> None:
        """Use tokens that `available` has offered."""
        self._tokens -= count

    def seconds_until_next(self) -> float:
        """Return when the next job may start."""
        return max(0.0, (1 - self._tokens) / self._rate)


class QueuePlaces:
    """The places of one queue."""

    def __init__(self, settings: QueueSettings, places: int) -> None:
        self.settings = settings
        self.own = places
        self.in_use = 0
        self.wants_more = True
        self.bucket = None if settings.rate_limit is None else TokenBucket(settings.rate_limit)

    @property
    def borrowed(self) -> int:
        """Return how many places it uses beyond its own."""
        return max(0, self.in_use - self.own)


class Permits:
    """The places of one worker process."""

    def __init__(self, settings: WorkerSettings) -> None:
        shared = settings.global_max_workers
        self.queues = {
            queue.name: QueuePlaces(
                queue,
                settings.places_of(queue) if shared is None else queue.min_workers or 0,
            )
            for queue in settings.queues
        }
        self.shared = (
            0 if shared is None else shared - sum(queue.own for queue in self.queues.values())
        )
        self.freed = asyncio.Event()
        self.loop = asyncio.get_running_loop()

    @property
    def capacity(self) -> int:
        """Return how many jobs can run at once."""
        return self.shared + sum(queue.own for queue in self.queues.values())

    @property
    def in_use(self) -> int:
        """Return how many jobs run."""
        return sum(queue.in_use for queue in self.queues.values())

    def offer(self, name: str) -> int:
        """Return how many jobs of a queue may be claimed now."""
        queue = self.queues[name]
        free = max(0, queue.own - queue.in_use) + self._to_borrow(queue)
        if queue.bucket is not None:
            free = min(free, queue.bucket.available())
        return min(free, queue.settings.claim_batch_size)

    def take(self, name: str, count: int) -> None:
        """Use places for claimed jobs."""
        queue = self.queues[name]
        queue.in_use += count
        if queue.bucket is not None:
            queue.bucket.take(count)

    def give(self, name: str, count: int = 1) -> None:
        """Free the places of jobs whose handlers have returned."""
        self.queues[name].in_use -= count
        if not self.freed.is_set():
            self.freed.set()

    def seconds_until_offer(self) -> float | None:
        """Return when a rate limit next lets a job start, None when no limit is in the way."""
        waits = [
            queue.bucket.seconds_until_next()
            for queue in self.queues.values()
            if queue.bucket is not None and queue.bucket.available() < 1
        ]
        return min(waits) if waits else None

    def _to_borrow(self, queue: QueuePlaces) -> int:
        if not self.shared:
            return 0
        others = list(self.queues.values())
        left = self.shared - sum(other.borrowed for other in others)
        weights = sum(other.settings.weight for other in others if other.wants_more)
        if not queue.wants_more:
            weights += queue.settings.weight
        share = math.ceil(self.shared * queue.settings.weight / weights)
        return max(0, min(left, share - queue.borrowed))
