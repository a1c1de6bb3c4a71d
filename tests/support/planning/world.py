"""The small world: Queues, their objects, one database, and an operator that can be killed.

It checks, at every write, what must never happen (`violations`).
"""

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from awa.manifest import Condition, ConditionType, Queue, QueueStatus
from awa.manifest.status import MigrationStatus
from awa.scaling.history import History
from awa.scaling.signals import Signals, Unknown
from awa_operator.actions import (
    Action,
    ApplySatellite,
    ApplyTemplate,
    CheckTemplate,
    CreateJob,
    DeleteJob,
    DeleteSatellite,
    EmitEvent,
    JobPatch,
    MarkWorkerDead,
    PatchJob,
    Plan,
    ProbeDatabase,
    RankPods,
    SetReplicas,
)
from awa_operator.conditions import find_condition
from awa_operator.identity import canonical_json, database_identity, target_hash
from awa_operator.names import worker_name
from awa_operator.observed import (
    DatabaseProblem,
    DatabaseView,
    JobPhase,
    JobRefusal,
    LostWorker,
    Observed,
    SatelliteRefusal,
    SatelliteView,
    Secrets,
    SecretState,
    SecretView,
    SiblingView,
    SignalsView,
    TemplateCheck,
)
from awa_operator.plan import plan_queue
from awa_operator.render.overlay import overlaid
from support.planning.cluster import Conflict, Deployment, Job
from support.planning.queues import START, as_others_see_it, make_queue

SOON = timedelta(seconds=1)
MANY = 60
"""Passes after which a story that does not settle is broken."""


class Killed(Exception):
    """The operator was killed between two writes."""


@dataclass
class Memory:
    """What the operator forgets when it is restarted."""

    history: History = field(default_factory=History)
    check: TemplateCheck | None = None
    refusal: JobRefusal | None = None
    satellite_refusals: dict[str, SatelliteRefusal] = field(default_factory=dict)
    applied_generation: int | None = None


