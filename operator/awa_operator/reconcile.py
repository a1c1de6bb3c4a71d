"""The story of one Queue: look, plan, act, report; from the start again when something changes."""

import asyncio
import logging
import secrets
import time
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, AbstractContextManager, nullcontext
from datetime import datetime, timedelta
from weakref import WeakValueDictionary

from awa.manifest import Queue, QueueStatus
from awa.scaling.signals import Signals
from awa_operator import logs
from awa_operator.actions import CreateJob, Plan
from awa_operator.apply import Executor, Pass
from awa_operator.cache import Cache, QueueEntry
from awa_operator.conditions import Reason
from awa_operator.databases import QueueKey
from awa_operator.errors import ApiGone, NotLeading
from awa_operator.events import Herald
from awa_operator.metrics import Metrics
from awa_operator.observe import FORGOTTEN, Observer, QueueMemory
from awa_operator.observed import Observed
from awa_operator.plan import plan_queue
from awa_operator.plan.events import ROLLOUT_COMPLETED
from awa_operator.plan.status import invalid_status
from awa_operator.report import Reporter, only_counts_differ

log = logging.getLogger(__name__)

ROUNDS = 4
"""Plans of one pass: what an action finds out leads to another plan at once."""
SOON = timedelta(milliseconds=50)
COUNTS_TOGETHER = timedelta(seconds=5)
"""How long after a write of a status counts that change alone are held back."""


