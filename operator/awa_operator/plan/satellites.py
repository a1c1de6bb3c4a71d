"""S13: what stands beside the Deployment. Nothing waits for it."""

from awa_operator.actions import Action, ApplySatellite, DeleteSatellite
from awa_operator.names import worker_name
from awa_operator.observed import SATELLITE_KINDS, Observed
from awa_operator.plan.drift import contains
from awa_operator.render.disruption_budget import render_disruption_budget
from awa_operator.render.network_policy import render_network_policy
from awa_operator.render.pod_monitor import render_pod_monitor


def plan_satellites(observed: Observed) -> list[Action]:
    """Return what makes the objects beside the Deployment what the spec asks for."""
    name = worker_name(observed.queue.metadata.name)
    present = {one.kind: one for one in observed.satellites if one.name == name}
    rendered = (
        render_disruption_budget(observed.queue),
        render_network_policy(observed.queue),
        render_pod_monitor(observed.queue),
    )
    actions: list[Action] = []
    for kind, manifest in zip(SATELLITE_KINDS, rendered, strict=True):
        live = present.get(kind)
        if live is not None and not live.is_ours:
            continue
        if manifest is None:
            if live is not None:
                actions.append(DeleteSatellite(kind=kind, name=name))
        elif live is None or not contains(live.manifest, _seen(manifest)):
            actions.append(ApplySatellite(manifest=manifest))
    return actions


def _seen(manifest: dict[str, object]) -> dict[str, object]:
    metadata = manifest["metadata"]
    labels = metadata["labels"] if isinstance(metadata, dict) else {}
    return {"metadata": {"labels": labels}, "spec": manifest["spec"]}