@dataclass
class World:
    """A namespace, its one database, and the clock."""

    now: datetime = START
    queues: dict[str, Queue] = field(default_factory=dict)
    deployments: dict[str, Deployment] = field(default_factory=dict)
    jobs: dict[str, Job] = field(default_factory=dict)
    satellites: dict[tuple[str, str], dict[str, Any]] = field(default_factory=dict)
    satellites_refused: dict[str, str] = field(default_factory=dict)
    foreign: set[str] = field(default_factory=set)
    """Kinds of satellites that belong to somebody else."""
    memories: dict[str, Memory] = field(default_factory=dict)
    secrets: dict[str, str] = field(default_factory=lambda: {"app-db": "aaaaaa"})
    schema_version: int = 0
    last_contract_version: int = 0
    max_connections: int | None = None
    problem: DatabaseProblem | None = None
    probe: DatabaseView | None = None
    signals: dict[str, SignalsView] = field(default_factory=dict)
    broken_images: set[str] = field(default_factory=set)
    invalid_images: dict[str, bool] = field(default_factory=dict)
    """Images whose template is refused, and whether for good."""
    job_refused: str | None = None
    foreign_scaler: dict[str, str] = field(default_factory=dict)
    lost_workers: dict[str, tuple[LostWorker, ...]] = field(default_factory=dict)
    events: list[tuple[str, EmitEvent]] = field(default_factory=list)
    dead: list[int] = field(default_factory=list)
    jobs_made: list[str] = field(default_factory=list)
    ranked: list[str] = field(default_factory=list)
    violations: list[str] = field(default_factory=list)
    writes: int = 0
    kill_after: int | None = None

    # --- what users do

    def create(self, name: str = "email", spec: dict[str, Any] | None = None) -> None:
        """Create a Queue."""
        self.queues[name] = make_queue(name, spec)

    def edit(self, name: str = "email", **spec: Any) -> None:
        """Change a spec; None removes a field."""
        old = self.queues[name]
        manifest = old.model_dump(mode="json", by_alias=True, exclude_unset=True)
        manifest["spec"] = overlaid(manifest["spec"], spec)
        manifest["metadata"]["generation"] = (old.metadata.generation or 0) + 1
        if old.status is not None:
            manifest["status"] = _dumped(old.status)
        self.queues[name] = Queue.model_validate(manifest)

    def delete(self, name: str) -> None:
        """Delete a Queue; garbage collection follows at once."""
        gone = self.queues.pop(name)
        uid = gone.metadata.uid or ""
        self.deployments.pop(name, None)
        self.memories.pop(name, None)
        for job in list(self.jobs.values()):
            job.owners -= {uid}
            if not job.owners:
                del self.jobs[job.name]

    # --- what happens

    def advance(self, seconds: float) -> None:
        """Let time pass."""
        self.now += timedelta(seconds=seconds)

    def end_job(
        self,
        code: int = 0,
        message: str = "",
        reason: str | None = None,
        version: int = 52,
    ) -> Job:
        """Let the running Job end; a success brings the schema to `version`."""
        job = next(one for one in self.jobs.values() if one.phase is JobPhase.ACTIVE)
        if code == 0 and reason is None:
            self.schema_version = max(self.schema_version, version)
            message = message or f'{{"schemaVersion": {self.schema_version}}}'
        job.end(code, message, self.now, reason)
        return job

    def expire_jobs(self) -> None:
        """Let the TTL controller delete what it may."""
        for job in list(self.jobs.values()):
            if self.now >= job.expires_at:
                del self.jobs[job.name]

    def run_pods(self) -> None:
        """Let the controllers of Deployments act."""
        for deployment in self.deployments.values():
            deployment.run(works=deployment.image not in self.broken_images)
        for job in self.jobs.values():
            is_alone = job.view().is_exclusive and job.phase is JobPhase.ACTIVE
            if is_alone and any(map(self._pods, self.deployments)):
                self.violations.append(f"a worker beside {job.name}")

    def exceed_deadline(self, name: str = "email") -> None:
        """Let a rollout run out of time."""
        self.deployments[name].progress = "ProgressDeadlineExceeded"
        self.deployments[name].version += 1

    def poll(self, name: str = "email", signals: Signals | Unknown | None = None) -> None:
        """Poll a queue: an idle one, or what `signals` say; Unknown is a poll that failed."""
        said = Signals() if signals is None else signals
        self.signals[name] = SignalsView(at=self.now, signals=said)

    def lose_database(self, problem: DatabaseProblem = DatabaseProblem.CONNECTION_REFUSED) -> None:
        """Take the database away and let the poller see it."""
        self.problem = problem
        self.look_at_database()

    def return_database(self) -> None:
        """Give the database back and let the poller see it."""
        self.problem = None
        self.look_at_database()

    def look_at_database(self) -> None:
        """Probe."""
        before, failures = self.probe, 0
        since = before.reachable_since if before is not None else None
        if self.problem is not None:
            failures, since = (before.failures if before else 0) + 1, None
        elif before is not None and not before.is_reachable:
            since = self.now
        is_there = self.problem is None
        self.probe = DatabaseView(
            at=self.now,
            problem=self.problem,
            message="" if is_there else "connection refused",
            schema_version=self.schema_version if is_there else None,
            last_contract_version=self.last_contract_version if is_there else None,
            reachable_since=since,
            failures=failures,
            max_connections=self.max_connections if is_there else None,
        )

    def restart(self) -> None:
        """Restart the operator: what it only remembered is gone."""
        self.memories.clear()
        self.probe = None
        self.kill_after = None

    # --- what the operator does

    def observe(self, name: str = "email") -> Observed:
        """Return what the operator knows about a Queue."""
        queue = self.queues[name]
        memory = self.memories.setdefault(name, Memory())
        if queue.status is not None and memory.history == History():
            scaling = queue.status.scaling
            kept = scaling.model_dump(mode="json", by_alias=True) if scaling else None
            memory.history = History.from_status(kept)
        deployment = self.deployments.get(name)
        identity = self._identity(queue)
        return Observed(
            queue=queue,
            secrets=self._secrets(queue),
            database=self.probe,
            jobs=tuple(job.view() for job in self.jobs.values() if job.identity == identity),
            deployment=deployment.view(memory.applied_generation) if deployment else None,
            worker_pods=self._pods(name),
            siblings=tuple(
                SiblingView(
                    queue=as_others_see_it(other),
                    worker_pods=self._pods(other.metadata.name),
                    replicas=self._replicas(other.metadata.name),
                )
                for other in self.queues.values()
                if other is not queue and self._identity(other) == identity
            ),
            signals=self.signals.get(name),
            history=memory.history,
            foreign_scaler=self.foreign_scaler.get(name),
            satellites=tuple(
                SatelliteView(
                    kind=kind, name=found, manifest=manifest, is_ours=kind not in self.foreign
                )
                for (kind, found), manifest in self.satellites.items()
            ),
            template_check=memory.check,
            job_refusal=memory.refusal,
            satellite_refusals=tuple(memory.satellite_refusals.values()),
            lost_workers=self.lost_workers.get(name, ()),
        )

    def plan(self, name: str = "email") -> Plan:
        """Return the plan of this moment."""
        return plan_queue(self.observe(name), self.now)

    def reconcile(self, name: str = "email") -> Plan:
        """Plan, execute, report. Raises Killed at the write that `kill_after` names."""
        plan = self.plan(name)
        self.memories[name].history = plan.history
        self.memories[name].satellite_refusals = {one.kind: one for one in plan.refusals}
        try:
            for action in plan.actions:
                self._execute(name, action)
        except Conflict:
            return plan
        self._report(name, plan)
        return plan

    def settle(self, *, pods: bool = True) -> None:
        """Reconcile every Queue until nothing changes any more and nothing is due soon."""
        for _ in range(MANY):
            before = self.writes
            plans = [self.reconcile(name) for name in sorted(self.queues)]
            if pods:
                seen = [one.version for one in self.deployments.values()]
                self.run_pods()
                if seen != [one.version for one in self.deployments.values()]:
                    continue
            if self.writes != before or any(plan.actions for plan in plans):
                continue
            soon = [plan.requeue_after for plan in plans if plan.requeue_after]
            if not soon or min(soon) > SOON:
                return
            self.now += min(soon)
        raise AssertionError(f"does not settle: {[plan.actions for plan in plans]}")

    def condition(self, kind: ConditionType, name: str = "email") -> Condition:
        """Return a condition as it was last written."""
        found = find_condition(self.status(name), kind)
        assert found is not None, f"{kind} was never set"
        return found

    def status(self, name: str = "email") -> QueueStatus:
        """Return the status as it was last written."""
        return self.queues[name].status or QueueStatus()

    def migration(self, name: str = "email") -> MigrationStatus:
        """Return where the migration stands, as it was last written."""
        return self.status(name).migration or MigrationStatus()

    def _execute(self, name: str, action: Action) -> None:
        match action:
            case CheckTemplate() | ApplyTemplate():
                self._template(name, action)
            case SetReplicas():
                self._write()
                self.deployments[name].apply_replicas(action.manifest)
            case CreateJob():
                self._create_job(name, action)
            case PatchJob():
                self._patch_job(action)
            case DeleteJob():
                self._write()
                self.jobs.pop(action.name, None)
            case ApplySatellite() | DeleteSatellite():
                self._satellite(name, action)
            case ProbeDatabase():
                self.look_at_database()
            case MarkWorkerDead():
                self.dead.append(action.worker_id)
                self.lost_workers.pop(name, None)
            case RankPods():
                self.ranked.append(name)

    def _template(self, name: str, action: CheckTemplate | ApplyTemplate) -> None:
        queue, memory = self.queues[name], self.memories[name]
        image = action.manifest["spec"]["template"]["spec"]["containers"][0]["image"]
        refusal = "image: Invalid value" if image in self.invalid_images else None
        memory.check = TemplateCheck(
            template_hash=action.template_hash,
            generation=queue.metadata.generation or 0,
            at=self.now,
            refusal=refusal,
            is_permanent=self.invalid_images.get(image, False),
        )
        if isinstance(action, CheckTemplate):
            return
        if refusal is not None:
            raise Conflict(name)
        self._write()
        live = self.deployments.get(name)
        self._check_gate(queue, action, live)
        if live is None:
            live = Deployment(
                uid=f"uid-{worker_name(name)}",
                manifest=dict(action.manifest),
                replicas=action.manifest["spec"].get("replicas", 1),
                managers=frozenset({"awa-operator/template"}),
            )
            self.deployments[name] = live
        else:
            live.apply_template(action.manifest)
        memory.applied_generation = live.generation

    def _check_gate(self, queue: Queue, action: ApplyTemplate, live: Deployment | None) -> None:
        """The invariant of the gate: a new template needs a recorded success."""
        template = action.manifest["spec"]["template"]
        is_same = live is not None and live.template == template
        is_rollback = "awa.dev/rolled-back" in action.manifest["metadata"]["annotations"]
        if queue.spec.migration.mode != "Job" or is_same or is_rollback:
            return
        target, images = target_hash(queue), set()
        for other in self.queues.values():
            migration = other.status.migration if other.status else None
            if migration is None or self._identity(other) != self._identity(queue):
                continue
            good = [one for one in migration.history if one.outcome == "Succeeded"]
            if target in (migration.succeeded_hash, *(one.target_hash for one in good)):
                return
            images |= {one.image for one in good}
        if queue.migration_image not in images and not _is_foreign_edit(live, template):
            self.violations.append(f"{queue.metadata.name}: template before recorded success")

    def _create_job(self, name: str, action: CreateJob) -> None:
        queue = self.queues[name]
        if self.job_refused is not None:
            self.memories[name].refusal = JobRefusal(
                target_hash=action.target_hash,
                generation=queue.metadata.generation or 0,
                at=self.now,
                message=self.job_refused,
            )
            raise Conflict(name)
        self._write()
        if action.name in self.jobs:
            return
        identity = self._identity(queue)
        for job in self.jobs.values():
            is_over = job.phase is not JobPhase.ACTIVE and not any(p.is_live for p in job.pods)
            if not is_over and job.identity == identity:
                self.violations.append(f"{action.name} beside {job.name}")
        if queue.spec.migration.strategy == "Exclusive":
            members = [one for one in self.queues.values() if self._identity(one) == identity]
            if any(self._pods(one.metadata.name) for one in members):
                self.violations.append(f"{action.name} while workers run")
        self.jobs[action.name] = Job.of(action.manifest, self.now)
        self.jobs_made.append(action.name)

    def _patch_job(self, action: PatchJob) -> None:
        self._write()
        job = self.jobs.get(action.name)
        if job is None:
            return
        job.version += 1
        if action.purpose is JobPatch.ARM_TTL:
            job.ttl_seconds = action.patch["spec"]["ttlSecondsAfterFinished"]
            notes = {**job.manifest["metadata"]["annotations"]}
            notes |= action.patch["metadata"]["annotations"]
            job.manifest["metadata"] = {**job.manifest["metadata"], "annotations": notes}
        elif action.purpose is JobPatch.DEADLINE:
            job.manifest["spec"] = {**job.manifest["spec"], **action.patch["spec"]}
        else:
            references = action.patch["metadata"]["ownerReferences"]
            job.owners = frozenset(one["uid"] for one in references)

    def _satellite(self, name: str, action: ApplySatellite | DeleteSatellite) -> None:
        self._write()
        kind = action.kind if isinstance(action, DeleteSatellite) else action.manifest["kind"]
        refusals = self.memories[name].satellite_refusals
        before = refusals.pop(kind, None)
        if (message := self.satellites_refused.get(kind)) is not None:
            generation = self.queues[name].metadata.generation or 0
            refusals[kind] = SatelliteRefusal(
                kind=kind, generation=generation, at=self.now, message=message
            )
            if before is None or before.message != message:
                raise Conflict(kind)
            return
        if isinstance(action, DeleteSatellite):
            self.satellites.pop((action.kind, action.name), None)
            return
        key = (action.manifest["kind"], action.manifest["metadata"]["name"])
        self.satellites[key] = dict(action.manifest)

    def _report(self, name: str, plan: Plan) -> None:
        # Through JSON, as the API server would have it: what it would refuse fails here.
        status = QueueStatus.model_validate(_dumped(plan.status))
        if status != self.status(name):
            self._write()
            self.queues[name] = self.queues[name].model_copy(update={"status": status})
        self.events += [(name, event) for event in plan.events]

    def _write(self) -> None:
        if self.kill_after is not None and self.writes >= self.kill_after:
            raise Killed
        self.writes += 1

    def _identity(self, queue: Queue) -> str:
        return database_identity(queue.metadata.namespace or "", queue.spec.database)

    def _pods(self, name: str) -> int:
        found = self.deployments.get(name)
        return found.old_pods + found.new_pods if found else 0

    def _replicas(self, name: str) -> int:
        found = self.deployments.get(name)
        return found.replicas if found else 0

    def _secrets(self, queue: Queue) -> Secrets:
        database = queue.spec.database

        def view(name: str, key: str) -> SecretView:
            mark = self.secrets.get(name)
            state = SecretState.NOT_FOUND if mark is None else SecretState.FOUND
            return SecretView(name, key, state, mark)

        refs = (
            database.connection_secret_ref,
            database.migration_secret,
            database.monitor_secret,
        )
        connection, migration, monitor = (view(ref.name, ref.key) for ref in refs)
        return Secrets(connection=connection, migration=migration, monitor=monitor)


def _is_foreign_edit(live: Deployment | None, template: dict[str, Any]) -> bool:
    """An edit by somebody else is undone whatever the gate says: the template was allowed."""
    stored = live.annotations.get("awa.dev/template") if live is not None else None
    return stored is not None and stored == canonical_json(template)


def _dumped(status: QueueStatus) -> dict[str, Any]:
    return status.model_dump(mode="json", by_alias=True, exclude_none=True)
