"""Objects of the small cluster, with the rules of the API server and of its controllers.

Only rules that a plan can run into: server-side apply of the replica count, preconditions, names
that are taken, and what Deployments and Jobs report.
"""

import copy
import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any

from awa_operator import labels
from awa_operator.actions import SCALE_MANAGER, TEMPLATE_MANAGER
from awa_operator.names import job_number
from awa_operator.observed import (
    DeploymentView,
    JobPhase,
    JobPodView,
    JobView,
    PodProblem,
    PodTrouble,
)


class Conflict(Exception):
    """The object has changed since it was read."""


@dataclass
class Deployment:
    """A Deployment, and how its pods do."""

    uid: str
    manifest: dict[str, Any]
    replicas: int
    managers: frozenset[str]
    version: int = 1
    generation: int = 1
    observed_generation: int = 0
    old_pods: int = 0
    new_pods: int = 0
    available: int = 0
    held: str | None = None
    progress: str = "NewReplicaSetCreated"
    is_ours: bool = True
    trouble: PodProblem | None = None

    @property
    def template(self) -> dict[str, Any]:
        """The live pod template."""
        template: dict[str, Any] = self.manifest["spec"]["template"]
        return template

    @property
    def annotations(self) -> dict[str, str]:
        """Annotations by whichever manager."""
        found = dict(self.manifest["metadata"].get("annotations", {}))
        return found | ({labels.HELD_REPLICAS: self.held} if self.held is not None else {})

    @property
    def image(self) -> str:
        """Image of the live template."""
        return str(self.template["spec"]["containers"][0]["image"])

    def apply_template(self, manifest: Mapping[str, Any]) -> None:
        """Apply as the template manager, forced."""
        new = copy.deepcopy(dict(manifest))
        had_count = TEMPLATE_MANAGER in self.managers
        if "replicas" not in new["spec"] and had_count:
            self.managers -= {TEMPLATE_MANAGER}
            if not self.managers:
                self.replicas = 1  # The default of a field that nobody owns any more.
        if new["spec"]["template"] != self.template:
            self.old_pods += self.new_pods
            self.new_pods, self.available = 0, 0
            self.progress = "ReplicaSetUpdated"
        if new["spec"] != self.manifest["spec"]:
            self.generation += 1
        self.manifest = new
        self.version += 1

    def apply_replicas(self, manifest: Mapping[str, Any]) -> None:
        """Apply as the scale manager, forced, if the object is as it was read."""
        metadata, count = manifest["metadata"], int(manifest["spec"]["replicas"])
        if metadata["resourceVersion"] != str(self.version):
            raise Conflict(metadata["name"])
        if count == self.replicas:
            self.managers |= {SCALE_MANAGER}
        else:
            self.managers = frozenset({SCALE_MANAGER})
            self.generation += 1
        self.replicas = count
        self.held = metadata.get("annotations", {}).get(labels.HELD_REPLICAS)
        self.version += 1

    def scale_by_hand(self, count: int, manager: str) -> None:
        """Let somebody else write the count."""
        if count != self.replicas:
            self.replicas, self.managers = count, frozenset({manager})
            self.generation += 1
            self.version += 1

    def run(self, *, works: bool) -> None:
        """Let the controllers act: with a template that works everything ends as asked."""
        before = (self.observed_generation, self.old_pods, self.new_pods, self.available)
        self.observed_generation = self.generation
        if works or self.replicas == 0:
            self.old_pods, self.new_pods, self.available = 0, self.replicas, self.replicas
            self.progress, self.trouble = "NewReplicaSetAvailable", None
        else:
            # A surge of one pod that never becomes available; the old ones stay.
            self.old_pods = min(self.old_pods, self.replicas)
            self.new_pods, self.available = 1, self.old_pods
            self.trouble = PodProblem(
                reason=PodTrouble.CRASH_LOOP, message="the container keeps ending"
            )
        after = (self.observed_generation, self.old_pods, self.new_pods, self.available)
        self.version += before != after

    def view(self, applied_generation: int | None) -> DeploymentView:
        """Return what an operator sees."""
        annotations = self.annotations
        held = annotations.get(labels.HELD_REPLICAS)
        pods = self.template["metadata"].get("annotations", {})
        return DeploymentView(
            uid=self.uid,
            resource_version=str(self.version),
            generation=self.generation,
            observed_generation=self.observed_generation,
            is_ours=self.is_ours,
            replicas=self.replicas,
            total=self.old_pods + self.new_pods,
            ready=self.available,
            updated=self.new_pods,
            available=self.available,
            template_hash=annotations.get(labels.TEMPLATE_HASH),
            stored_template=annotations.get(labels.TEMPLATE),
            last_good_template=annotations.get(labels.LAST_GOOD_TEMPLATE),
            rolled_back_hash=annotations.get(labels.ROLLED_BACK),
            held_replicas=None if held is None else int(held),
            image=self.image,
            secret_hash=pods.get(labels.SECRET_HASH),
            is_available=self.available >= self.replicas - self.replicas // 4,
            progress_reason=self.progress,
            replicas_managers=self.managers,
            manifest={
                "metadata": {"labels": self.manifest["metadata"]["labels"]},
                "spec": {**self.manifest["spec"], "replicas": self.replicas},
            },
            applied_generation=applied_generation,
            pod_problem=self.trouble,
        )


