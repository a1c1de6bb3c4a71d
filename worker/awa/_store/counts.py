"""Counts of queues."""

from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True, slots=True)
class QueueCounts:
    """Exact counts of one queue, from one snapshot: each job is in exactly one of them.

    `completed`, `failed` and `cancelled` go on counting jobs whose retention has ended.
    `unknown_kinds` are kinds of waiting jobs that no worker of the queue had registered.
    """

    queue: str
    paused: bool
    scheduled: int
    available: int
    running: int
    waiting_external: int
    retryable: int
    completed: int
    failed: int
    cancelled: int
    oldest_available_at: datetime | None
    unknown_kinds: list[str] | None
