"""Where a migration stands, as its stages tell each other."""

from dataclasses import dataclass
from typing import Literal

from awa.manifest.status import MigrationRecord, MigrationStatus
from awa_operator.conditions import Statement
from awa_operator.observed import JobView
from awa_operator.plan.step import Step


@dataclass(frozen=True, slots=True, kw_only=True)
class Migration:
    """Where the migration stands.

    `is_open`: the pod template may move. `holds_workers`: no worker of the database may run,
    because this Queue migrates exclusively.
    """

    step: Step
    status: MigrationStatus | None
    schema: Statement
    is_open: bool = False
    holds_workers: bool = False


def record_of(
    job: JobView, outcome: Literal["Succeeded", "Failed", "Superseded"], version: int | None = None
) -> MigrationRecord:
    """Return what the history says of an ended Job."""
    return MigrationRecord(
        targetHash=job.target_hash,
        image=job.image,
        outcome=outcome,
        schemaVersion=version,
        completionTime=job.ended_at,
    )