@dataclass
class Job:
    """A Job with at most one pod."""

    manifest: dict[str, Any]
    created_at: datetime
    pods: tuple[JobPodView, ...]
    phase: JobPhase = JobPhase.ACTIVE
    failed_reason: str | None = None
    ended_at: datetime | None = None
    ttl_seconds: int | None = None
    version: int = 1
    owners: frozenset[str] = field(default_factory=frozenset)

    @classmethod
    def of(cls, manifest: Mapping[str, Any], now: datetime) -> "Job":
        """Return a Job that was just created; its pod runs."""
        name = manifest["metadata"]["name"]
        owners = frozenset(one["uid"] for one in manifest["metadata"]["ownerReferences"])
        pods = (JobPodView(name=f"{name}-pod", is_live=True),)
        return cls(dict(manifest), created_at=now, pods=pods, owners=owners)

    @property
    def name(self) -> str:
        """Its name."""
        return str(self.manifest["metadata"]["name"])

    @property
    def uid(self) -> str:
        """Its uid."""
        return f"uid-{self.name}"

    @property
    def identity(self) -> str:
        """Whose database it migrates."""
        return str(self.manifest["metadata"]["labels"][labels.DATABASE])

    @property
    def expires_at(self) -> datetime:
        """When the TTL controller deletes it; far away while it may not."""
        if self.ended_at is None or self.ttl_seconds is None:
            return datetime.max.replace(tzinfo=UTC)
        return self.ended_at + timedelta(seconds=self.ttl_seconds)

    def end(self, code: int, message: str, now: datetime, reason: str | None = None) -> None:
        """Let the pod end and the Job with it."""
        codes = self._permanent_codes()
        is_done = code == 0 and reason is None
        self.phase = JobPhase.COMPLETE if is_done else JobPhase.FAILED
        default = "PodFailurePolicy" if code in codes else "BackoffLimitExceeded"
        self.failed_reason = None if is_done else (reason or default)
        self.ended_at = now
        pod = replace(
            self.pods[-1], is_live=False, exit_code=code, message=message, finished_at=now
        )
        self.pods = (*self.pods[:-1], pod)
        self.version += 1

    def disrupt(self, now: datetime) -> None:
        """Let the pod be evicted; the failure policy ignores it and the Job makes a new one."""
        gone = replace(
            self.pods[-1], is_live=False, exit_code=137, is_disrupted=True, finished_at=now
        )
        fresh = JobPodView(name=f"{self.name}-pod{len(self.pods)}", is_live=True)
        self.pods = (*self.pods[:-1], gone, fresh)
        self.version += 1

    def view(self) -> JobView:
        """Return what an operator sees."""
        metadata, spec = self.manifest["metadata"], self.manifest["spec"]
        marks = metadata["labels"]
        return JobView(
            name=self.name,
            uid=self.uid,
            number=job_number(self.name, marks[labels.DATABASE]),
            target_hash=marks[labels.TARGET],
            attempt=int(marks[labels.ATTEMPT]),
            created_at=self.created_at,
            image=metadata["annotations"][labels.IMAGE],
            phase=self.phase,
            failed_reason=self.failed_reason,
            ended_at=self.ended_at,
            is_recorded=labels.RECORDED in metadata["annotations"],
            is_exclusive=labels.EXCLUSIVE in self.manifest["metadata"]["annotations"],
            deadline_seconds=spec["activeDeadlineSeconds"],
            resource_version=str(self.version),
            owner_uids=self.owners,
            spec_hashes=json.loads(metadata["annotations"][labels.SPECS]),
            pods=self.pods,
        )

    def _permanent_codes(self) -> list[int]:
        rules = self.manifest["spec"]["podFailurePolicy"]["rules"]
        return next(
            (list(one["onExitCodes"]["values"]) for one in rules if "onExitCodes" in one), []
        )
