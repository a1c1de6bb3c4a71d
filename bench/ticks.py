"""Waiting with a limit for things that another process does."""

import asyncio
import time
from collections.abc import Awaitable, Callable


class OutOfTimeError(Exception):
    """Something did not happen within its limit."""

    def __init__(self, what: str, limit_seconds: float) -> None:
        super().__init__(f"{what}: not within {limit_seconds:g} s")


async def until[T](
    probe: Callable[[], Awaitable[T | None]],
    *,
    what: str,
    limit_seconds: float,
    every_seconds: float = 0.01,
) -> T:
    """Ask `probe` again and again until it answers something else than None.

    Raises OutOfTimeError, naming `what`, when it still answers None after the limit.
    """
    deadline = time.monotonic() + limit_seconds
    while True:
        answer = await probe()
        if answer is not None:
            return answer
        if time.monotonic() > deadline:
            raise OutOfTimeError(what, limit_seconds)
        await asyncio.sleep(every_seconds)
