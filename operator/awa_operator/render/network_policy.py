"""The NetworkPolicy of the workers."""

from typing import Any

from awa.manifest import Queue
from awa_operator.render.beside import metadata_beside, pods_of


def render_network_policy(queue: Queue) -> dict[str, Any] | None:
    """Return the policy, None when it is off: only metrics and probes reach the workers."""
    if not queue.spec.network_policy.enabled:
        return None
    worker = queue.spec.worker
    ports = sorted({worker.health.port, worker.metrics.port})
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": metadata_beside(queue),
        "spec": {
            "podSelector": pods_of(queue),
            "policyTypes": ["Ingress"],
            "ingress": [{"ports": [{"port": port, "protocol": "TCP"} for port in ports]}],
        },
    }
