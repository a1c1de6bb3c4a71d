"""S10 and S11: the template moves when the gate is open, and what came of it.

The Deployment's template is applied whole or not at all, and only here. Nothing is taken away from
the old template's pods before the new one's are available: that is Kubernetes' own rolling update.
"""

import json
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from awa.manifest.status import RolloutStatus
from awa_operator import labels
from awa_operator.actions import (
    SCALE_MANAGER,
    TEMPLATE_MANAGER,
    ApplyTemplate,
    Stage,
    Waiting,
)
from awa_operator.conditions import Reason
from awa_operator.identity import canonical_json, template_hash
from awa_operator.names import worker_name
from awa_operator.observed import DeploymentView, Observed, PodTrouble
from awa_operator.plan import group
from awa_operator.plan.gate import Migration
from awa_operator.plan.step import Step
from awa_operator.plan.template import Template, base_template, kept_annotations, refusal
from awa_operator.render.deployment import render_deployment

DEADLINE_EXCEEDED = "ProgressDeadlineExceeded"
COMPLETE = "NewReplicaSetAvailable"
TURN_AGAIN = timedelta(seconds=5)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rollout:
    """What is applied, and how far it is.

    `is_rolled_out`: all pods are of the live template. `is_moving`: a template is applied in this
    pass.
    """

    step: Step
    status: RolloutStatus
    is_rolled_out: bool = False
    is_moving: bool = False

    @property
    def is_applying(self) -> bool:
        """Whether a template is applied in this pass, a new one or the live one once more."""
        return any(isinstance(action, ApplyTemplate) for action in self.step.actions)


def plan_rollout(
    observed: Observed, template: Template, migration: Migration, replicas: int, now: datetime
) -> Rollout:
    """Return what is to be applied. `replicas` is the count that a new Deployment starts with."""
    live = observed.deployment
    if (conflict := name_conflict(observed)) is not None:
        return _rollout(observed, Step(stalled=conflict))
    if live is None:
        return _created(observed, template, migration, replicas, now)
    if live.is_deleting:
        words = "The Deployment is being deleted; a new one follows"
        return _rollout(observed, Step(progressing=_wait(Reason.REPLACING, words)))
    rollback = _rolled_back(observed, live, template)
    if rollback is not None:
        return _moved(observed, Step(actions=(rollback,), progressing=_rolling(observed)))
    if template.is_pending:
        return _pending(observed, live, template, migration, now)
    step = _progress(live, template)
    if again := _applied_again(observed, live, template, migration):
        step = Step(
            actions=(again,), progressing=step.progressing, stalled=step.stalled, noted=step.noted
        )
    return _rollout(observed, step)


def name_conflict(observed: Observed) -> Waiting | None:
    """Return that a name is taken: of the Deployment in the cluster, or of the queue."""
    live, holder = observed.deployment, group.holder_of_queue(observed)
    if live is not None and not live.is_ours:
        deployment = worker_name(observed.queue.metadata.name)
        words = f"Deployment {deployment} belongs to someone else; rename it or this Queue"
        return Waiting(Stage.TEMPLATE, Reason.NAME_CONFLICT, words)
    if holder is not None:
        queue = observed.queue.queue_name
        words = (
            f'Queue {holder} serves queue "{queue}" of the same database already; create this one '
            "anew with another spec.queueName, or delete one of them"
        )
        return Waiting(Stage.TEMPLATE, Reason.NAME_CONFLICT, words)
    return None


def is_rolled_out(live: DeploymentView) -> bool:
    """Tell whether every pod is of the live template; none of none counts."""
    if live.observed_generation < live.generation or live.total != live.updated:
        return False
    return live.replicas == 0 or live.progress_reason == COMPLETE


def _created(
    observed: Observed, template: Template, migration: Migration, replicas: int, now: datetime
) -> Rollout:
    if observed.queue.spec.suspend:
        words = "Suspended: there are no workers yet and none are made"
        return _rollout(observed, Step(noted=(Waiting(Stage.GATE, Reason.SUSPENDED, words),)))
    if not migration.is_open:
        return _rollout(observed, _gated(migration))
    refused = refusal(observed, template, now)
    if refused.waiting:
        return _rollout(observed, refused)
    manifest = render_deployment(
        observed.queue, template.wanted, _annotations(observed, None, template), replicas
    )
    action = ApplyTemplate(manifest=manifest, template_hash=template.wanted_hash)
    return _moved(observed, Step(actions=(action,), progressing=_rolling(observed)))


def _pending(
    observed: Observed,
    live: DeploymentView,
    template: Template,
    migration: Migration,
    now: datetime,
) -> Rollout:
    """Roll a template out, or keep the live one as it is until that may be done."""
    held = _gated(migration) if not migration.is_open else refusal(observed, template, now)
    if not held.waiting and observed.queue.spec.rollout.paused:
        words = "rollout.paused is set: the running template is kept"
        held = Step(progressing=_wait(Reason.ROLLOUT_PAUSED, words))
    if not held.waiting and not observed.is_budget_for_rollouts_left:
        words = "As many other rollouts run as may run at once"
        # Nobody tells that another rollout has ended.
        held = Step(progressing=_wait(Reason.WAITING_FOR_TURN, words), due=now + TURN_AGAIN)
    if held.waiting:
        again = _applied_again(observed, live, template, migration)
        actions = (again,) if again else ()
        step = Step(
            actions=actions, progressing=held.progressing, stalled=held.stalled,
            noted=held.noted, due=held.due,
        )  # fmt: skip
        return _rollout(observed, step)
    annotations = _annotations(observed, live, template)
    manifest = render_deployment(observed.queue, template.wanted, annotations)
    action = ApplyTemplate(manifest=manifest, template_hash=template.wanted_hash)
    return _moved(observed, Step(actions=(action,), progressing=_rolling(observed)))


