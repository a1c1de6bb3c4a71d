"""What is known about one Queue, put together for its plan.

Objects come out of the cache, Secrets are fetched, databases say what they said last. Nothing here
waits for a database.
"""

import contextvars
import math
import random
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from awa.manifest import Queue
from awa.manifest.queue import SecretKey
from awa.scaling.history import History
from awa_operator import labels, names
from awa_operator.cache import Cache, Object, QueueEntry, uid_of
from awa_operator.databases import Databases, LiveWorker, QueueKey, Served
from awa_operator.dsn import Dsn
from awa_operator.errors import ApiGone, NotLeading
from awa_operator.kube import Kube
from awa_operator.observed import (
    DatabaseProblem,
    DatabaseView,
    DeploymentView,
    JobRefusal,
    LostWorker,
    Observed,
    SatelliteRefusal,
    SatelliteView,
    Secrets,
    SecretView,
    SiblingView,
    TemplateCheck,
)
from awa_operator.resources import BUDGETS, DEPLOYMENTS, NETWORK_POLICIES, POD_MONITORS, PODS
from awa_operator.secret_reader import SecretReader
from awa_operator.views import deployment_view, is_pod_over, job_view, satellite_view

NEWCOMER = timedelta(seconds=10)
"""A worker that started less long ago may be known before its pod is."""

FORGOTTEN = "leading ended meanwhile"

DOUBT = timedelta(seconds=10)
"""How often a Secret is fetched again while its database or workers cannot be relied on."""


@dataclass(slots=True)
class QueueMemory:
    """What is remembered of a Queue from one reconcile to the next; a restart loses it."""

    history: History | None = None
    template_check: TemplateCheck | None = None
    job_refusal: JobRefusal | None = None
    satellite_refusals: dict[str, SatelliteRefusal] = field(default_factory=dict)
    applied_generation: int | None = None
    rolling_since: datetime | None = None
    resync_at: float = 0.0
    reported_at: float = -math.inf
    """When the status was written last, of the monotonic clock."""
    counts_due: timedelta | None = None
    """After what time counts are to be written that were held back."""
    lost_pods: dict[str, str] = field(default_factory=dict)
    """uid of each pod that was asked for and is gone, and why."""


