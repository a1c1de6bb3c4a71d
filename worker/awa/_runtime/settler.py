"""Handing on what dead processes held, exactly and without forgetting any.

A recording that nobody locks is that of a process that is gone: killed below this supervisor or
below an earlier one. It is settled in one call (attempts that had started count as crashed, all
others go back at once) and only then removed, so it is tried again until the database answers, by
this supervisor or the next. Settling twice changes nothing.
"""

import asyncio
import contextlib
import logging
import time
from pathlib import Path

from awa._runtime.recorder import Recording, abandoned, recording_files
from awa._runtime.service import Service
from awa._store.database import Database, backoff_seconds
from awa.errors import AwaError
from awa.metrics import SupervisorMetrics

log = logging.getLogger("awa.settler")

LOOK_SECONDS = 2.0
SAY_SECONDS = 60.0
REMEMBERED_REASONS = 64


class Settler(Service):
    """Settles recordings as long as it runs; looks at once when it is told of a death."""

    name = "settler"

    def __init__(self, database: Database, folder: Path, metrics: SupervisorMetrics) -> None:
        super().__init__()
        self._database = database
        self._folder = folder
        self._metrics = metrics
        self._reasons: dict[int, str] = {}
        self._foreign: set[Path] = set()
        self._death = asyncio.Event()
        self._turn = asyncio.Lock()
        self._unreadable: set[Path] = set()
        self._said_at: float | None = None
        self._failures = 0

    def note_death(self, process_id: int, reason: str) -> None:
        """Look now; what the process held ends with this reason."""
        self._reasons[process_id] = reason
        if len(self._reasons) > REMEMBERED_REASONS:
            del self._reasons[next(iter(self._reasons))]
        self._death.set()

    async def run(self) -> None:
        """Look for recordings to settle, for ever."""
        while True:
            self._death.clear()
            self.progressed()
            pause = LOOK_SECONDS
            if not await self.settle_all():
                pause = backoff_seconds(self._failures)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(pause):
                    await self._death.wait()

    async def settle_all(self) -> bool:
        """Settle every recording of a dead process; False when some could not be."""
        async with self._turn:
            files = set(recording_files(self._folder))
            self._foreign &= files
            left = sorted(path for path in files - self._foreign if self._is_dead(path))
            self._metrics.unsettled = len(left)
            if not left:
                return True
            try:
                engine = await self._database.engine()
                for path in left:
                    if path.parent.name == engine:
                        await self._settle(path)
                    else:
                        self._foreign.add(path)
                    self._metrics.unsettled -= 1
            except (AwaError, OSError) as error:
                self._failed(error, len(left))
                return False
            finally:
                await self._database.close()
            self._failures, self._said_at = 0, None
            return True

    async def _settle(self, path: Path) -> None:
        with abandoned(path) as recording:
            if recording is None:
                return
            reason = self._reasons.get(recording.process_id, "found when its successor started")
            ended = await self._end(recording, reason)
            path.unlink(missing_ok=True)  # noqa: ASYNC240 - takes microseconds
        log.warning(
            "dead worker settled",
            extra={
                "worker": recording.worker_id,
                "reason": reason,
                "jobs": ended,
                "started": len(recording.started),
            },
        )

    async def _end(self, recording: Recording, reason: str) -> int:
        ended: int = await self._database.value(
            "settle",
            recording.worker_id,
            reason,
            [claim_id for claim_id, _ in recording.started],
            [seq for _, seq in recording.started],
        )
        return ended

    def _is_dead(self, path: Path) -> bool:
        try:
            with abandoned(path) as recording:
                return recording is not None
        except (OSError, ValueError) as error:
            if path not in self._unreadable:
                self._unreadable.add(path)
                log.error(
                    "a recording cannot be read; staleness hands its jobs on",
                    extra={"file": path.name, "error": type(error).__name__},
                )
            return False

    def _failed(self, error: Exception, waiting: int) -> None:
        self._failures += 1
        now = time.monotonic()
        if self._said_at is None or now - self._said_at > SAY_SECONDS:
            self._said_at = now
            log.error(
                "dead workers cannot be settled yet, trying again",
                extra={"workers": waiting, "error": type(error).__name__},
            )
