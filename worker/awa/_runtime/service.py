"""One contract for everything that runs in the background.

`start` returns when the loop runs and `stop` when it has ended; both may be called twice and in any
order. A loop that fails is logged once, counted, and started again after a growing pause; the
others go on. What a loop is doing is in `state`, for readiness and metrics.
"""

import asyncio
import logging
from contextlib import suppress
from enum import StrEnum

from awa._store.database import backoff_seconds

log = logging.getLogger("awa.service")


class State(StrEnum):
    """What a service is doing."""

    stopped = "stopped"
    running = "running"
    failing = "failing"
    stalled = "stalled"
    """It neither got anywhere nor failed for much longer than it ever waits."""


class Service:
    """A supervised loop. Subclasses give `name` and `run`, which returns only at a stop."""

    name = "service"
    longest_pause: float | None = None
    """Seconds between two signs of progress when all is well; None for one that waits for work."""

    def __init__(self) -> None:
        self.failures = 0
        self.restarts = 0
        self.state = State.stopped
        self.progressed_at = 0.0
        self.moved_at = 0.0
        """When the loop last progressed or failed; neither for long means that it hangs."""
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Start the loop unless it runs."""
        if self._task is None:
            self.state = State.running
            self.progressed_at = self.moved_at = asyncio.get_running_loop().time()
            self._task = asyncio.create_task(self._supervise(), name=f"awa {self.name}")

    async def stop(self) -> None:
        """Cancel the loop and wait for its end."""
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task
        self.state = State.stopped

    async def run(self) -> None:
        """Do the work; returning ends the service."""
        raise NotImplementedError

    def progressed(self) -> None:
        """Note that the loop has got somewhere; liveness looks at how long ago that was."""
        self.progressed_at = self.moved_at = asyncio.get_running_loop().time()
        if self.failures or self.state is not State.running:
            self.failures = 0
            self.state = State.running

    async def _supervise(self) -> None:
        while True:
            try:
                await self.run()
            except Exception as error:  # a service must outlive what it meets; it is counted
                self.failures += 1
                self.restarts += 1
                self.state = State.failing
                self.moved_at = asyncio.get_running_loop().time()
                log.log(
                    logging.ERROR if self.failures == 1 else logging.DEBUG,
                    "service failed, starting again",
                    extra={"service": self.name, "error": type(error).__name__},
                    exc_info=error,
                )
                await asyncio.sleep(backoff_seconds(self.failures))
            else:
                return
