"""Metadata of what stands beside the Deployment."""

from typing import Any

from awa.manifest import Queue
from awa_operator import labels, names
from awa_operator.render.owners import controller_of


def metadata_beside(queue: Queue) -> dict[str, Any]:
    """Return the metadata of an object that has the Deployment's name and goes with the Queue."""
    return {
        "name": names.worker_name(queue.metadata.name),
        "namespace": queue.metadata.namespace or "default",
        "labels": labels.worker_labels(queue.metadata.name),
        "ownerReferences": controller_of(queue),
    }


def pods_of(queue: Queue) -> dict[str, Any]:
    """Return the selector of the worker pods."""
    return {"matchLabels": labels.worker_selector(queue.metadata.name)}
