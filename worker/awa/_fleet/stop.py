"""Stopping in two steps. The first request drains: running jobs go on. The second ends them."""

import asyncio
from collections.abc import Coroutine
from typing import Any


class Stopped(Exception):
    """What was going on was given up because somebody asked to stop."""


class Stop:
    """The requests to stop so far. Made inside the event loop."""

    def __init__(self) -> None:
        self.drain = asyncio.Event()
        self.at_once = asyncio.Event()

    def ask(self) -> None:
        """Ask to stop; a second time, at once. For signal handlers."""
        if self.drain.is_set():
            self.at_once.set()
        self.drain.set()

    async def unless_asked[T](self, work: Coroutine[Any, Any, T]) -> T:
        """Return what `work` returns; when a stop is asked for it is cancelled and cleaned up.

        Raises Stopped then, also when the work came to its end in the same moment. The work is
        cancelled once and its clean-up is waited for, also when the caller is cancelled meanwhile.
        """
        task = asyncio.ensure_future(work)
        asked = asyncio.ensure_future(self.drain.wait())
        try:
            await asyncio.wait((task, asked), return_when=asyncio.FIRST_COMPLETED)
            if not asked.done():
                return task.result()
            raise Stopped
        finally:
            asked.cancel()
            task.cancel()
            await _end_of(task)


async def _end_of(task: asyncio.Task[Any]) -> None:
    """Return when a task has ended, whatever comes; a cancellation of ours follows then."""
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.wait((task,))
        except asyncio.CancelledError as error:
            cancelled = error
    if not task.cancelled():
        task.exception()  # an error on the way down changes nothing
    if cancelled is not None:
        raise cancelled
