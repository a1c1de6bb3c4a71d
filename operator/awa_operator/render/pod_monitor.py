"""The PodMonitor of the workers, for Prometheus' operator."""

from typing import Any

from awa.manifest import Queue
from awa_operator.render.beside import metadata_beside, pods_of


def render_pod_monitor(queue: Queue) -> dict[str, Any] | None:
    """Return the monitor, None when it is off."""
    if not queue.spec.monitoring.pod_monitor.enabled:
        return None
    path = queue.spec.worker.metrics.path
    return {
        "apiVersion": "monitoring.coreos.com/v1",
        "kind": "PodMonitor",
        "metadata": metadata_beside(queue),
        "spec": {
            "selector": pods_of(queue),
            "podMetricsEndpoints": [{"port": "metrics", "path": path}],
        },
    }
