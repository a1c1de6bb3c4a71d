"""The Deployment of the workers."""

from collections.abc import Mapping
from typing import Any

from awa.manifest import Queue


def render_pod_template(queue: Queue, secret_hash: str | None) -> dict[str, Any]:
    """Return the pod template. `secret_hash` None leaves the mark of the Secret out."""
    raise NotImplementedError


def render_deployment(
    queue: Queue,
    template: Mapping[str, Any],
    annotations: Mapping[str, str],
    replicas: int | None = None,
) -> dict[str, Any]:
    """Return the Deployment with a pod template; `replicas` only for its creation."""
    raise NotImplementedError


def render_replicas(
    queue: Queue, replicas: int, resource_version: str, held_replicas: int | None
) -> dict[str, Any]:
    """Return what the scale manager applies: the count, and the count before a hold."""
    raise NotImplementedError