def _gated(migration: Migration) -> Step:
    """Return that the template waits for the gate; who closed it says why."""
    words = "The pod template waits for the migration"
    named = migration.step.stalled or migration.step.progressing
    if named is not None:
        words = f"{words}: {named.reason}"
    return Step(noted=(Waiting(Stage.TEMPLATE, Reason.WAITING_FOR_MIGRATION, words),))


def _rolled_back(
    observed: Observed, live: DeploymentView, template: Template
) -> ApplyTemplate | None:
    """Return the last good template when the live one has stalled: once for each template."""
    wanted = observed.queue.spec.rollout.auto_rollback and not observed.queue.spec.suspend
    is_stalled = live.progress_reason == DEADLINE_EXCEEDED
    current = live.observed_generation >= live.generation
    if not (wanted and template.is_live and is_stalled and current) or not live.last_good_template:
        return None
    good = json.loads(live.last_good_template)
    if live.last_good_template == live.stored_template or live.rolled_back_hash is not None:
        return None
    annotations = {
        labels.TEMPLATE: canonical_json(good),
        labels.TEMPLATE_HASH: template_hash(good),
        labels.LAST_GOOD_TEMPLATE: live.last_good_template,
        labels.ROLLED_BACK: template.wanted_hash,
    }
    manifest = render_deployment(observed.queue, good, annotations)
    return ApplyTemplate(manifest=manifest, template_hash=annotations[labels.TEMPLATE_HASH])


def _applied_again(
    observed: Observed, live: DeploymentView, template: Template, migration: Migration
) -> ApplyTemplate | None:
    """Return the live template once more: to undo a foreign edit, or to give up the count.

    The count is given up only when the scale manager has it too: a field that nobody owns would
    fall back to its default.
    """
    co_owned = {TEMPLATE_MANAGER, SCALE_MANAGER} <= live.replicas_managers
    if not template.is_drifted and not co_owned:
        return None
    base = base_template(live, template.wanted)
    if base is None:
        return None
    manifest = render_deployment(observed.queue, base, kept_annotations(observed, live))
    return ApplyTemplate(manifest=manifest, template_hash=live.template_hash or "")


def _annotations(
    observed: Observed, live: DeploymentView | None, template: Template
) -> dict[str, str]:
    annotations = {
        labels.TEMPLATE: canonical_json(template.wanted),
        labels.TEMPLATE_HASH: template.wanted_hash,
    }
    good = _last_good(observed, live) if live is not None else None
    if observed.queue.spec.rollout.auto_rollback and good is not None:
        annotations[labels.LAST_GOOD_TEMPLATE] = good
    return annotations


def _last_good(observed: Observed, live: DeploymentView) -> str | None:
    """Return the template to go back to: the live one if it is good, else the one before."""
    rollout = observed.status.rollout
    good_hash = rollout.last_good_template_hash if rollout else None
    is_live_good = live.template_hash is not None and live.template_hash == good_hash
    return live.stored_template if is_live_good else live.last_good_template


def _progress(live: DeploymentView, template: Template) -> Step:
    """S11: how far the live template is."""
    if template.is_rolled_back:
        words = (
            "The rollout stalled and the last good template was restored; change the spec to try "
            f"again. {_trouble(live)}"
        )
        return Step(stalled=_wait(Reason.ROLLED_BACK, words.strip()))
    if live.observed_generation >= live.generation and live.progress_reason == DEADLINE_EXCEEDED:
        words = f"The new pods did not become available in time. {_trouble(live)}"
        return Step(stalled=_wait(Reason.ROLLOUT_STALLED, words.strip()))
    if not is_rolled_out(live):
        # As it was said when the template was applied, so that nothing is written again for it;
        # that new pods are not ready at first goes without saying.
        problem, words = live.pod_problem, _rolling_words(live.image)
        if problem is not None and problem.reason is not PodTrouble.NOT_READY:
            words = f"{words}. {_trouble(live)}"
        return Step(progressing=_wait(Reason.ROLLING_OUT, words))
    return Step()


def _trouble(live: DeploymentView) -> str:
    problem = live.pod_problem
    return f"{problem.reason}: {problem.message}" if problem is not None else ""


def _rolling(observed: Observed) -> Waiting:
    return _wait(Reason.ROLLING_OUT, _rolling_words(observed.queue.spec.worker.image))


def _rolling_words(image: str) -> str:
    return f"Workers of {image} are being rolled out"


def _wait(reason: Reason, words: str) -> Waiting:
    return Waiting(Stage.ROLLOUT, reason, words)


def _moved(observed: Observed, step: Step) -> Rollout:
    applied = next(one for one in step.actions if isinstance(one, ApplyTemplate))
    before = observed.status.rollout or RolloutStatus()
    status = before.model_copy(update={"template_hash": applied.template_hash})
    return Rollout(step=step, status=status, is_moving=True)


def _rollout(observed: Observed, step: Step) -> Rollout:
    live = observed.deployment
    before = observed.status.rollout or RolloutStatus()
    if live is None or not live.is_ours:
        return Rollout(step=step, status=before)
    done = is_rolled_out(live) and not live.is_deleting
    update: dict[str, Any] = {"template_hash": live.template_hash}
    # A template that no pod has proved is not yet one to go back to.
    if done and live.available > 0 and live.template_hash is not None:
        update |= {"last_good_template_hash": live.template_hash, "last_good_image": live.image}
    return Rollout(step=step, status=before.model_copy(update=update), is_rolled_out=done)
