"""The PodMonitor of the workers."""

from typing import Any

from awa.manifest import Queue


def render_pod_monitor(queue: Queue) -> dict[str, Any] | None:
    """Return the PodMonitor, None when it is off."""
    raise NotImplementedError
