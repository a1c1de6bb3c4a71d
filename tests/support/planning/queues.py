"""Queues as plain values: what a test does not say has a working default."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from awa.manifest import Queue
from awa_operator.render.overlay import overlaid

START = datetime(2026, 6, 1, 12, tzinfo=UTC)
"""When every story begins."""


def make_queue(
    name: str = "email",
    spec: Mapping[str, Any] | None = None,
    *,
    generation: int = 1,
    status: Mapping[str, Any] | None = None,
) -> Queue:
    """Return a Queue as the API server would give it, `spec` laid over a spec that works."""
    base: dict[str, Any] = {
        "database": {"connectionSecretRef": {"name": "app-db"}},
        "worker": {"image": "app:1", "command": ["awa", "worker", "handlers"]},
        "migration": {"command": ["awa", "migrate"]},
        "replicas": 2,
    }
    manifest = {
        "apiVersion": "awa.dev/v1alpha1",
        "kind": "Queue",
        "metadata": {
            "name": name,
            "namespace": "mail",
            "uid": f"uid-{name}",
            "generation": generation,
        },
        "spec": overlaid(base, spec or {}),
    }
    if status is not None:
        manifest["status"] = dict(status)
    return Queue.model_validate(manifest)