class Observer:
    """Puts together what is known."""

    def __init__(
        self,
        cache: Cache,
        kube: Kube,
        secrets: SecretReader,
        databases: Databases,
        *,
        concurrent_rollouts: int,
        led_before: Callable[[], datetime | None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._cache = cache
        self._kube = kube
        self._secrets = secrets
        self._databases = databases
        self._concurrent_rollouts = concurrent_rollouts
        self._led_before = led_before
        self._clock = clock
        self._memories: dict[QueueKey, QueueMemory] = {}

    def memory(self, key: QueueKey) -> QueueMemory:
        """Return what is remembered of a Queue, to be changed."""
        return self._memories.setdefault(key, QueueMemory())

    def remembers(self, key: QueueKey, memory: QueueMemory) -> bool:
        """Tell whether this is what is remembered of a Queue: not after it was forgotten."""
        return self._memories.get(key) is memory

    def forget(self, key: QueueKey) -> None:
        """Remember nothing of a Queue that is gone, and leave its database alone."""
        self._memories.pop(key, None)
        self._databases.serve(key, None)

    def forget_all(self) -> None:
        """Remember nothing and leave every database alone: another replica acts now."""
        for key in list(self._memories):
            self.forget(key)

    async def observe(self, entry: QueueEntry, queue: Queue, now: datetime) -> Observed:
        """Return what is known.

        Raises an `ApiError` when a Secret cannot be asked for, `NotLeading` when all was forgotten.
        """
        memory = self.memory(entry.key)
        deployment = self._deployment(entry, memory)
        secrets, dsn = await self._read_secrets(entry.key, queue, deployment, now)
        if not self.remembers(entry.key, memory):
            raise NotLeading(FORGOTTEN)
        self._serve(entry, queue, dsn, deployment)
        view = self._databases.view(entry.key)
        return Observed(
            queue=queue,
            secrets=secrets,
            database=view,
            jobs=tuple(
                job_view(job, entry.identity or "", self._pods_of(job))
                for job in self._cache.jobs(entry.key[0], entry.identity or "")
            ),
            deployment=deployment,
            worker_pods=self._cache.count_pods_of_queue(entry.key),
            siblings=self._siblings(entry),
            signals=self._databases.signals(entry.key),
            history=memory.history or _remembered(entry, self._led_before()),
            foreign_scaler=self._cache.scaler_of_queue(entry.key),
            satellites=self._satellites(entry),
            template_check=memory.template_check,
            job_refusal=memory.job_refusal,
            satellite_refusals=tuple(memory.satellite_refusals.values()),
            lost_workers=await self._lost_workers(entry, memory, now),
            is_budget_for_rollouts_left=self._is_budget_left(memory),
        )

    def secret_retry(self, entry: QueueEntry) -> timedelta | None:
        """Return when a Secret that is missing is to be looked for again."""
        if entry.queue is None:
            return None
        database = entry.queue.spec.database
        refs = (database.connection_secret_ref, database.migration_secret, database.monitor_secret)
        waits = [self._secrets.retry_after(entry.key[0], ref.name) for ref in refs]
        return min((wait for wait in waits if wait is not None), default=None)

    def resync_wait(self, key: QueueKey, every: timedelta) -> timedelta:
        """Return when a Queue is looked at next without a reason, each at another moment."""
        memory, now = self.memory(key), self._clock()
        if memory.resync_at <= now:
            memory.resync_at = now + every.total_seconds() * random.uniform(0.8, 1.2)  # noqa: S311
        return timedelta(seconds=memory.resync_at - now)

    # --- parts -----------------------------------------------------------------------------

    async def _read_secrets(
        self, key: QueueKey, queue: Queue, deployment: DeploymentView | None, now: datetime
    ) -> tuple[Secrets, Dsn | None]:
        """Return what the three references lead to, and what the operator connects with."""
        database = queue.spec.database
        not_before = self._doubted_since(self._databases.view(key), deployment, now)
        known: dict[SecretKey, tuple[SecretView, Dsn | None]] = {}
        refs = (database.connection_secret_ref, database.migration_secret, database.monitor_secret)
        for ref in refs:
            if ref not in known:
                known[ref] = await self._secrets.view(key[0], ref, not_before=not_before)
        connection, migration, monitor = (known[ref] for ref in refs)
        return Secrets(
            connection=connection[0], migration=migration[0], monitor=monitor[0]
        ), monitor[1]

    def _doubted_since(
        self, view: DatabaseView | None, deployment: DeploymentView | None, now: datetime
    ) -> float | None:
        """Return since when an address or password may not be right any more, by our clock.

        Workers that are not ready may have one that is refused, though our session goes on.
        """
        if view is None or view.problem is None:
            lacks = deployment is not None and deployment.ready < deployment.replicas
            return self._clock() - DOUBT.total_seconds() if lacks else None
        failed_at = self._clock() - (now - view.at).total_seconds()
        if view.problem is DatabaseProblem.AUTHENTICATION_FAILED:
            return failed_at
        return min(failed_at, self._clock() - DOUBT.total_seconds())

    def _serve(
        self, entry: QueueEntry, queue: Queue, dsn: Dsn | None, deployment: DeploymentView | None
    ) -> None:
        """Say what this Queue wants of its database; nothing while there is no way to it."""
        if dsn is None or entry.identity is None:
            self._databases.serve(entry.key, None)
            return
        scaling, monitor = queue.spec.scaling, queue.spec.database.monitor_secret
        replicas = deployment.replicas if deployment is not None else 0
        # What is logged of a database that several Queues share is about none of them.
        contextvars.Context().run(
            self._databases.serve,
            entry.key,
            Served(
                identity=entry.identity,
                schema=queue.spec.database.schema_name,
                monitor=f"{monitor.name}/{monitor.key}",
                dsn=dsn,
                queue_name=queue.queue_name,
                poll_interval=timedelta(seconds=scaling.poll_interval_seconds),
                wants_signals=True,
                is_waiting=replicas == 0 and scaling.mode == "Native" and not queue.spec.suspend,
                owner=entry.uid,
            ),
        )

    def _deployment(self, entry: QueueEntry, memory: QueueMemory) -> DeploymentView | None:
        body = self._cache.find(DEPLOYMENTS, entry.key[0], names.worker_name(entry.key[1]))
        if body is None:
            return None
        pods = self._cache.pods_of_queue(entry.key)
        return deployment_view(body, entry.uid, pods, memory.applied_generation)

    def _pods_of(self, job: Object) -> list[Object]:
        meta = job["metadata"]
        return self._cache.pods_of_job(str(meta.get("namespace", "")), str(meta["name"]))

    def _siblings(self, entry: QueueEntry) -> tuple[SiblingView, ...]:
        return tuple(
            SiblingView(
                queue=other.queue,
                worker_pods=self._cache.count_pods_of_queue(other.key),
                replicas=self._cache.replicas_of_queue(other.key),
            )
            for other in self._cache.group(entry.identity or "")
            if other.key != entry.key and other.queue is not None
        )

    def _satellites(self, entry: QueueEntry) -> tuple[SatelliteView, ...]:
        namespace, name = entry.key[0], names.worker_name(entry.key[1])
        found = []
        for resource in (BUDGETS, NETWORK_POLICIES, POD_MONITORS):
            body = self._cache.find(resource, namespace, name)
            if body is not None:
                found.append(satellite_view(body, resource.kind, entry.uid))
        return tuple(found)

    def _is_budget_left(self, memory: QueueMemory) -> bool:
        if memory.rolling_since is not None or self._concurrent_rollouts <= 0:
            return True
        rolling = sum(one.rolling_since is not None for one in self._memories.values())
        return rolling < self._concurrent_rollouts

    async def _lost_workers(
        self, entry: QueueEntry, memory: QueueMemory, now: datetime
    ) -> tuple[LostWorker, ...]:
        """Return the workers whose pods are gone for good.

        What the cache does not know is asked for, so that a deaf watch declares nobody dead.
        """
        workers = self._databases.live_workers(entry.key)
        if not workers:
            memory.lost_pods.clear()
            return ()
        pods = {uid_of(pod): pod for pod in self._cache.pods_of_queue(entry.key)}
        lost = []
        for worker in workers:
            reason = await self._why_lost(entry.key[0], worker, pods, memory, now)
            if reason is not None:
                lost.append(LostWorker(worker.worker_id, worker.pod, reason))
        alive = {worker.pod_uid for worker in workers}
        memory.lost_pods = {uid: why for uid, why in memory.lost_pods.items() if uid in alive}
        return tuple(lost)

    async def _why_lost(
        self,
        namespace: str,
        worker: LiveWorker,
        pods: dict[str, Object],
        memory: QueueMemory,
        now: datetime,
    ) -> str | None:
        if not worker.pod_uid or not worker.pod:
            return None
        if (pod := pods.get(worker.pod_uid)) is not None:
            return is_pod_over(pod)
        if now - worker.started_at < NEWCOMER:
            return None
        if worker.pod_uid not in memory.lost_pods:
            why = await self._ask_for_pod(namespace, worker)
            if why is None:
                return None
            memory.lost_pods[worker.pod_uid] = why
        return memory.lost_pods[worker.pod_uid]

    async def _ask_for_pod(self, namespace: str, worker: LiveWorker) -> str | None:
        try:
            body = await self._kube.get(PODS, namespace, worker.pod)
        except ApiGone:
            return "the pod is gone"
        if uid_of(body) != worker.pod_uid:
            return "the pod was replaced by another of its name"
        if (body["metadata"].get("labels") or {}).get(labels.MANAGED_BY) == labels.OPERATOR:
            self._cache.put(PODS, body)
        return is_pod_over(body)


def _remembered(entry: QueueEntry, last_look: datetime | None) -> History:
    """Return what a status keeps of scaling over a restart."""
    scaling = entry.status.scaling
    if scaling is None:
        return History()
    told = scaling.model_dump(mode="json", by_alias=True, exclude_none=True)
    return History.from_status(told, last_look)


def utcnow() -> datetime:
    """Return the time as people tell it, for what is written into objects."""
    return datetime.now(UTC)
