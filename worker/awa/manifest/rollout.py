"""`spec.migration` and `spec.rollout`: the schema first, then the workers."""

from typing import Annotated, Literal

from pydantic import Field

from awa.manifest.part import Part, Rule
from awa.manifest.pod import EnvList, Resources
from awa.manifest.values import Bool, Command, CountOrPercent, Image, Int, Name


class Migration(Part):
    """How the schema of the database is brought up to date."""

    mode: Literal["Job", "External", "None"] = "Job"
    """`Job`: the operator runs `command` and waits for its success. `External`: someone else
    migrates, the operator only checks. `None`: nobody checks."""
    image: Image | None = None
    """Image of the migration; that of the worker if not set."""
    command: Command | None = None
    """Program and first arguments, such as `[awa, migrate]`; needed in mode `Job`."""
    args: Command | None = None
    """Further arguments."""
    env: EnvList = ()
    """Environment variables, in addition to those of Awa."""
    resources: Resources | None = None
    """What the migration's pod asks for and may use."""
    service_account_name: Name | None = None
    """Service account of the migration's pod."""
    strategy: Literal["Rolling", "Exclusive"] = "Rolling"
    """`Rolling`: old workers go on during the migration. `Exclusive`: every worker of the database
    is drained first."""
    active_deadline_seconds: Annotated[Int, Field(ge=30, le=86400)] = 3600
    """The longest that one attempt may take."""
    max_attempts: Annotated[Int, Field(ge=1, le=100)] = 5
    """Attempts after failures that may pass by themselves."""
    permanent_exit_codes: Annotated[
        tuple[Annotated[Int, Field(ge=1, le=255)], ...], Field(max_length=16)
    ] = (64, 65, 78)
    """Exit codes after which another attempt is useless."""
    ttl_seconds_after_finished: Annotated[Int, Field(ge=0, le=31536000)] = 86400
    """How long a finished Job is kept, once its result is recorded."""
    history_limit: Annotated[Int, Field(ge=0, le=20)] = 3
    """Failed Jobs that are kept."""

    RULES = (
        Rule(
            cel="self.mode != 'Job' || (has(self.command) && size(self.command) > 0)",
            message="is needed in mode Job, for example [awa, migrate]; "
            "or set mode to External if someone else migrates",
            field="command",
            holds=lambda migration: migration.mode != "Job" or bool(migration.command),
        ),
    )


class Rollout(Part):
    """How workers are replaced by those of a new template."""

    max_surge: CountOrPercent = "25%"
    """Pods above the wanted count during a rollout."""
    max_unavailable: CountOrPercent = "25%"
    """Pods below the wanted count during a rollout."""
    min_ready_seconds: Annotated[Int, Field(ge=0, le=86399)] = 5
    """How long a new pod must be ready before it counts as available."""
    progress_deadline_seconds: Annotated[Int, Field(ge=1, le=86400)] = 600
    """After how long without progress a rollout counts as stalled."""
    auto_rollback: Bool = False
    """Go back to the last good template when a rollout stalls, once per template."""
    paused: Bool = False
    """Keep the running template; scaling goes on."""
    rotate_on_secret_change: Bool = True
    """Replace workers when the data of their database Secret changes."""

    RULES = (
        Rule(
            cel="self.progressDeadlineSeconds > self.minReadySeconds",
            message="must be more than minReadySeconds, or no rollout can succeed",
            field="progressDeadlineSeconds",
            holds=lambda rollout: rollout.progress_deadline_seconds > rollout.min_ready_seconds,
        ),
    )
