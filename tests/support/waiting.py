"""Wait for a condition with a limit; the only polling in the tests."""

import asyncio
import inspect
import time
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import overload

DEFAULT_LIMIT = timedelta(seconds=10)
FIRST_PAUSE_SECONDS = 0.005
LONGEST_PAUSE_SECONDS = 0.1


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
    The predicate itself may hang: it is cancelled at the limit too.
    """
    started = time.monotonic()
    pause = FIRST_PAUSE_SECONDS
    last: object = "none yet"
    try:
        async with asyncio.timeout(limit.total_seconds()):
            while True:
                value = predicate()
                settled = await value if inspect.isawaitable(value) else value
                if settled:
                    return settled
                last = settled
                await asyncio.sleep(pause)
                pause = min(pause * 1.5, LONGEST_PAUSE_SECONDS)
    except TimeoutError:
        raise AssertionError(_late(predicate, what, started, last)) from None


def eventually_sync[T](
    predicate: Callable[[], T],
    limit: timedelta = DEFAULT_LIMIT,
    *,
    what: str | None = None,
) -> T:
    """Return the first truthy value of `predicate()`: `eventually` for tests without a loop."""
    started = time.monotonic()
    pause = FIRST_PAUSE_SECONDS
    while not (value := predicate()):
        if time.monotonic() - started > limit.total_seconds():
            raise AssertionError(_late(predicate, what, started, value))
        time.sleep(pause)
        pause = min(pause * 1.5, LONGEST_PAUSE_SECONDS)
    return value


def _late(predicate: Callable[[], object], what: str | None, started: float, last: object) -> str:
    name = what or getattr(predicate, "__qualname__", repr(predicate))
    waited = time.monotonic() - started
    return f"waited {waited:.1f} s in vain for: {name} (last value: {last!r})"
