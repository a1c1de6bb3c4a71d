"""Carries out a plan: its actions one after the other, and nothing without the lease.

A refusal of the API server is an answer, remembered for the next plan; a conflict and a server that
does not answer are errors, and the Queue comes back.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from awa_operator import labels
from awa_operator.actions import (
    MANAGER,
    SCALE_MANAGER,
    TEMPLATE_MANAGER,
    Action,
    ApplySatellite,
    ApplyTemplate,
    CheckTemplate,
    CreateJob,
    DeleteJob,
    DeleteSatellite,
    MarkWorkerDead,
    PatchJob,
    ProbeDatabase,
    RankPods,
    SetReplicas,
)
from awa_operator.cache import Cache, Object
from awa_operator.conditions import Reason
from awa_operator.databases import Databases, QueueKey
from awa_operator.errors import (
    AlreadyExists,
    ApiConflict,
    ApiError,
    ApiForbidden,
    ApiGone,
    ApiInvalid,
    OperatorError,
)
from awa_operator.kube import Kube
from awa_operator.metrics import Metrics
from awa_operator.observe import QueueMemory
from awa_operator.observed import JobRefusal, Observed, SatelliteRefusal, TemplateCheck
from awa_operator.plan.scale import RESUMED
from awa_operator.resources import (
    BUDGETS,
    DEPLOYMENTS,
    JOBS,
    NETWORK_POLICIES,
    POD_MONITORS,
    PODS,
    resource_of,
)

log = logging.getLogger(__name__)

COST = "controller.kubernetes.io/pod-deletion-cost"
RANK_LIMIT = timedelta(seconds=3)
"""How long a scale-down waits for its pods to be ranked; best effort."""

_HOLDS = {Reason.SUSPENDED, Reason.HELD_BY_MIGRATION, RESUMED}
_SATELLITES = {one.kind: one for one in (BUDGETS, NETWORK_POLICIES, POD_MONITORS)}

type Guard = Callable[[str], Awaitable[None]]
"""Called before each write with what is to be written; raises to stop there."""


@dataclass(frozen=True, slots=True)
class Pass:
    """One Queue, what was observed of it, and what is remembered; what actions work on."""

    key: QueueKey
    observed: Observed
    memory: QueueMemory
    now: datetime


class LookAgain(Exception):
    """What an action found out changes the plan; the rest of it no longer holds."""


class Executor:
    """Carries out actions. `guard` runs before every write, for the lease and for tests."""

    def __init__(
        self,
        kube: Kube,
        cache: Cache,
        databases: Databases,
        metrics: Metrics,
        guard: Guard,
    ) -> None:
        self._kube = kube
        self._cache = cache
        self._databases = databases
        self._metrics = metrics
        self._guard = guard
        self._ways: Mapping[type, Callable[[Any, Pass], Awaitable[None]]] = {
            CheckTemplate: self._check_template,
            ApplyTemplate: self._apply_template,
            SetReplicas: self._set_replicas,
            RankPods: self._rank_pods,
            CreateJob: self._create_job,
            PatchJob: self._patch_job,
            DeleteJob: self._delete_job,
            ApplySatellite: self._apply_satellite,
            DeleteSatellite: self._delete_satellite,
            ProbeDatabase: self._probe,
            MarkWorkerDead: self._mark_dead,
        }

    async def run(self, actions: tuple[Action, ...], this: Pass) -> bool:
        """Carry out actions in order; return whether the plan still holds.

        Raises an `ApiError` for what may work later, and `NotLeading`.
        """
        for action in actions:
            try:
                await self._ways[type(action)](action, this)
            except LookAgain:
                return False
        return True

    # --- the template ----------------------------------------------------------------------

    async def _check_template(self, action: CheckTemplate, this: Pass) -> None:
        try:
            await self._kube.apply(
                action.manifest, manager=TEMPLATE_MANAGER, dry_run=True, strict=True
            )
        except (ApiInvalid, ApiForbidden) as error:
            self._refused(action.template_hash, this, error)
        else:
            self._accepted(action.template_hash, this)
        raise LookAgain

    async def _apply_template(self, action: ApplyTemplate, this: Pass) -> None:
        await self._guard(f"template {action.template_hash}")
        try:
            body = await self._kube.apply(action.manifest, manager=TEMPLATE_MANAGER, strict=True)
        except (ApiInvalid, ApiForbidden) as error:
            self._refused(action.template_hash, this, error)
            raise LookAgain from error
        self._accepted(action.template_hash, this)
        this.memory.applied_generation = int(body["metadata"].get("generation", 0))
        self._cache.put(DEPLOYMENTS, body)
        log.info("template applied", extra={"template": action.template_hash})

    def _accepted(self, template_hash: str, this: Pass) -> None:
        this.memory.template_check = TemplateCheck(
            template_hash=template_hash, generation=this.observed.generation, at=this.now
        )

    def _refused(self, template_hash: str, this: Pass, error: ApiError) -> None:
        this.memory.template_check = TemplateCheck(
            template_hash=template_hash,
            generation=this.observed.generation,
            at=this.now,
            refusal=error.detail or str(error),
            is_permanent=isinstance(error, ApiInvalid),
        )
        log.warning("template refused", extra={"template": template_hash, "error": str(error)})

    # --- the replica count -----------------------------------------------------------------

    async def _set_replicas(self, action: SetReplicas, this: Pass) -> None:
        await self._guard(f"replicas {action.before} to {action.after}")
        body = await self._kube.apply(action.manifest, manager=SCALE_MANAGER)
        self._cache.put(DEPLOYMENTS, body)
        deployment = this.observed.deployment
        known = deployment.applied_generation if deployment is not None else None
        if known is not None and deployment is not None and known == deployment.generation:
            # The count is ours too: the template is still as we applied it.
            this.memory.applied_generation = int(body["metadata"].get("generation", 0))
        if action.before != action.after:
            direction = "up" if action.after > action.before else "down"
            self._metrics.queues.of(*this.key).decided(
                direction, action.reason, is_hold=action.reason in _HOLDS
            )
        log.info(
            "replicas set",
            extra={"before": action.before, "after": action.after, "reason": action.reason},
        )

    async def _rank_pods(self, action: RankPods, this: Pass) -> None:
        """Annotate pods with what their deletion costs; a failure only makes the choice random."""
        try:
            async with asyncio.timeout(RANK_LIMIT.total_seconds()):
                costs = await self._databases.costs(this.key)
                for pod in self._cache.pods_of_queue(this.key):
                    await self._rank(pod, costs.get(str(pod["metadata"]["name"]), 0), this.key[0])
        except (OperatorError, TimeoutError) as error:
            log.warning(
                "pods were not ranked", extra={"selector": action.selector, "error": str(error)}
            )

    async def _rank(self, pod: Object, cost: int, namespace: str) -> None:
        meta = pod["metadata"]
        known = (meta.get("annotations") or {}).get(COST)
        if meta.get("deletionTimestamp") is not None or known == str(cost):
            return
        if known is None and cost == 0:
            return
        await self._guard(f"cost of {meta['name']}")
        patch = {"metadata": {"annotations": {COST: str(cost)}}}
        try:
            body = await self._kube.merge(PODS, namespace, meta["name"], patch, manager=MANAGER)
        except ApiGone:
            return
        self._cache.put(PODS, body)

    # --- migration Jobs --------------------------------------------------------------------

    async def _create_job(self, action: CreateJob, this: Pass) -> None:
        await self._insist_on_known_jobs(action, this)
        await self._guard(f"job {action.name}")
        try:
            body = await self._kube.create(action.manifest, manager=MANAGER)
        except AlreadyExists as error:
            # Another replica, or another Queue of the database, was faster.
            self._cache.put(JOBS, await self._kube.get(JOBS, this.key[0], action.name))
            raise LookAgain from error
        except (ApiInvalid, ApiForbidden) as error:
            this.memory.job_refusal = JobRefusal(
                target_hash=action.target_hash,
                generation=this.observed.generation,
                at=this.now,
                message=error.detail or str(error),
                is_permanent=isinstance(error, ApiInvalid),
            )
            log.warning("job refused", extra={"job": action.name, "error": str(error)})
            raise LookAgain from error
        this.memory.job_refusal = None
        self._cache.put(JOBS, body)
        log.info("job created", extra={"job": action.name, "target": action.target_hash})

    async def _insist_on_known_jobs(self, action: CreateJob, this: Pass) -> None:
        """Look again when the database has a Job that the watch has not told of yet.

        One that runs would be overtaken by the next number.
        """
        selector = labels.job_selector(action.manifest["metadata"]["labels"][labels.DATABASE])
        known = {job.name for job in this.observed.jobs}
        listing = await self._kube.list(JOBS, this.key[0], selector=selector)
        unknown = [one for one in listing.items if one["metadata"]["name"] not in known]
        for body in unknown:
            self._cache.put(JOBS, body)
        if unknown:
            raise LookAgain

    async def _patch_job(self, action: PatchJob, this: Pass) -> None:
        await self._guard(f"job {action.name}: {action.purpose}")
        try:
            body = await self._kube.merge(
                JOBS, this.key[0], action.name, action.patch, manager=MANAGER
            )
        except ApiGone:
            return
        self._cache.put(JOBS, body)

    async def _delete_job(self, action: DeleteJob, this: Pass) -> None:
        await self._guard(f"delete job {action.name}")
        try:
            await self._kube.delete(JOBS, this.key[0], action.name, uid=action.uid, foreground=True)
        except ApiConflict:
            return  # Another Job has the name now; the one that was meant is gone.

    # --- what stands beside the workers ------------------------------------------------------

    async def _apply_satellite(self, action: ApplySatellite, this: Pass) -> None:
        resource = resource_of(action.manifest["apiVersion"], action.manifest["kind"])
        await self._guard(f"{resource.kind} {action.manifest['metadata']['name']}")
        try:
            body = await self._kube.apply(action.manifest, manager=MANAGER)
        except (ApiGone, ApiForbidden, ApiInvalid) as error:
            self._cannot(resource.kind, this, error)
            return
        self._cache.put(resource, body)
        self._can(resource.kind, this)

    async def _delete_satellite(self, action: DeleteSatellite, this: Pass) -> None:
        resource = _SATELLITES[action.kind]
        await self._guard(f"delete {action.kind} {action.name}")
        try:
            await self._kube.delete(resource, this.key[0], action.name)
        except (ApiForbidden, ApiInvalid) as error:
            self._cannot(action.kind, this, error)
            return
        known = self._cache.find(resource, this.key[0], action.name)
        if known is not None:
            self._cache.drop(resource, known)
        self._can(action.kind, this)

    def _cannot(self, kind: str, this: Pass, error: ApiError) -> None:
        """Remember a refusal; raises LookAgain when the status does not tell of it yet."""
        message = error.detail or str(error)
        if isinstance(error, ApiGone):
            message = f"the API server does not serve {kind}; install its definition first"
        before = this.memory.satellite_refusals.get(kind)
        this.memory.satellite_refusals[kind] = SatelliteRefusal(
            kind=kind, generation=this.observed.generation, at=this.now, message=message
        )
        if before is None or before.message != message:
            log.warning("an object beside the workers was refused", extra={"error": str(error)})
            raise LookAgain from error

    def _can(self, kind: str, this: Pass) -> None:
        """Forget a refusal; raises LookAgain when the status still tells of it."""
        if this.memory.satellite_refusals.pop(kind, None) is not None:
            raise LookAgain

    # --- the database ----------------------------------------------------------------------

    async def _probe(self, _: ProbeDatabase, this: Pass) -> None:
        self._databases.probe_soon(this.key)

    async def _mark_dead(self, action: MarkWorkerDead, this: Pass) -> None:
        await self._guard(f"worker {action.worker_id} is dead")
        try:
            was_alive = await self._databases.mark_dead(this.key, action.worker_id, action.reason)
        except (OperatorError, TimeoutError) as error:
            log.warning("jobs of a lost pod wait for their lease", extra={"error": str(error)})
            return
        if was_alive:
            log.info("jobs of a lost pod run again", extra={"reason": action.reason})
