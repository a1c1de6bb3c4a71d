"""The NetworkPolicy of the workers."""

from typing import Any

from awa.manifest import Queue


def render_network_policy(queue: Queue) -> dict[str, Any] | None:
    """Return the NetworkPolicy, None when it is off."""
    raise NotImplementedError
