"""The whole status of a Queue. The most urgent reason wins."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from awa.manifest import ConditionType, QueueStatus
from awa.manifest.status import DatabaseStatus, short_image
from awa_operator import labels
from awa_operator.actions import Stage, Waiting
from awa_operator.conditions import (
    MAX_MESSAGE,
    Reason,
    Statement,
    dated,
    safe_message,
    said_before,
)
from awa_operator.observed import Observed, PodTrouble
from awa_operator.plan import group
from awa_operator.plan.budget import budget_warning
from awa_operator.plan.gate import Migration
from awa_operator.plan.records import seen_version
from awa_operator.plan.rollout import Rollout
from awa_operator.plan.satellites import Satellites
from awa_operator.plan.scale import Scale
from awa_operator.plan.template import Template
from awa_operator.plan.usable import Usable


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """What the stages found."""

    template: Template
    usable: Usable
    migration: Migration
    rollout: Rollout
    scale: Scale
    satellites: Satellites


def plan_status(observed: Observed, parts: Parts, now: datetime) -> QueueStatus:
    """Return the status that says what the stages found."""
    live = observed.deployment if observed.deployment and observed.deployment.is_ours else None
    before = observed.status
    image = live.image if live is not None and parts.rollout.is_rolled_out else before.image
    return before.model_copy(
        update={
            "observed_generation": observed.generation,
            "replicas": live.total if live else 0,
            "ready_replicas": live.ready if live else 0,
            "updated_replicas": live.updated if live else 0,
            "desired_replicas": parts.scale.desired,
            "selector": labels.selector(labels.worker_selector(observed.queue.metadata.name)),
            "image": image,
            "short_image": short_image(image) if image else None,
            "target_image": observed.queue.spec.worker.image,
            "migration": parts.migration.status,
            "rollout": parts.rollout.status,
            "scaling": parts.scale.status,
            "database": _database(observed),
            "conditions": dated(before, _statements(observed, parts), observed.generation, now),
        }
    )


def invalid_status(
    previous: QueueStatus, generation: int, problems: Sequence[str], now: datetime
) -> QueueStatus:
    """Return the status of a Queue whose spec cannot be read: Stalled, reason InvalidSpec.

    What was known of it stays, for its workers go on.
    """
    words = "The spec cannot be read: " + "; ".join(problems)
    conditions = {one.type: one for one in previous.conditions}
    statements = [
        Statement(ConditionType.READY, False, Reason.INVALID_SPEC, words),
        Statement(ConditionType.RECONCILING, False, Reason.SETTLED),
        Statement(ConditionType.STALLED, True, Reason.INVALID_SPEC, words),
    ]
    for kind in list(ConditionType)[len(statements) :]:
        known = conditions.get(kind)
        if known is None:
            statements.append(Statement(kind, None, Reason.INVALID_SPEC, words))
        else:
            statements.append(said_before(known))
    update = {
        "observed_generation": generation,
        "conditions": dated(previous, statements, generation, now),
    }
    return previous.model_copy(update=update)


def stalled_by(parts: Parts) -> Waiting | None:
    """Return what needs a human, the most urgent first.

    While this Queue holds all workers of the database, the word that it does so comes first:
    others wait for it, and what stalled before may be over afterwards.
    """
    if parts.migration.step.stalled or not parts.migration.holds_workers:
        return parts.migration.step.stalled or parts.rollout.step.stalled
    return None


def progressing_by(observed: Observed, parts: Parts) -> Waiting | None:
    """Return what is going on, the most urgent first."""
    migration, usable = parts.migration.step.progressing, parts.usable.step.progressing
    if observed.queue.spec.suspend:
        return _draining(observed) or (migration if _is_running(parts) else None)
    held = parts.scale.step.noted[0] if parts.scale.step.noted else None
    if held is not None and held.reason != Reason.HELD_BY_MIGRATION:
        held = None
    # A window of this Queue's own is announced in any case: others wait for the word.
    first = (migration, usable) if parts.migration.holds_workers else (usable, migration)
    found = (*first, held, parts.rollout.step.progressing)
    return next((one for one in found if one is not None), None)


def workers_statement(observed: Observed, parts: Parts) -> Statement:
    """Return whether as many workers work as must."""
    kind, live = ConditionType.WORKERS_AVAILABLE, observed.deployment
    if live is None or not live.is_ours or live.is_deleting:
        if observed.queue.spec.suspend:
            return Statement(kind, True, Reason.NONE_WANTED, "Suspended: no workers are wanted")
        if live is not None or not parts.rollout.is_applying:
            return Statement(kind, False, Reason.NO_PODS, "There are no workers yet")
        # What the next look would say anyway: the Deployment is made with this plan.
        return _none_wanted() if parts.scale.desired == 0 else _too_few()
    if live.replicas == 0 and parts.scale.desired == 0:
        return _none_wanted()
    if live.is_available and live.available > 0:
        return Statement(kind, True, Reason.AVAILABLE, "Enough workers are available")
    problem = live.pod_problem
    if problem is None or problem.reason is PodTrouble.NOT_READY:
        return _too_few()
    return Statement(kind, False, problem.reason, problem.message)


def _none_wanted() -> Statement:
    words = "No workers are wanted, and none run"
    return Statement(ConditionType.WORKERS_AVAILABLE, True, Reason.NONE_WANTED, words)


def _too_few() -> Statement:
    words = "Too few workers are ready"
    return Statement(ConditionType.WORKERS_AVAILABLE, False, Reason.NOT_READY, words)


def _statements(observed: Observed, parts: Parts) -> list[Statement]:
    workers = workers_statement(observed, parts)
    stalled = stalled_by(parts)
    # Both at once would hide that a human is needed: tools look at Reconciling first.
    progressing = None if stalled is not None else progressing_by(observed, parts)
    return [
        _with_satellites(parts, _ready(observed, parts, workers, stalled or progressing)),
        _told(ConditionType.RECONCILING, progressing, Reason.SETTLED),
        _told(ConditionType.STALLED, stalled, Reason.NO_PROBLEM),
        parts.usable.condition,
        parts.migration.schema,
        workers,
        _with_budget(observed, parts.scale.condition),
    ]


def _with_budget(observed: Observed, scaling: Statement) -> Statement:
    warning = budget_warning(observed)
    if warning is None:
        return scaling
    return replace(scaling, message=f"{scaling.message}. {warning}")


def _with_satellites(parts: Parts, ready: Statement) -> Statement:
    """Add what stands beside the workers and cannot be written: they work without it."""
    notes = ". ".join(one.message for one in parts.satellites.step.noted)
    if not notes:
        return ready
    said = safe_message(ready.message, MAX_MESSAGE - len(notes) - 2)
    return replace(ready, message=f"{said}. {notes}")


def _told(kind: ConditionType, waiting: Waiting | None, otherwise: Reason) -> Statement:
    if waiting is None:
        return Statement(kind, False, otherwise)
    return Statement(kind, True, waiting.reason, waiting.message)


def _ready(
    observed: Observed, parts: Parts, workers: Statement, urgent: Waiting | None
) -> Statement:
    kind = ConditionType.READY
    if urgent is not None:
        return Statement(kind, False, urgent.reason, urgent.message)
    if observed.queue.spec.suspend:
        return Statement(kind, True, Reason.SUSPENDED, "Suspended: nothing is wanted, nothing runs")
    for needed in (parts.usable.condition, parts.migration.schema, workers):
        if needed.holds is not True:
            return Statement(kind, False, needed.reason, needed.message)
    if not parts.rollout.is_rolled_out or parts.template.is_pending:
        words = "The workers are not yet of the template that the spec asks for"
        return Statement(kind, False, Reason.ROLLING_OUT, words)
    return Statement(kind, True, Reason.READY, workers.message)


def _draining(observed: Observed) -> Waiting | None:
    live = observed.deployment
    left = max(live.replicas, live.total) if live is not None else 0
    if max(left, observed.worker_pods) == 0:
        return None
    return Waiting(Stage.GATE, Reason.DRAINING, "Suspended: workers finish their jobs and end")


def _is_running(parts: Parts) -> bool:
    return parts.migration.schema.reason == Reason.RUNNING


def _database(observed: Observed) -> DatabaseStatus:
    seen = seen_version(observed)
    return DatabaseStatus(identity=group.identity_of(observed), schemaVersion=seen)
