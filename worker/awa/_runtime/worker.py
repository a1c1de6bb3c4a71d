"""A worker process, put together: parts, their order at start, and their order at the end.

Stop: claim no more (the claim in flight is waited for) → running handlers go on, for the drain
timeout at most → what has not started goes back, and those left are asked to stop and get a moment
→ outcomes are written → the identity says that it is gone, which hands back whatever is left →
sessions close. Nothing is waited for without a limit. When a handler cannot be stopped the identity
says nothing: its job is handed on once the process is gone, by whoever sees that.
"""

import asyncio
import logging
import time
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from awa._runtime.claimer import Claimer
from awa._runtime.executor import Executor
from awa._runtime.finisher import Finisher
from awa._runtime.heartbeat import DeadlineWatch, Heartbeat
from awa._runtime.identity import Identity
from awa._runtime.listener import Listener
from awa._runtime.maintenance import Maintenance
from awa._runtime.permits import Permits
from awa._runtime.recorder import Recorder
from awa._runtime.service import Service, State
from awa._store.attempts import Claim, Flush, GivenBack, SealedAttempt
from awa._store.database import Database
from awa.errors import AwaError, ValidationError
from awa.metrics import Metric, WorkerMetrics, gauge
from awa.outcome import Cancelled, Completed, Failed, RetryRequested, Snoozed
from awa.registry import Registry
from awa.settings import WorkerSettings

log = logging.getLogger("awa.worker")

STOP_GRACE_SECONDS = 1.0
"""How long handlers that are asked to stop may take over it."""
AFTER_DRAIN_SECONDS = 5.0
"""How long after the drain timeout a stop takes at most, whatever the database does."""
LEAVE_SECONDS = 0.75
"""What of that is kept for telling the database, and as much again for closing sessions."""


