"""`status` of a Queue: what the operator found and did. A manifest need not have one.

Unlike the spec, unknown fields are ignored: a later operator may have written them.
"""

from enum import StrEnum
from typing import Annotated, Literal

from pydantic import AwareDatetime, ConfigDict, Field

from awa.manifest.part import Part
from awa.manifest.values import REASON, Int, Name, ShortText

Count = Annotated[Int, Field(ge=0)]
ImageText = Annotated[str, Field(max_length=512)]
Hash = Annotated[str, Field(max_length=64)]


class StatusPart(Part):
    """One object of a status."""

    model_config = ConfigDict(extra="ignore")


class ConditionType(StrEnum):
    """What the operator reports on. Each has its condition from the first visit on."""

    READY = "Ready"
    RECONCILING = "Reconciling"
    STALLED = "Stalled"
    DATABASE_REACHABLE = "DatabaseReachable"
    SCHEMA_MIGRATED = "SchemaMigrated"
    WORKERS_AVAILABLE = "WorkersAvailable"
    SCALING_ACTIVE = "ScalingActive"


CONDITIONS = {
    ConditionType.READY: "The spec is observed, the schema current, its workers available; "
    "none of none counts.",
    ConditionType.RECONCILING: "Progress is being made. False is the usual state.",
    ConditionType.STALLED: "A human is needed. False is the usual state.",
    ConditionType.DATABASE_REACHABLE: "The database answers and can be written.",
    ConditionType.SCHEMA_MIGRATED: "The migration that the spec asks for is recorded as done.",
    ConditionType.WORKERS_AVAILABLE: "As many workers work as must.",
    ConditionType.SCALING_ACTIVE: "The operator decides the replica count.",
}
"""What each condition says when it is true."""


class Condition(StatusPart):
    """One statement about the Queue."""

    type: Annotated[str, Field(min_length=1, max_length=316)]
    """What the statement is about."""
    status: Literal["True", "False", "Unknown"]
    """Whether it holds."""
    observed_generation: Count = 0
    """Generation of the spec that it speaks of."""
    last_transition_time: AwareDatetime
    """When `status` last changed."""
    reason: Annotated[str, Field(min_length=1, max_length=256, pattern=REASON)]
    """Why, in one word."""
    message: ShortText = ""
    """Why, for people."""


class MigrationRecord(StatusPart):
    """One migration that ended."""

    target_hash: Hash
    """What was migrated to."""
    image: ImageText = ""
    """Image that migrated."""
    outcome: Literal["Succeeded", "Failed", "Superseded"]
    """How it ended."""
    schema_version: Count | None = None
    """Version of the schema afterwards."""
    completion_time: AwareDatetime | None = None
    """When it ended."""


class MigrationStatus(StatusPart):
    """Where the migration stands."""

    target_hash: Hash | None = None
    """What the spec asks for."""
    job_name: Name | None = None
    """Job of the current attempt."""
    attempts: Count = 0
    """Attempts for this target."""
    next_attempt_time: AwareDatetime | None = None
    """When the next attempt starts."""
    succeeded_hash: Hash | None = None
    """What was last migrated to with success."""
    completion_time: AwareDatetime | None = None
    """When that was."""
    schema_version: Count | None = None
    """Version of the schema afterwards."""
    history: Annotated[tuple[MigrationRecord, ...], Field(max_length=5)] = ()
    """The last migrations."""


class RolloutStatus(StatusPart):
    """Which templates run."""

    template_hash: Hash | None = None
    """The template that was applied."""
    last_good_template_hash: Hash | None = None
    """The last one whose rollout succeeded."""
    last_good_image: ImageText | None = None
    """Its image."""


class ScalingStatus(StatusPart):
    """What the scaling planner remembers over a restart."""

    last_scale_time: AwareDatetime | None = None
    """When the replica count was last changed."""
    last_scale_reason: Annotated[str, Field(max_length=64)] | None = None
    """Why."""
    active_since: AwareDatetime | None = None
    """Since when there is work to be awake for."""
    idle_since: AwareDatetime | None = None
    """Since when there is no work at all."""


class DatabaseStatus(StatusPart):
    """Which database it is."""

    identity: Hash | None = None
    """Hash of the reference to the database, never of its content."""
    schema_version: Count | None = None
    """Version of the schema that was last seen."""


def short_image(image: str) -> str:
    """Return an image without registry and folders, a digest cut to twelve digits."""
    name, at, digest = image.rpartition("/")[2].partition("@")
    return f"{name[:96]}{at}{digest.removeprefix('sha256:')[:12]}"


class QueueStatus(StatusPart):
    """What is."""

    observed_generation: Count | None = None
    """Generation of the spec that was last acted on."""
    replicas: Count | None = None
    """Pods that exist."""
    ready_replicas: Count | None = None
    """Pods that are ready."""
    updated_replicas: Count | None = None
    """Pods of the current template."""
    desired_replicas: Count | None = None
    """Pods that should exist."""
    selector: ShortText | None = None
    """Label selector of the pods, for the scale subresource."""
    image: ImageText | None = None
    """Image that is rolled out."""
    short_image: Annotated[str, Field(max_length=128)] | None = None
    """The same without its registry and folders, and with twelve digits of a digest, for lists."""
    target_image: ImageText | None = None
    """Image that the spec asks for."""
    migration: MigrationStatus | None = None
    """Where the migration stands."""
    rollout: RolloutStatus | None = None
    """Which templates run."""
    scaling: ScalingStatus | None = None
    """What the scaling planner remembers."""
    database: DatabaseStatus | None = None
    """Which database it is."""
    conditions: Annotated[
        tuple[Condition, ...],
        Field(
            max_length=16,
            json_schema_extra={
                "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["type"],
            },
        ),
    ] = ()
    """Statements about the Queue, one of each type."""
