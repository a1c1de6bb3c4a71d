"""What a plan asks for. Actions are executed in order; the first that fails ends the pass.

Executing one twice, or after another operator has, ends in the same state: names are
deterministic, creating what exists is no error, and a replica count carries a precondition.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from typing import Any

from awa.manifest import QueueStatus
from awa.scaling.history import History
from awa_operator.observed import SatelliteRefusal

MANAGER = "awa-operator"
"""Field manager of Jobs, satellites and status."""
TEMPLATE_MANAGER = "awa-operator/template"
"""Field manager of the Deployment without its replica count."""
SCALE_MANAGER = "awa-operator/scale"
"""Field manager of the Deployment's replica count."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckTemplate:
    """Apply the Deployment in a dry run and remember the answer as `TemplateCheck`; look again.

    Strict field validation, manager `TEMPLATE_MANAGER`, forced. A refusal is no failure of the
    pass: it is the answer.
    """

    manifest: Mapping[str, Any]
    template_hash: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ApplyTemplate:
    """Apply the Deployment by server-side apply as `TEMPLATE_MANAGER`, forced.

    `manifest` has `spec.replicas` only when the Deployment does not exist yet. A refusal is
    remembered as `TemplateCheck`. `metadata.generation` of the answer is the next
    `DeploymentView.applied_generation`.
    """

    manifest: Mapping[str, Any]
    template_hash: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SetReplicas:
    """Apply `spec.replicas` (and the annotation of held replicas) as `SCALE_MANAGER`, forced.

    `manifest` carries `metadata.resourceVersion` as the precondition; a conflict means: look again.
    """

    manifest: Mapping[str, Any]
    before: int
    after: int
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RankPods:
    """Annotate the worker pods with their deletion cost, best effort, before a scale-down.

    Only pods whose cost changes are written. A failure is logged and changes nothing else.
    """

    selector: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateJob:
    """Create the migration Job (POST). AlreadyExists is success; look again.

    A refusal of the API server is remembered as `JobRefusal` for `target_hash`.
    """

    manifest: Mapping[str, Any]
    name: str
    target_hash: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PatchJob:
    """Merge `patch` into a Job; it carries `metadata.resourceVersion` where that matters.

    Used to arm the TTL once the result is recorded, to change the deadline of a running Job, and
    to add owners. NotFound is success.
    """

    name: str
    patch: Mapping[str, Any]
    purpose: "JobPatch"


class JobPatch(StrEnum):
    """Why a Job is patched."""

    ARM_TTL = "ArmTTL"
    DEADLINE = "Deadline"
    OWNERS = "Owners"


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteJob:
    """Delete a finished Job in the foreground; NotFound is success."""

    name: str
    uid: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ApplySatellite:
    """Apply an object beside the Deployment as `MANAGER`, forced.

    When its kind is not served (PodMonitor) or its right is missing the pass goes on.
    """

    manifest: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteSatellite:
    """Delete an object beside the Deployment; NotFound is success."""

    kind: str
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeDatabase:
    """Probe the database of this Queue now, together with others that ask; then look again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MarkWorkerDead:
    """Tell the database that a worker's pod is gone, so that its jobs run again."""

    worker_id: int
    reason: str


type Action = (
    CheckTemplate
    | ApplyTemplate
    | SetReplicas
    | RankPods
    | CreateJob
    | PatchJob
    | DeleteJob
    | ApplySatellite
    | DeleteSatellite
    | ProbeDatabase
    | MarkWorkerDead
)

WRITES = (
    ApplyTemplate,
    SetReplicas,
    CreateJob,
    PatchJob,
    DeleteJob,
    ApplySatellite,
    DeleteSatellite,
)
"""Actions that change something in the cluster."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EmitEvent:
    """An Event about the Queue, emitted after the status that it tells of has been written."""

    reason: str
    message: str
    is_warning: bool = False


class Stage(StrEnum):
    """Where in the story a Queue waits."""

    GATE = "Gate"
    RENDER = "Render"
    SECRETS = "Secrets"
    PROBE = "Probe"
    MIGRATION = "Migration"
    TEMPLATE = "Template"
    ROLLOUT = "Rollout"
    SCALE = "Scale"
    SATELLITES = "Satellites"


@dataclass(frozen=True, slots=True)
class Waiting:
    """Why nothing more is done at a stage: one of the reasons of the conditions, and its words."""

    stage: Stage
    reason: str
    message: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What to do now, what to report, when to look again without being told to.

    `status` is the whole new status; it is written when it differs from the old one, after the
    actions. Nothing is done for what `waiting` names. `requeue_after` None: nothing is due, the
    slow resync is enough. `history` and `refusals` are to be remembered and given back in the next
    `Observed`.
    """

    actions: tuple[Action, ...]
    status: QueueStatus
    requeue_after: timedelta | None
    waiting: tuple[Waiting, ...]
    events: tuple[EmitEvent, ...]
    history: History
    refusals: tuple[SatelliteRefusal, ...] = ()