class Worker:
    """One process's worker. Made and started inside its event loop."""

    def __init__(
        self,
        database: Database,
        registry: Registry,
        settings: WorkerSettings,
        *,
        name: str,
        version: str,
        state_folder: Path | None = None,
    ) -> None:
        if not len(registry):
            raise ValidationError(
                "no handler is registered; decorate one with @client.task before the start"
            )
        self.settings = settings
        self.metrics = WorkerMetrics()
        self._database = database
        self._version = version
        self.permits = Permits(settings)
        self.executor = Executor(
            registry, self.permits, self._submit, self.metrics, self.permits.capacity
        )
        self.identity = Identity(database, settings, registry.kinds, name, state_folder)
        self.finisher = Finisher(database, settings, self._ended)
        self.listener = Listener(
            database, tuple(queue.name for queue in settings.queues), self._cancelled,
            settings.heartbeat_staleness,
        )  # fmt: skip
        self.claimer = Claimer(
            database, settings, self.identity, self.permits, self.listener, self.metrics,
            kinds=registry.kinds, hand_over=self._hand_over,
            may_claim=lambda: not self.finisher.is_full, declared_dead=self._become_another,
        )  # fmt: skip
        self.heartbeat = Heartbeat(self.identity, self.executor, settings, self._become_another)
        self.maintenance = Maintenance(
            database, settings, self.identity, self.listener, self.metrics,
            may_judge=lambda: self.heartbeat.is_steady,
        )  # fmt: skip
        self._claimed: asyncio.Queue[list[Claim]] = asyncio.Queue()
        self._dispatcher = _Dispatcher(self._claimed, self.executor)
        self._deadlines = DeadlineWatch(self.executor)
        self._becoming = asyncio.Lock()
        self._former: list[Recorder] = []
        self._hurried = asyncio.Event()
        self.draining = False
        self.started_at = 0.0
        self.metrics.gauges = self._gauges

    @property
    def services(self) -> tuple[Service, ...]:
        """Return every background part, in the order of start."""
        return (
            self.finisher, self._dispatcher, self.heartbeat, self._deadlines, self.listener,
            self.claimer, self.maintenance,
        )  # fmt: skip

    async def start(self) -> None:
        """Check the schema, register, and start every part. Raises our errors when it cannot."""
        await self._database.require_schema()
        await self._database.arrive()
        await self.identity.register(self._version)
        self.executor.recorder = self.identity.recorder
        for service in self.services:
            await service.start()
        self.started_at = time.monotonic()
        log.info(
            "worker started",
            extra={
                "worker": self.identity.worker_id,
                "queues": [queue.name for queue in self.settings.queues],
                "places": self.permits.capacity,
            },
        )

    async def stop(self, drain_seconds: float | None = None) -> bool:
        """Drain and stop; see the module. Returns whether every attempt came to its end."""
        self.draining = True
        limit = self.settings.drain_timeout.total_seconds()
        limit = limit if drain_seconds is None else drain_seconds
        ends_at = time.monotonic() + limit
        over_at = ends_at + AFTER_DRAIN_SECONDS
        await self._stop_claiming(ends_at + LEAVE_SECONDS)
        if not await self._drained(ends_at):
            await self._give_back()
        with suppress(TimeoutError):
            async with asyncio.timeout(over_at - 2 * LEAVE_SECONDS - time.monotonic()):
                await self.finisher.drained()
        clean = not self.executor.waiting and not self.finisher.waiting
        led = self.maintenance.leads
        for service in reversed(self.services):
            await service.stop()
        await self._leave(clean=clean, led=led)
        await asyncio.gather(self.claimer.close(), self.finisher.close())
        self.executor.close()
        log.info("worker stopped", extra={"worker": self.identity.worker_id, "clean": clean})
        return clean

    async def _stop_claiming(self, until: float) -> None:
        self.claimer.stopping.set()
        task = self.claimer._task
        if task is not None:
            await asyncio.wait((task,), timeout=max(0.0, until - time.monotonic()))

    def hurry(self) -> None:
        """End the drain of a `stop` now instead of at its limit."""
        self._hurried.set()

    async def _drained(self, ends_at: float) -> bool:
        """Wait for running handlers up to a time, or until somebody is in a hurry."""
        ended = asyncio.ensure_future(self._all_ended())
        hurried = asyncio.ensure_future(self._hurried.wait())
        limit = max(0.0, ends_at - time.monotonic())
        await asyncio.wait((ended, hurried), timeout=limit, return_when="FIRST_COMPLETED")
        for waiting in (ended, hurried):
            waiting.cancel()
        return ended.done()

    async def _all_ended(self) -> None:
        await self._claimed.join()
        await self.executor.finished()

    async def _give_back(self) -> None:
        """Return what has not started, and ask what has to stop."""
        await self.claimer.stop()
        await self._dispatcher.stop()
        while not self._claimed.empty():
            for claim in self._claimed.get_nowait():
                for seq in claim.seqs:
                    self._submit(SealedAttempt(claim, seq, GivenBack()))
            self._claimed.task_done()
        self.executor.stop_all("shutdown")
        with suppress(TimeoutError):
            async with asyncio.timeout(STOP_GRACE_SECONDS):
                await self.executor.finished()

    async def _leave(self, *, clean: bool, led: bool) -> None:
        with suppress(AwaError, TimeoutError):
            async with asyncio.timeout(LEAVE_SECONDS):
                if led:
                    await self.maintenance.resign()
                if clean:
                    # Only when nothing of it can act any more; else the supervisor, or staleness,
                    # says so.
                    await self.identity.leave("stopped")
        if clean:
            for recorder in (self.identity.recorder, *self._former):
                recorder.close()

    async def _become_another(self) -> None:
        """Go on under a new identity after this one was declared dead."""
        dead = self.identity.worker_id
        async with self._becoming:
            if self.identity.worker_id != dead:
                return  # another part had noticed too
            log.error("declared dead, registering again", extra={"worker": self.identity.worker_id})
            self.executor.stop_all("declared dead")
            with suppress(TimeoutError):
                async with asyncio.timeout(STOP_GRACE_SECONDS):
                    await self.executor.finished()
            former = self.identity.recorder
            await self.identity.register(self._version)
            self.executor.recorder = self.identity.recorder
            if any(attempt.recorder is former for attempt in self.executor.waiting.values()):
                self._former.append(former)
            else:
                former.close()

    def _hand_over(self, claims: list[Claim]) -> None:
        self._claimed.put_nowait(claims)

    def _submit(self, sealed: SealedAttempt) -> None:
        self.finisher.submit(sealed)

    def _cancelled(self, job_id: int, claim_id: int) -> None:
        self.executor.stop_attempt(claim_id, job_id, "cancelled")

    def _ended(self, flush: Flush, stale: set[tuple[int, int]]) -> None:
        """Count what a flush did; only accepted attempts count as finished."""
        for group in flush.groups:
            self.identity.let_go(group[0].claim, len(group))
        metrics, counts = self.metrics, self.metrics.outcomes
        if not stale and flush.plain == len(flush.sealed):
            for group in flush.groups:
                self._count_plain(group)
            return
        for attempt in flush.sealed:
            claim = attempt.claim
            queue = claim.head.queue
            if stale and (claim.claim_id, attempt.seq) in stale:
                metrics.stale[queue] += 1
                if attempt.output is not None:
                    metrics.dropped_output(_kind(attempt), queue, "abandoned")
                continue
            kind = _kind(attempt)
            counts[(metrics.label(kind), queue, _WORDS[type(attempt.outcome)])] += 1
            if attempt.output is not None:
                self._count_output(attempt, attempt.output, kind, queue)

    def _count_plain(self, group: list[SealedAttempt]) -> None:
        """Count successes without outputs of one claim; most flushes are nothing else."""
        claim = group[0].claim
        queue, counts, label = claim.head.queue, self.metrics.outcomes, self.metrics.label
        if claim.kind is not None:
            counts[(label(claim.kind), queue, "completed")] += len(group)
            return
        for attempt in group:
            counts[(label(_kind(attempt)), queue, "completed")] += 1

    def _count_output(self, attempt: SealedAttempt, output: str, kind: str, queue: str) -> None:
        if isinstance(attempt.outcome, Snoozed):
            self.metrics.dropped_output(kind, queue, "outcome")
        elif isinstance(attempt.outcome, GivenBack):
            self.metrics.dropped_output(kind, queue, "abandoned")
        elif isinstance(attempt.outcome, Completed) and not self.finisher.stores_outputs:
            self.metrics.dropped_output(kind, queue, "schema_missing")
        else:
            word = "completed" if isinstance(attempt.outcome, Completed) else "failed"
            self.metrics.recorded_output(kind, queue, word, len(output.encode()))

    def _stuck(self) -> dict[tuple[str, ...], float]:
        label = self.metrics.label
        found: dict[tuple[str, ...], float] = {(label(kind),): 0.0 for kind in self.executor.kinds}
        for attempt in list(self.executor.waiting.values()):
            if attempt.stop_reason is not None:
                found[(label(attempt.handler.kind),)] += 1
        return found

    def _gauges(self) -> Iterable[Metric]:
        queues = self.permits.queues
        yield gauge(
            "awa_job_in_flight", {(name,): float(queue.in_use) for name, queue in queues.items()}
        )
        yield gauge("awa_job_stuck", self._stuck())
        yield gauge("awa_worker_places", {(): float(self.permits.capacity)})
        yield gauge("awa_finisher_waiting", {(): float(self.finisher.waiting)})
        yield gauge(
            "awa_service_up", {(s.name,): float(s.state is State.running) for s in self.services}
        )
        yield gauge("awa_maintenance_leader", {(): float(self.maintenance.leads)})
        maintenance = self.maintenance
        yield gauge("awa_job_unknown_kind", maintenance.unknown_kinds)
        yield gauge("awa_database_oldest_transaction_seconds", maintenance.oldest_transactions)
        if maintenance.horizon_seconds is not None:
            yield gauge("awa_history_seconds", {(): maintenance.horizon_seconds})


_WORDS = {
    Completed: "completed",
    Failed: "failed",
    RetryRequested: "retry_after",
    Snoozed: "snoozed",
    Cancelled: "cancelled",
    GivenBack: "given_back",
}


def _kind(attempt: SealedAttempt) -> str:
    return attempt.claim.kind_at(attempt.seq)


class _Dispatcher(Service):
    """Hands claimed bodies to the executor, one claim call at a time."""

    name = "dispatcher"

    def __init__(self, claimed: "asyncio.Queue[list[Claim]]", executor: Executor) -> None:
        super().__init__()
        self._claimed = claimed
        self._executor = executor

    async def run(self) -> None:
        while True:
            claims = await self._claimed.get()
            try:
                await self._executor.run(claims)
            finally:
                self._claimed.task_done()
            self.progressed()
