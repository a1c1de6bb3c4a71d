"""S12: how many workers there are, and who says so.

Exactly one decides: the spec (`Fixed`), another scaler through the Queue's scale subresource
(`External`), or the planner of `awa.scaling` (`Native`). A hold, by suspension or an exclusive
migration, comes before all of them, and gives the count back that it found.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from awa.manifest import ConditionType, scaling_spec
from awa.manifest.status import ScalingStatus
from awa.scaling import Decision, ScalingSpec, decide
from awa.scaling.history import History
from awa.scaling.reasons import Limit
from awa.scaling.signals import Signals, Unknown
from awa_operator import labels
from awa_operator.actions import (
    SCALE_MANAGER,
    TEMPLATE_MANAGER,
    Action,
    RankPods,
    SetReplicas,
    Stage,
    Waiting,
)
from awa_operator.conditions import Reason, Statement, find_condition, said_before
from awa_operator.observed import DeploymentView, Observed, SignalsView
from awa_operator.plan import group
from awa_operator.plan.gate import Migration
from awa_operator.plan.step import Step
from awa_operator.plan.template import Template
from awa_operator.render.deployment import render_replicas

IDLE_COST = 0
BUSY_COST = 10
MAX_COST = 2**31 - 1

AFTER_POLL = timedelta(milliseconds=500)
"""How much later than due a poll may end."""

RESUMED = "Resumed"
REPLICAS_SET = "ReplicasSet"


@dataclass(frozen=True, slots=True, kw_only=True)
class Count:
    """How many there should be, why, and what is remembered of it."""

    desired: int
    reason: str
    condition: Statement
    history: History
    holds: Waiting | None = None
    due: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Scale:
    """The count, and what is done to reach it."""

    step: Step
    desired: int
    status: ScalingStatus | None
    condition: Statement
    history: History
    change: SetReplicas | None = None


def deletion_cost(running: int, oldest: timedelta) -> int:
    """Return what taking a pod costs: nothing when idle, more the longer its oldest job runs."""
    if running == 0:
        return IDLE_COST
    return min(BUSY_COST + max(0, int(oldest.total_seconds())), MAX_COST)


def count_replicas(
    observed: Observed, template: Template, migration: Migration, now: datetime
) -> Count:
    """Return how many workers there should be now."""
    held = _hold(observed, template, migration)
    if held is not None:
        return Count(
            desired=0,
            reason=held.reason,
            condition=Statement(ConditionType.SCALING_ACTIVE, False, held.reason, held.message),
            history=observed.history,
            holds=held,
        )
    if observed.foreign_scaler is not None and observed.deployment is not None:
        return _conflicting(observed, observed.deployment, observed.foreign_scaler)
    spec = scaling_spec(observed.queue)
    return _native(observed, spec, now) if spec is not None else _written(observed)


def plan_scale(
    observed: Observed, count: Count, now: datetime, *, is_moving: bool, is_applying: bool
) -> Scale:
    """Return what is done about the count.

    `is_moving`: a new template is applied in this pass; `is_applying`: that, or the live one again.
    The count that a Deployment was made with stays its template's until it changes, a template
    without a count is applied, or another scaler may come.
    """
    live = observed.deployment
    change: SetReplicas | None = None
    actions: list[Action] = []
    if live is not None and live.is_ours and not live.is_deleting:
        if is_moving and live.replicas == 0:
            # Waking waits for the next pass, so that no pod of the old template comes up.
            change = None if _is_owned(live, count) else _taken_over(observed, live, count)
        else:
            must_own = is_applying or observed.queue.spec.scaling.mode == "External"
            change = _change(observed, live, count, must_own=must_own)
    if change is not None:
        if 0 < change.after < change.before:
            selector = labels.selector(labels.worker_selector(observed.queue.metadata.name))
            actions.append(RankPods(selector=selector))
        actions.append(change)
    waiting = (count.holds,) if count.holds is not None else ()
    return Scale(
        step=Step(actions=tuple(actions), noted=waiting, due=count.due),
        desired=count.desired,
        status=_status(observed, count, change, now),
        condition=count.condition,
        history=count.history,
        change=change,
    )


def _hold(observed: Observed, template: Template, migration: Migration) -> Waiting | None:
    if observed.queue.spec.suspend:
        words = "Suspended: workers are drained and none are started"
        return Waiting(Stage.GATE, Reason.SUSPENDED, words)
    holders = sorted(group.holding_siblings(observed))
    if migration.holds_workers:
        holders = [observed.queue.metadata.name, *holders]
    if not holders and (job := group.holding_job(observed)) is not None:
        holders = [f"the Job {job.name}"]
    if not holders and _comes_back_changed(observed, template):
        holders = [observed.queue.metadata.name]
    if not holders:
        return None
    words = f"No worker runs while {', '.join(holders)} migrates the database exclusively"
    return Waiting(Stage.SCALE, Reason.HELD_BY_MIGRATION, words)


def _comes_back_changed(observed: Observed, template: Template) -> bool:
    """After an exclusive migration the old template's pods must not come back first."""
    live = observed.deployment
    is_held = live is not None and live.held_replicas is not None and live.replicas == 0
    return (
        is_held
        and template.is_pending
        and group.is_exclusive(observed.queue)
        and not observed.queue.spec.rollout.paused
        and group.is_recorded(observed, observed.queue)
    )


