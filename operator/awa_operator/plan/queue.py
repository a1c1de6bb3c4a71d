"""The plan of one Queue: the stages in their order, each a pure function of what was observed."""

from collections.abc import Iterable
from datetime import datetime, timedelta

from awa_operator.actions import Action, MarkWorkerDead, Plan, Stage, Waiting
from awa_operator.conditions import Reason
from awa_operator.observed import Observed
from awa_operator.plan.events import plan_events
from awa_operator.plan.housekeeping import plan_housekeeping
from awa_operator.plan.migration import plan_migration
from awa_operator.plan.rollout import plan_rollout
from awa_operator.plan.satellites import plan_satellites
from awa_operator.plan.scale import count_replicas, plan_scale
from awa_operator.plan.status import Parts, plan_status, workers_statement
from awa_operator.plan.step import Step, earliest
from awa_operator.plan.template import plan_template
from awa_operator.plan.usable import plan_usable

SOONEST = timedelta(milliseconds=100)


def plan_queue(observed: Observed, now: datetime) -> Plan:
    """Return what to do and what to report now. Pure: the same arguments, the same plan.

    Nothing is done that the plan before, executed or not, has not left to be done: a plan made
    again after its actions took effect has none.
    """
    if observed.is_deleting:
        return _left_alone(observed)
    usable = plan_usable(observed, now)
    template = plan_template(observed)
    migration = plan_migration(observed, template, usable, now)
    count = count_replicas(observed, template, migration, now)
    rollout = plan_rollout(observed, template, migration, count.desired, now)
    scale = plan_scale(
        observed, count, now, is_moving=rollout.is_moving, is_applying=rollout.is_applying
    )
    satellites = plan_satellites(observed, now)
    parts = Parts(
        template=template,
        usable=usable,
        migration=migration,
        rollout=rollout,
        scale=scale,
        satellites=satellites,
    )
    steps = (usable.step, migration.step, scale.step, rollout.step, satellites.step)
    actions = _actions(observed, steps)
    status = plan_status(observed, parts, now)
    return Plan(
        actions=actions,
        status=status,
        requeue_after=_requeue_after(steps, now),
        waiting=_waiting(observed, parts, steps),
        events=plan_events(observed, actions, status, satellites.step.noted),
        history=scale.history,
        refusals=satellites.refusals,
    )


def _left_alone(observed: Observed) -> Plan:
    words = "Being deleted: garbage collection takes what it owns"
    return Plan(
        actions=(),
        status=observed.status,
        requeue_after=None,
        waiting=(Waiting(Stage.GATE, Reason.DELETING, words),),
        events=(),
        history=observed.history,
    )


def _actions(observed: Observed, steps: Iterable[Step]) -> tuple[Action, ...]:
    """Return all actions, the count before the template: its precondition is of this moment."""
    actions: list[Action] = []
    for step in steps:
        actions += [one for one in step.actions if one not in actions]
    actions += plan_housekeeping(observed)
    if observed.database is not None and observed.database.is_reachable:
        actions += [
            MarkWorkerDead(worker_id=lost.worker_id, reason=f"pod {lost.pod}: {lost.reason}")
            for lost in observed.lost_workers
        ]
    return tuple(actions)


def _waiting(observed: Observed, parts: Parts, steps: Iterable[Step]) -> tuple[Waiting, ...]:
    found = [one for step in steps for one in step.waiting]
    workers, beside = workers_statement(observed, parts), parts.satellites.step.waiting
    if workers.holds is not True and len(found) == len(beside):
        found.append(Waiting(Stage.ROLLOUT, workers.reason, workers.message))
    return tuple(dict.fromkeys(found))


def _requeue_after(steps: Iterable[Step], now: datetime) -> timedelta | None:
    due = earliest(*(step.due for step in steps))
    return None if due is None else max(due - now, SOONEST)
