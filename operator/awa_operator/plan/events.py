"""Events: one for each transition, from the status before and the plan."""

from collections.abc import Iterable, Iterator

from awa.manifest import Condition, ConditionType, QueueStatus
from awa.manifest.status import MigrationStatus, RolloutStatus
from awa.manifest.worker import DRAIN_MARGIN_SECONDS
from awa_operator.actions import Action, CreateJob, EmitEvent, SetReplicas, Waiting
from awa_operator.conditions import Reason, find_condition, safe_message
from awa_operator.observed import Observed
from awa_operator.plan.budget import budget_warning

MAX_NOTE = 500
ROLLOUT_COMPLETED = "RolloutCompleted"


def plan_events(
    observed: Observed, actions: Iterable[Action], status: QueueStatus, notes: Iterable[Waiting]
) -> tuple[EmitEvent, ...]:
    """Return what changed that a person would want to be told; `notes` stand behind Ready."""
    events = [
        *_of_actions(actions),
        *_of_migration(observed.status, status),
        *_of_conditions(observed.status, status),
        *_of_spec(observed, status),
        *_of_budget(observed),
        *_of_notes(observed, notes),
    ]
    return tuple(_bounded(event) for event in events)


def _of_actions(actions: Iterable[Action]) -> Iterator[EmitEvent]:
    for action in actions:
        if isinstance(action, CreateJob):
            yield EmitEvent(reason="MigrationStarted", message=f"Created Job {action.name}")
        elif isinstance(action, SetReplicas) and action.before != action.after:
            yield _scaled(action)


def _scaled(action: SetReplicas) -> EmitEvent:
    reason = "ScaledUp" if action.after > action.before else "ScaledDown"
    if action.before == 0:
        reason = "ActivatedFromZero"
    words = f"From {action.before} to {action.after} workers: {action.reason}"
    return EmitEvent(reason=reason, message=words)


def _of_migration(before: QueueStatus, after: QueueStatus) -> Iterator[EmitEvent]:
    old, new = before.migration or MigrationStatus(), after.migration or MigrationStatus()
    if new.succeeded_hash and new.completion_time != old.completion_time:
        words = f"The schema is migrated for {after.target_image}"
        yield EmitEvent(reason="MigrationSucceeded", message=words)
    if new.next_attempt_time and new.next_attempt_time != old.next_attempt_time:
        failed = find_condition(after, ConditionType.SCHEMA_MIGRATED)
        words = failed.message if failed else ""
        yield EmitEvent(reason="MigrationAttemptFailed", message=words, is_warning=True)
    was, now = before.rollout or RolloutStatus(), after.rollout or RolloutStatus()
    if now.template_hash and now.template_hash != was.template_hash:
        words = f"Workers of {after.target_image} are being rolled out"
        yield EmitEvent(reason="RolloutStarted", message=words)
    rolling = find_condition(before, ConditionType.RECONCILING)
    ready = find_condition(after, ConditionType.READY)
    was_rolling = rolling is not None and rolling.reason == Reason.ROLLING_OUT
    if was_rolling and ready is not None and ready.status == "True":
        words = f"Workers of {after.image} are rolled out"
        yield EmitEvent(reason=ROLLOUT_COMPLETED, message=words)


def _of_conditions(before: QueueStatus, after: QueueStatus) -> Iterator[EmitEvent]:
    stalled = find_condition(after, ConditionType.STALLED)
    if stalled and stalled.status == "True" and _is_news(before, stalled):
        yield EmitEvent(reason=stalled.reason, message=stalled.message, is_warning=True)
    database = find_condition(after, ConditionType.DATABASE_REACHABLE)
    was = find_condition(before, ConditionType.DATABASE_REACHABLE)
    if database is None:
        return
    if database.status == "False" and _is_news(before, database):
        words = f"{database.reason}: {database.message}"
        yield EmitEvent(reason="DatabaseUnreachable", message=words, is_warning=True)
    elif database.status == "True" and was is not None and was.status == "False":
        yield EmitEvent(reason="DatabaseRecovered", message=database.message)


def _is_news(before: QueueStatus, condition: Condition) -> bool:
    was = find_condition(before, ConditionType(condition.type))
    return was is None or (was.status, was.reason) != (condition.status, condition.reason)


def _of_spec(observed: Observed, status: QueueStatus) -> Iterator[EmitEvent]:
    """Warn once of what works and is not wise: when the spec has changed."""
    if observed.status.observed_generation == observed.generation:
        return
    image = observed.queue.spec.worker.image
    if "@" not in image and image != observed.status.target_image:
        words = f"{image} has no digest: its content can change without a rollout"
        yield EmitEvent(reason="ImageNotPinned", message=words, is_warning=True)
    if (grace := _overridden_grace(observed)) is not None:
        words = (
            f"worker.podTemplate gives pods {grace} s to end, less than drainTimeoutSeconds + "
            f"{DRAIN_MARGIN_SECONDS}: they are killed while they drain"
        )
        yield EmitEvent(reason="GracePeriodTooShort", message=words, is_warning=True)


def _of_budget(observed: Observed) -> Iterator[EmitEvent]:
    warning = budget_warning(observed)
    before = find_condition(observed.status, ConditionType.SCALING_ACTIVE)
    if warning is not None and (before is None or safe_message(warning) not in before.message):
        yield EmitEvent(reason="TooManyConnections", message=warning, is_warning=True)


def _of_notes(observed: Observed, notes: Iterable[Waiting]) -> Iterator[EmitEvent]:
    before = find_condition(observed.status, ConditionType.READY)
    for note in notes:
        if before is None or note.message not in before.message:
            yield EmitEvent(reason=note.reason, message=note.message, is_warning=True)


def _overridden_grace(observed: Observed) -> int | None:
    worker = observed.queue.spec.worker
    spec = (worker.pod_template or {}).get("spec")
    grace = spec.get("terminationGracePeriodSeconds") if isinstance(spec, dict) else None
    least = worker.drain_timeout_seconds + DRAIN_MARGIN_SECONDS
    return grace if isinstance(grace, int) and grace < least else None


def _bounded(event: EmitEvent) -> EmitEvent:
    message = safe_message(event.message, MAX_NOTE)
    return EmitEvent(reason=event.reason, message=message, is_warning=event.is_warning)