def _conflicting(observed: Observed, live: DeploymentView, scaler: str) -> Count:
    words = f"{scaler} scales the Deployment itself; let it scale the Queue, or remove it"
    return Count(
        desired=live.replicas,
        reason=Reason.CONFLICTING_SCALER,
        condition=Statement(ConditionType.SCALING_ACTIVE, False, Reason.CONFLICTING_SCALER, words),
        history=observed.history,
        holds=Waiting(Stage.SCALE, Reason.CONFLICTING_SCALER, words),
    )


def _written(observed: Observed) -> Count:
    """Return the spec's count (Fixed, External); without one the count that is there stays."""
    mode = Reason.FIXED if observed.queue.spec.scaling.mode == "Fixed" else Reason.EXTERNAL
    desired = observed.queue.spec.replicas
    if desired is None:
        live = observed.deployment
        present = live.held_replicas or live.replicas if live is not None else 1
        desired = max(1, present)
        words = f"spec.replicas is not set: {desired} stay"
    else:
        words = f"spec.replicas is {desired}"
    return Count(
        desired=desired,
        reason=REPLICAS_SET,
        condition=Statement(ConditionType.SCALING_ACTIVE, False, mode, words),
        history=observed.history,
    )


def _native(observed: Observed, spec: ScalingSpec, now: datetime) -> Count:
    live, signals = observed.deployment, observed.signals
    current = live.replicas if live is not None else 0
    if live is not None and live.held_replicas is not None:
        return _seen(observed, spec.clamp(live.held_replicas), RESUMED)
    if signals is None:
        first = current if live is not None else observed.queue.first_replicas
        return _seen(observed, spec.clamp(first), Limit.MIN_REPLICAS)
    ready = live.ready if live is not None else 0
    seen = signals.signals
    if isinstance(seen, Signals) and live is not None and not _has_worked(observed, live):
        seen = seen.before_new_handlers()
    # At the moment of the look, not now: a plan made twice of one look must not count it twice.
    decision = decide(spec, observed.history, seen, current, ready, signals.at)
    return Count(
        desired=decision.desired,
        reason=decision.reason,
        condition=_decided(observed, decision, spec),
        history=decision.history,
        due=_next_look(spec, signals, decision, now),
    )


def _has_worked(observed: Observed, live: DeploymentView) -> bool:
    """Tell whether a pod of the live template has ever been available."""
    rollout = observed.status.rollout
    return rollout is not None and rollout.last_good_template_hash == live.template_hash


def _next_look(
    spec: ScalingSpec, signals: SignalsView, decision: Decision, now: datetime
) -> datetime | None:
    """Return when to decide again though the queue may look the same: time alone moves the count.

    At the minimum it does not, so an idle queue there is left alone until it changes.
    """
    is_known = isinstance(signals.signals, Signals)
    if is_known and decision.desired <= spec.min_replicas:
        return None
    expected = signals.at + spec.poll_interval + AFTER_POLL
    return expected if expected > now else now + spec.poll_interval / 2


