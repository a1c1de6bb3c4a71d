"""S1: what the pods should be, how it differs from what they are, and whether it is accepted."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from awa_operator import labels
from awa_operator.actions import CheckTemplate, Stage, Waiting
from awa_operator.conditions import Reason
from awa_operator.identity import canonical_json, is_hash_of, template_hash
from awa_operator.observed import DeploymentView, Observed, SecretState
from awa_operator.plan.drift import contains
from awa_operator.plan.step import Step
from awa_operator.render.deployment import render_deployment, render_pod_template

REFUSED_AGAIN = timedelta(seconds=30)


@dataclass(frozen=True, slots=True, kw_only=True)
class Template:
    """The pod template that the spec asks for, beside the live one."""

    wanted: Mapping[str, Any]
    wanted_hash: str
    is_live: bool
    """The live Deployment has it, as far as we applied it."""
    is_rolled_back: bool
    """It was tried and taken back; another spec is needed."""
    is_drifted: bool
    """Somebody else changed what we applied."""

    @property
    def is_pending(self) -> bool:
        """It is to be rolled out, once it may."""
        return not self.is_live and not self.is_rolled_back


def plan_template(observed: Observed) -> Template:
    """Return the template that the spec asks for, compared with the live Deployment."""
    live = observed.deployment
    wanted = render_pod_template(observed.queue, secret_mark(observed))
    return Template(
        wanted=wanted,
        wanted_hash=template_hash(wanted),
        is_live=live is not None and _is_applied(live, wanted),
        is_rolled_back=live is not None and is_hash_of(live.rolled_back_hash, wanted),
        is_drifted=live is not None and _is_drifted(observed, live, wanted),
    )


def secret_mark(observed: Observed) -> str | None:
    """Return the mark of the workers' Secret for the template.

    What runs keeps its mark while the Secret cannot be read, and when its changes do not count.
    """
    live = observed.deployment
    kept = live.secret_hash if live is not None else None
    secret = observed.secrets.connection
    if not observed.queue.spec.rollout.rotate_on_secret_change:
        return kept
    return secret.data_hash if secret.state is SecretState.FOUND else kept


def base_template(live: DeploymentView, wanted: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Return what we last applied to the live Deployment; None when nobody knows."""
    if _is_applied(live, wanted):
        return wanted
    if live.stored_template is None:
        return None
    stored = json.loads(live.stored_template)
    return stored if isinstance(stored, dict) else None


def kept_annotations(observed: Observed, live: DeploymentView) -> dict[str, str]:
    """Return our annotations of the Deployment for applying the same template again."""
    kept = {
        labels.TEMPLATE: live.stored_template,
        labels.TEMPLATE_HASH: live.template_hash,
        labels.LAST_GOOD_TEMPLATE: live.last_good_template,
        labels.ROLLED_BACK: live.rolled_back_hash,
    }
    if not observed.queue.spec.rollout.auto_rollback:
        del kept[labels.LAST_GOOD_TEMPLATE]
    return {name: value for name, value in kept.items() if value is not None}


def plan_check(observed: Observed, template: Template, now: datetime) -> Step:
    """Return what stands in the way of this template at the API server; empty when nothing does.

    Asked before the schema is migrated for a template that can never run.
    """
    refused = refusal(observed, template, now)
    if refused.stalled or refused.progressing:
        return refused
    check = observed.template_check
    if check is not None and check.template_hash == template.wanted_hash and not check.refusal:
        return Step()
    manifest = render_deployment(observed.queue, template.wanted, {}, replicas=0)
    if observed.deployment is not None:
        del manifest["spec"]["replicas"]
    asked = CheckTemplate(manifest=manifest, template_hash=template.wanted_hash)
    waiting = Waiting(Stage.RENDER, Reason.PROGRESSING, "The pod template is being checked")
    return Step(actions=(asked,), progressing=waiting)


def refusal(observed: Observed, template: Template, now: datetime) -> Step:
    """Return that the API server refused the template, and when to ask again."""
    check = observed.template_check
    if (
        check is None
        or not check.refusal
        or check.template_hash != template.wanted_hash
        or check.generation != observed.generation
    ):
        return Step()
    words = f"The API server refuses the worker Deployment: {check.refusal}"
    if check.is_permanent:
        return Step(stalled=Waiting(Stage.RENDER, Reason.TEMPLATE_INVALID, words))
    again = check.at + REFUSED_AGAIN
    if now >= again:
        return Step()
    return Step(progressing=Waiting(Stage.RENDER, Reason.WAITING_FOR_QUOTA, words), due=again)


def _is_applied(live: DeploymentView, wanted: Mapping[str, Any]) -> bool:
    """Compare by the text that was applied: a hash may be of an algorithm that is not known."""
    if live.stored_template is not None:
        return live.stored_template == canonical_json(wanted)
    return is_hash_of(live.template_hash, wanted)


def _is_drifted(observed: Observed, live: DeploymentView, wanted: Mapping[str, Any]) -> bool:
    """Compare with what we would apply again; what is around the template may be ours to change.

    Right after our own apply a template is as we want it, however the API server writes it.
    """
    template = base_template(live, wanted)
    if template is None or not live.manifest:
        return False
    rendered = render_deployment(observed.queue, template, {})
    spec = dict(rendered["spec"])
    pods = spec.pop("template")
    around = {"metadata": {"labels": rendered["metadata"]["labels"]}, "spec": spec}
    if not contains(live.manifest, around):
        return True
    is_just_applied = live.applied_generation == live.generation
    return not is_just_applied and not contains(live.manifest, {"spec": {"template": pods}})
