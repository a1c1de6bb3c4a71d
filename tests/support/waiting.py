"""Wait for a condition with a limit; the only polling in the tests."""

import asyncio
import inspect
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Self, overload

DEFAULT_LIMIT = timedelta(seconds=10)
FIRST_PAUSE_SECONDS = 0.005
LONGEST_PAUSE_SECONDS = 0.1
A_STALL_SECONDS = 0.25
LAST_LOOK_SECONDS = 1.0


@overload
async def eventually[T](
    predicate: Callable[[], Awaitable[T]],
    limit: timedelta = DEFAULT_LIMIT,
    *,
    what: str | None = None,
) -> T: ...
@overload
async def eventually[T](
    predicate: Callable[[], T],
    limit: timedelta = DEFAULT_LIMIT,
    *,
    what: str | None = None,
) -> T: ...
async def eventually(
    predicate: Callable[[], object],
    limit: timedelta = DEFAULT_LIMIT,
    *,
    what: str | None = None,
) -> object:
    """Return the first truthy value of `predicate()`, which may be a coroutine function.

    Raises AssertionError when `limit` has passed, saying what was waited for and the last value.
    Time in which this process was not run does not count. The predicate itself may hang: it is
    cancelled at the limit too.
    """
    started = time.monotonic()
    left = limit.total_seconds()
    pause = FIRST_PAUSE_SECONDS
    last: object = "none yet"
    while True:
        looks = time.monotonic()
        try:
            async with asyncio.timeout(max(left, LAST_LOOK_SECONDS)):
                value = predicate()
                found = await value if inspect.isawaitable(value) else value
        except TimeoutError:
            raise AssertionError(_late(predicate, what, started, last)) from None
        if found:
            return found
        last = found
        left -= time.monotonic() - looks
        if left <= 0:
            raise AssertionError(_late(predicate, what, started, last))
        asleep = _Clocks.now()
        await asyncio.sleep(pause)
        left -= asleep.spent(pause)
        pause = min(pause * 1.5, LONGEST_PAUSE_SECONDS)


async def passed(seconds: float) -> None:
    """Wait until so much time has passed, where that is the point: for so long a fault lasts."""
    until = time.monotonic() + seconds
    await eventually(lambda: time.monotonic() >= until, timedelta(seconds=seconds + 60))


def eventually_sync[T](
    predicate: Callable[[], T],
    limit: timedelta = DEFAULT_LIMIT,
    *,
    what: str | None = None,
) -> T:
    """Return the first truthy value of `predicate()`: `eventually` for tests without a loop."""
    started = time.monotonic()
    left = limit.total_seconds()
    pause = FIRST_PAUSE_SECONDS
    while True:
        looks = time.monotonic()
        value = predicate()
        if value:
            return value
        left -= time.monotonic() - looks
        if left <= 0:
            raise AssertionError(_late(predicate, what, started, value))
        asleep = _Clocks.now()
        time.sleep(pause)
        left -= asleep.spent(pause)
        pause = min(pause * 1.5, LONGEST_PAUSE_SECONDS)


@dataclass(frozen=True, slots=True)
class _Clocks:
    """A moment: on the wall, and in processor time of this process."""

    wall: float
    processor: float

    @classmethod
    def now(cls) -> Self:
        return cls(time.monotonic(), time.process_time())

    def spent(self, pause: float) -> float:
        """Return how long ago it was, without time beyond the pause in which nothing ran here."""
        later = self.now()
        worked = later.processor - self.processor
        return min(later.wall - self.wall, max(pause, worked) + A_STALL_SECONDS)


def _late(predicate: Callable[[], object], what: str | None, started: float, last: object) -> str:
    name = what or getattr(predicate, "__qualname__", repr(predicate))
    waited = time.monotonic() - started
    return f"waited {waited:.1f} s in vain for: {name} (last value: {last!r})"
