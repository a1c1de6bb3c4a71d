"""The PodDisruptionBudget of the workers."""

from typing import Any

from awa.manifest import Queue


def render_disruption_budget(queue: Queue) -> dict[str, Any] | None:
    """Return the PodDisruptionBudget, None when it is off or fewer than two workers can run."""
    raise NotImplementedError