def _seen(observed: Observed, desired: int, reason: str) -> Count:
    before = find_condition(observed.status, ConditionType.SCALING_ACTIVE)
    words = "The queue has not been read yet; the count stays within its bounds"
    condition = Statement(ConditionType.SCALING_ACTIVE, None, Reason.METRICS_UNAVAILABLE, words)
    if reason == RESUMED:
        words = "The count of before comes back"
        condition = Statement(ConditionType.SCALING_ACTIVE, True, Reason.SCALING, words)
    elif before is not None and before.observed_generation == observed.generation:
        # After a restart of the operator what was said before still stands.
        condition = said_before(before)
    return Count(desired=desired, reason=reason, condition=condition, history=observed.history)


def _decided(observed: Observed, decision: Decision, spec: ScalingSpec) -> Statement:
    if observed.signals is None or isinstance(observed.signals.signals, Unknown):
        words = "The queue cannot be read; the count is held, and only the fallback raises it"
        return Statement(ConditionType.SCALING_ACTIVE, None, Reason.METRICS_UNAVAILABLE, words)
    if decision.wanted > spec.max_replicas and decision.desired == spec.max_replicas:
        words = f"The work asks for more than maxReplicas ({spec.max_replicas})"
        return Statement(ConditionType.SCALING_ACTIVE, False, Reason.AT_MAX, words)
    words = "The replica count follows the queue"
    if observed.queue.spec.replicas is not None:
        words += "; spec.replicas has no meaning in mode Native"
    return Statement(ConditionType.SCALING_ACTIVE, True, Reason.SCALING, words)


def _change(
    observed: Observed, live: DeploymentView, count: Count, *, must_own: bool
) -> SetReplicas | None:
    """Return the write that makes count, ownership and the mark of a hold what they should be."""
    held = _held_replicas(live, count)
    is_owned = not must_own or _is_owned(live, count)
    if live.replicas == count.desired and held == live.held_replicas and is_owned:
        return None
    manifest = render_replicas(observed.queue, count.desired, live.resource_version, held)
    return SetReplicas(
        manifest=manifest, before=live.replicas, after=count.desired, reason=count.reason
    )


def _is_owned(live: DeploymentView, count: Count) -> bool:
    """Tell whether the count stays what it is when a template without a count is applied."""
    if SCALE_MANAGER in live.replicas_managers:
        return True
    is_conflicting = count.reason == Reason.CONFLICTING_SCALER
    return is_conflicting and TEMPLATE_MANAGER not in live.replicas_managers


def _taken_over(observed: Observed, live: DeploymentView, count: Count) -> SetReplicas:
    """Return the present count and mark, written by the manager that keeps them."""
    manifest = render_replicas(
        observed.queue, live.replicas, live.resource_version, live.held_replicas
    )
    return SetReplicas(
        manifest=manifest, before=live.replicas, after=live.replicas, reason=count.reason
    )


def _held_replicas(live: DeploymentView, count: Count) -> int | None:
    """Return the count to come back to after a hold; None when there is no hold."""
    if count.reason == Reason.CONFLICTING_SCALER:
        return live.held_replicas
    if count.holds is None:
        return None
    if live.held_replicas is not None:
        return live.held_replicas
    return live.replicas if live.replicas > 0 else None


def _status(
    observed: Observed, count: Count, change: SetReplicas | None, now: datetime
) -> ScalingStatus | None:
    """Return what survives a restart: of several last changes the latest."""
    told: Mapping[str, object] = count.history.to_status()
    if observed.queue.spec.scaling.mode != "Native" or observed.queue.spec.scaling.min_replicas:
        # Only the way to zero looks at these; they would change with every job.
        told = {name: told[name] for name in told if name.startswith("last")}
    before = observed.status.scaling or ScalingStatus()
    status = ScalingStatus.model_validate(told)
    is_older = before.last_scale_time is not None and (
        status.last_scale_time is None or status.last_scale_time < before.last_scale_time
    )
    last = before if is_older else status
    update: dict[str, object] = {
        "last_scale_time": last.last_scale_time,
        "last_scale_reason": last.last_scale_reason,
    }
    if change is not None and change.before != change.after:
        update = {"last_scale_time": now.replace(microsecond=0), "last_scale_reason": count.reason}
    status = status.model_copy(update=update)
    return status if status != ScalingStatus() else None
