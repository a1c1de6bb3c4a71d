"""Writes the status of a Queue: only when it says something else, never over a newer one."""

import logging
from typing import Any

from awa.manifest import API_VERSION, KIND, ConditionType, QueueStatus
from awa_operator.actions import MANAGER
from awa_operator.apply import Guard
from awa_operator.cache import Cache, QueueEntry
from awa_operator.kube import Kube
from awa_operator.resources import QUEUES

log = logging.getLogger(__name__)

_OURS = frozenset(ConditionType)
_COUNTS = ("replicas", "ready_replicas", "updated_replicas")


def plain(status: QueueStatus) -> dict[str, Any]:
    """Return a status as JSON values, without what is not set."""
    return status.model_dump(mode="json", by_alias=True, exclude_none=True)


def says_the_same(before: QueueStatus, after: QueueStatus) -> bool:
    """Tell whether two statuses differ in nothing but when their conditions last changed.

    Conditions of others, which stay in a status that we write, say nothing.
    """
    return _undated(before) == _undated(after)


def only_counts_differ(before: QueueStatus, after: QueueStatus) -> bool:
    """Tell whether two statuses differ in nothing but how many pods there are."""
    same = {name: getattr(before, name) for name in _COUNTS}
    return says_the_same(before, after.model_copy(update=same))


def _undated(status: QueueStatus) -> dict[str, Any]:
    shown = plain(status)
    conditions = {
        one["type"]: {name: value for name, value in one.items() if name != "lastTransitionTime"}
        for one in shown.get("conditions") or ()
        if one["type"] in _OURS
    }
    return {**shown, "conditions": conditions}


class Reporter:
    """Writes statuses."""

    def __init__(self, kube: Kube, cache: Cache, guard: Guard) -> None:
        self._kube = kube
        self._cache = cache
        self._guard = guard

    async def report(self, entry: QueueEntry, status: QueueStatus) -> bool:
        """Write a status unless it says the same as `entry`; return whether it was written.

        Raises `ApiConflict` if the Queue changed since `entry`; `ApiGone` if it is not there.
        """
        if says_the_same(entry.status, status):
            return False
        namespace, name = entry.key
        await self._guard(f"status of {name}")
        body = await self._kube.apply_status(
            {
                "apiVersion": API_VERSION,
                "kind": KIND,
                "metadata": {
                    "name": name,
                    "namespace": namespace,
                    "uid": entry.uid,
                    "resourceVersion": entry.version,
                },
                "status": plain(status),
            },
            manager=MANAGER,
        )
        self._cache.put(QUEUES, body)
        return True