class Reconciler:
    """Brings one Queue after the other closer to its spec. Call it with the key of a Queue."""

    def __init__(
        self,
        cache: Cache,
        observer: Observer,
        executor: Executor,
        reporter: Reporter,
        herald: Herald,
        metrics: Metrics,
        *,
        resync: timedelta,
        today: Callable[[], datetime],
    ) -> None:
        self._cache = cache
        self._observer = observer
        self._executor = executor
        self._reporter = reporter
        self._herald = herald
        self._metrics = metrics
        self._resync = resync
        self._today = today
        self._turns = WeakValueDictionary[str, asyncio.Lock]()

    async def __call__(self, key: QueueKey) -> timedelta | None:
        """Reconcile a Queue; return when to come back. Raises what should be tried again."""
        namespace, name = key
        with logs.about(namespace=namespace, queue=name, reconcile=secrets.token_hex(4)):
            try:
                return await self._reconcile(key)
            except ApiGone:
                if self._cache.queue(key) is None:
                    return None
                raise

    def forget(self, key: QueueKey) -> None:
        """Remember nothing of a Queue that is gone, and show nothing of it."""
        self._observer.forget(key)
        self._metrics.queues.forget(*key)
        self._metrics.refused(key, ())

    async def _reconcile(self, key: QueueKey) -> timedelta | None:
        memory = self._observer.memory(key)
        for _ in range(ROUNDS):
            entry = self._cache.queue(key)
            if not self._observer.remembers(key, memory):
                raise NotLeading(FORGOTTEN)
            if entry is None or entry.is_deleting:
                # What it owns goes with it, without us.
                self.forget(key)
                return None
            if entry.queue is None:
                await self._refuse(entry)
                return None
            async with self._turn(entry.identity):
                plan = await self._pass(entry, entry.queue)
            if plan is not None:
                return self._comes_back(entry, plan)
        return SOON

    def _turn(self, identity: str | None) -> AbstractAsyncContextManager[object]:
        """Let the plans of a database that somebody migrates exclusively follow each other.

        Else a worker could be started between the look that finds none and the Job.
        """
        if identity is None or not self._cache.migrates_exclusively(identity):
            return nullcontext()
        return self._turns.setdefault(identity, asyncio.Lock())

    async def _pass(self, entry: QueueEntry, queue: Queue) -> Plan | None:
        """Look, plan, act and report once; None when another look is needed at once."""
        memory, now = self._observer.memory(entry.key), self._today()
        with self._timed("observe"):
            observed = await self._observer.observe(entry, queue, now)
        with self._timed("plan"):
            plan = plan_queue(observed, now)
        memory.history = plan.history
        memory.satellite_refusals = {one.kind: one for one in plan.refusals}
        with self._timed("act"):
            holds = await self._executor.run(plan.actions, Pass(entry.key, observed, memory, now))
        if not holds:
            return None
        if self._observer.remembers(entry.key, memory):
            self._note(entry, observed, plan, memory)
        with self._timed("report"):
            await self._report(entry, plan.status, memory)
            if plan.events:
                # The one that says what was written, whose version names the events.
                await self._herald.emit(self._cache.queue(entry.key) or entry, plan.events)
        return plan

    async def _report(self, entry: QueueEntry, status: QueueStatus, memory: QueueMemory) -> None:
        """Write the status; counts that differ alone wait, so that a rollout's go together."""
        left = memory.reported_at + COUNTS_TOGETHER.total_seconds() - time.monotonic()
        if left > 0 and only_counts_differ(entry.status, status):
            memory.counts_due = timedelta(seconds=left)
            return
        memory.counts_due = None
        if await self._reporter.report(entry, status):
            memory.reported_at = time.monotonic()

    def _timed(self, stage: str) -> AbstractContextManager[object]:
        return self._metrics.reconcile_stage.labels(stage).time()

    async def _refuse(self, entry: QueueEntry) -> None:
        """Report a spec that cannot be read; only another spec leads further."""
        status = invalid_status(entry.status, entry.generation, entry.problems, self._today())
        self._metrics.queues.of(*entry.key).take_status(status)
        await self._reporter.report(entry, status)

    def _comes_back(self, entry: QueueEntry, plan: Plan) -> timedelta:
        waits = [
            self._observer.resync_wait(entry.key, self._resync),
            plan.requeue_after,
            self._observer.secret_retry(entry),
            self._observer.memory(entry.key).counts_due,
        ]
        return min(wait for wait in waits if wait is not None)

    def _note(self, entry: QueueEntry, observed: Observed, plan: Plan, memory: QueueMemory) -> None:
        """Tell the metrics what was found and decided."""
        figures = self._metrics.queues.of(*entry.key)
        figures.take_spec(observed.queue)
        figures.take_status(plan.status)
        self._metrics.refused(entry.key, memory.satellite_refusals)
        self._note_rollout(plan, memory)
        view = observed.signals
        if view is not None and isinstance(view.signals, Signals):
            found = view.signals
            due = found.due_soon + found.orphaned + found.expired_callbacks + found.due_cron
            figures.take_jobs(ready=found.ready, running=found.running, due=due, lag=found.lag)
        if entry.identity is None or observed.database is None:
            # The series of a database are those of the looks at it.
            return
        for action in plan.actions:
            if isinstance(action, CreateJob):
                self._metrics.migration_attempts.labels(entry.identity).inc()
        self._note_database(entry.identity, observed, plan)

    def _note_rollout(self, plan: Plan, memory: QueueMemory) -> None:
        if any(one.reason == Reason.ROLLING_OUT for one in plan.status.conditions):
            memory.rolling_since = memory.rolling_since or self._today()
            return
        if memory.rolling_since is not None and any(
            one.reason == ROLLOUT_COMPLETED for one in plan.events
        ):
            took = (self._today() - memory.rolling_since).total_seconds()
            self._metrics.rollout_duration.observe(max(took, 0.0))
        memory.rolling_since = None

    def _note_database(self, identity: str, observed: Observed, plan: Plan) -> None:
        view = observed.database
        if view is not None and view.schema_version is not None:
            self._metrics.schema_version.labels(identity).set(view.schema_version)
        before, after = observed.status.migration, plan.status.migration
        if after is None or after.completion_time is None:
            return
        ended = after.completion_time
        self._metrics.migration_last_success.labels(identity).set(ended.timestamp())
        if before is None or before.completion_time != ended:
            started = [job.created_at for job in observed.jobs if job.name == after.job_name]
            for moment in started:
                took = (ended - moment).total_seconds()
                self._metrics.migration_duration.labels(identity).observe(max(took, 0.0))
