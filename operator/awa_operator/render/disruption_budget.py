"""The PodDisruptionBudget of the workers."""

from typing import Any

from awa.manifest import Queue
from awa_operator.render.beside import metadata_beside, pods_of

FEWEST = 2
"""With one worker a budget can only stand in the way of a drain."""


def render_disruption_budget(queue: Queue) -> dict[str, Any] | None:
    """Return the budget, None when it is off or never can there be two workers."""
    budget = queue.spec.pod_disruption_budget
    if not budget.enabled or _most_workers(queue) < FEWEST:
        return None
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": metadata_beside(queue),
        "spec": {
            "maxUnavailable": budget.max_unavailable,
            "selector": pods_of(queue),
            # A worker that never becomes ready protects nothing.
            "unhealthyPodEvictionPolicy": "AlwaysAllow",
        },
    }


def _most_workers(queue: Queue) -> int:
    scaling = queue.spec.scaling
    if scaling.mode == "Native":
        return scaling.max_replicas
    if scaling.mode == "External":
        # The other scaler's bounds are not known, and a budget that comes and goes helps nobody.
        return FEWEST
    return queue.first_replicas if queue.spec.replicas is None else queue.spec.replicas
