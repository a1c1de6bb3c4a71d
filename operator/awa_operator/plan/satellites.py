"""S13: what stands beside the Deployment. Nothing waits for it, and what is refused is said."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from awa_operator.actions import (
    Action,
    ApplySatellite,
    DeleteSatellite,
    Stage,
    Waiting,
)
from awa_operator.conditions import MAX_MESSAGE, Reason, safe_message
from awa_operator.names import worker_name
from awa_operator.observed import SATELLITE_KINDS, Observed, SatelliteRefusal
from awa_operator.plan.drift import contains
from awa_operator.plan.step import Step, earliest
from awa_operator.render.disruption_budget import render_disruption_budget
from awa_operator.render.network_policy import render_network_policy
from awa_operator.render.pod_monitor import render_pod_monitor

REFUSED_AGAIN = timedelta(minutes=5)
"""How long after a refusal an object is tried again, unless the spec changes."""

_LONGEST = MAX_MESSAGE // 4
"""Characters about one object, so that all of them fit behind what a condition says itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Satellites:
    """What is done about the objects, what stands in the way, and refusals that still matter."""

    step: Step = field(default_factory=Step)
    refusals: tuple[SatelliteRefusal, ...] = ()


def plan_satellites(observed: Observed, now: datetime) -> Satellites:
    """Return what makes the objects beside the Deployment what the spec asks for."""
    if observed.deployment is None or not observed.deployment.is_ours:
        return Satellites()
    actions: list[Action] = []
    noted: list[Waiting] = []
    refusals: list[SatelliteRefusal] = []
    known = {one.kind: one for one in observed.satellite_refusals}
    for kind, manifest in _rendered(observed):
        action = _action(observed, kind, manifest)
        if isinstance(action, Waiting):
            noted.append(action)
        if action is None or isinstance(action, Waiting):
            continue
        refusal = known.get(kind)
        if refusal is not None and refusal.generation == observed.generation:
            refusals.append(refusal)
            noted.append(_said(observed, refusal))
            if now < refusal.at + REFUSED_AGAIN:
                continue
        actions.append(action)
    again = (one.at + REFUSED_AGAIN for one in refusals)
    due = earliest(*(moment for moment in again if moment > now))
    step = Step(actions=tuple(actions), noted=tuple(noted), due=due)
    return Satellites(step=step, refusals=tuple(refusals))


def _rendered(observed: Observed) -> list[tuple[str, dict[str, Any] | None]]:
    rendered = (
        render_disruption_budget(observed.queue),
        render_network_policy(observed.queue),
        render_pod_monitor(observed.queue),
    )
    return list(zip(SATELLITE_KINDS, rendered, strict=True))


def _action(
    observed: Observed, kind: str, manifest: Mapping[str, Any] | None
) -> Action | Waiting | None:
    """Return what is to be done about one kind, or whose object is in the way."""
    name = worker_name(observed.queue.metadata.name)
    found = (one for one in observed.satellites if (one.kind, one.name) == (kind, name))
    live = next(found, None)
    if manifest is None:
        is_left = live is not None and live.is_ours
        return DeleteSatellite(kind=kind, name=name) if is_left else None
    if live is not None and not live.is_ours:
        words = f"{kind} {name} belongs to someone else and is left alone; rename it or this Queue"
        return Waiting(Stage.SATELLITES, Reason.NAME_CONFLICT, words)
    if live is None or not contains(live.manifest, _seen(manifest)):
        return ApplySatellite(manifest=manifest)
    return None


def _said(observed: Observed, refusal: SatelliteRefusal) -> Waiting:
    name = worker_name(observed.queue.metadata.name)
    words = f"{refusal.kind} {name} cannot be written: {refusal.message}"
    return Waiting(Stage.SATELLITES, Reason.WAITING_FOR_QUOTA, safe_message(words, _LONGEST))


def _seen(manifest: Mapping[str, Any]) -> dict[str, Any]:
    return {"metadata": {"labels": manifest["metadata"]["labels"]}, "spec": manifest["spec"]}
