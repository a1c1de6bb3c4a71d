"""The migration Job."""

from collections.abc import Sequence
from typing import Any

from awa.manifest import Queue


def render_migration_job(
    queue: Queue, number: int, attempt: int, owners: Sequence[Queue]
) -> dict[str, Any]:
    """Return the Job of one attempt; it goes when the last of its owners goes."""
    raise NotImplementedError
