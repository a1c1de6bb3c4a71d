"""Writing how attempts ended.

Parties: the executor submits sealed attempts; one loop takes them in order, at most a batch at a
time, and sends each batch as one call. What survives what: a batch whose answer was lost is sent
again unchanged until the database answers; what the first sending wrote comes back as stale and is
told apart from a rescue by the closure that only this worker can have written. A batch that the
database refuses is halved until the refused attempt is alone, which then ends as a failure that
says so. Invariant: a sealed attempt leaves the buffer only as accepted, stale or abandoned.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from typing import Any

from awa._runtime.service import Service
from awa._store import jobs
from awa._store.attempts import Claim, Flush, SealedAttempt
from awa._store.database import Database, backoff_seconds
from awa._store.faults import translated
from awa._store.line import Line
from awa.errors import AwaError, DatabaseUnreachable, PermissionMissing, SchemaNotMigrated
from awa.outcome import Failed
from awa.settings import WorkerSettings

log = logging.getLogger("awa.finisher")

type Ended = Callable[[Flush, set[tuple[int, int]]], None]
"""Called after each written batch, with the (claim id, place) pairs that were stale."""

RECHECK_OUTPUTS_SECONDS = 30.0


class Finisher(Service):
    """The one writer of outcomes in a process."""

    name = "finisher"

    def __init__(self, database: Database, settings: WorkerSettings, ended: Ended) -> None:
        super().__init__()
        self._database = database
        self._settings = settings
        self.ended = ended
        self._buffer: deque[SealedAttempt] = deque()
        self._filled = asyncio.Event()
        self._written = asyncio.Event()
        self._line = Line(database, "finish", settings.answer_timeout)
        self._current: list[SealedAttempt] = []
        self._sent_before = False
        self._closing = False
        self._outputs_stored: bool | None = None
        self._outputs_checked_at = 0.0
        self.flushes = 0
        self.resent = 0

    @property
    def waiting(self) -> int:
        """Return how many sealed attempts are not written yet."""
        return len(self._buffer) + len(self._current)

    @property
    def stores_outputs(self) -> bool:
        """Whether the schema has room for outputs, as far as is known."""
        return self._outputs_stored is not False

    @property
    def is_full(self) -> bool:
        """Whether claiming has to stop until something is written."""
        return self.waiting >= self._settings.finish_buffer_size

    def submit(self, sealed: SealedAttempt) -> None:
        """Take over an attempt; returns at once."""
        self._buffer.append(sealed)
        if not self._filled.is_set():
            self._filled.set()

    async def drained(self) -> None:
        """Wait until everything that was submitted is written. Written at once, not batched."""
        self._closing = True
        self._filled.set()
        while self.waiting:
            self._written.clear()
            await self._written.wait()

    async def run(self) -> None:
        """Write batches for ever. What was being sent when the loop failed is sent again."""
        pause = self._settings.finish_flush_interval.total_seconds()
        while True:
            if not self._current:
                await self._filled.wait()
            if pause and len(self._buffer) < self._settings.finish_batch_size and not self._closing:
                await asyncio.sleep(pause)
            self._filled.clear()
            while self._current or self._buffer:
                if not self._current:
                    self._current = self._take()
                    self._sent_before = False
                await self._send(Flush(self._current))
                self._current = []
                self.progressed()
            self._written.set()

    async def close(self) -> None:
        """Close the session."""
        await self._line.close()

    def _take(self) -> list[SealedAttempt]:
        """Take the next attempts of one worker identity, and of each claim number only one claim.

        After a lost time a number is drawn again, and the two must not share a token.
        """
        buffer = self._buffer
        taken: list[SealedAttempt] = []
        claims: dict[int, Claim] = {}
        last, worker = None, buffer[0].claim.worker_id
        while buffer and len(taken) < self._settings.finish_batch_size:
            claim = buffer[0].claim
            if claim is not last:
                last = claim
                if claim.worker_id != worker:
                    break
                if claims.setdefault(claim.claim_id, claim).token != claim.token:
                    break
            taken.append(buffer.popleft())
        return taken

    async def _send(self, flush: Flush) -> None:
        """Send a flush until the database has an answer to it."""
        while True:
            try:
                stale = await self._write(flush)
            except AwaError as error:
                if not (isinstance(error, DatabaseUnreachable) or _is_transient(error)):
                    await self._refused(flush, error)
                    return
                await self._lost(error)
            else:
                self.flushes += 1
                self.ended(flush, stale)
                return

    async def _write(self, flush: Flush) -> set[tuple[int, int]]:
        sql = self._database.sql
        with translated():
            async with self._line.step() as session:
                store_outputs = not flush.has_outputs or await self._stores_outputs(session)
                stale = await jobs.finish(session, sql, flush, store_outputs=store_outputs)
                if stale and self._sent_before:
                    stale -= await jobs.already_written(session, sql, flush, stale)
            return stale

    async def _refused(self, flush: Flush, error: AwaError) -> None:
        """Halve what the database refuses until the attempt at fault is alone."""
        sealed = flush.sealed
        log.error("finish refused", extra={"attempts": len(sealed), "error": type(error).__name__})
        if len(sealed) > 1:
            middle = len(sealed) // 2
            for part in (sealed[:middle], sealed[middle:]):
                await self._send(Flush(part))
            return
        only = sealed[0]
        text = f"the outcome could not be written: {type(error).__name__}"
        if only.outcome == Failed(text):
            self.ended(flush, {(only.claim.claim_id, only.seq)})
            return
        await self._send(Flush([SealedAttempt(only.claim, only.seq, Failed(text))]))

    async def _lost(self, error: AwaError) -> None:
        self._sent_before = True
        self.resent += 1
        self.failures += 1
        if self.failures == 1:
            log.warning("finish failed, sending again", extra={"error": type(error).__name__})
        if isinstance(error, DatabaseUnreachable):
            self._line.terminate()
        await asyncio.sleep(backoff_seconds(self.failures))

    async def _stores_outputs(self, session: Any) -> bool:
        """Whether the schema has room for outputs; a no is asked again after half a minute."""
        now = asyncio.get_running_loop().time()
        if self._outputs_stored is None or (
            not self._outputs_stored and now - self._outputs_checked_at > RECHECK_OUTPUTS_SECONDS
        ):
            with translated():
                stored = await session.fetchval(self._database.sql["stores_outputs"])
            self._outputs_stored = bool(stored)
            self._outputs_checked_at = now
        return self._outputs_stored


def _is_transient(error: AwaError) -> bool:
    """Whether the same statement may succeed when it is sent again: 40001, 40P01, 55P03.

    Or when a right or a function is back that was taken away: that says nothing about an attempt.
    """
    return isinstance(error, PermissionMissing | SchemaNotMigrated) or getattr(
        error, "sqlstate", None
    ) in {"40001", "40P01", "55P03"}
