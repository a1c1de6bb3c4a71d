"""Owner references: garbage collection takes what belongs to a Queue, without finalizers."""

from collections.abc import Sequence
from typing import Any

from awa.manifest import API_VERSION, KIND, Queue


def controller_of(queue: Queue) -> list[dict[str, Any]]:
    """Return the reference that makes a Queue the one controller of an object."""
    return [_reference(queue, is_controller=True)]


def owners_of(queues: Sequence[Queue]) -> list[dict[str, Any]]:
    """Return references to Queues of which each keeps the object alive, in a fixed order."""
    ordered = sorted(queues, key=lambda queue: queue.metadata.name)
    return [_reference(queue, is_controller=False) for queue in ordered]


def _reference(queue: Queue, *, is_controller: bool) -> dict[str, Any]:
    # Blocking the owner's deletion would need a right on finalizers, and helps nobody here.
    return {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "name": queue.metadata.name,
        "uid": queue.metadata.uid or "",
        "controller": is_controller,
        "blockOwnerDeletion": False,
    }
