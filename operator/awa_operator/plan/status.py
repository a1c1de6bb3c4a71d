"""The status of a Queue."""

from collections.abc import Sequence
from datetime import datetime

from awa.manifest import QueueStatus


def invalid_status(
    previous: QueueStatus, generation: int, problems: Sequence[str], now: datetime
) -> QueueStatus:
    """Return the status of a Queue whose spec cannot be read: Stalled, reason InvalidSpec."""
    raise NotImplementedError
