"""Events about Queues: one for each transition, whoever tells of it and however often."""

import hashlib
import logging
import socket
from datetime import UTC, datetime

from awa.manifest import API_VERSION, KIND
from awa_operator.actions import MANAGER, EmitEvent
from awa_operator.apply import Guard
from awa_operator.cache import QueueEntry
from awa_operator.conditions import safe_message
from awa_operator.errors import AlreadyExists, ApiError
from awa_operator.kube import Kube, Object
from awa_operator.resources import EVENTS

log = logging.getLogger(__name__)

LONGEST_NOTE_BYTES = 1024
_INSTANCE = socket.gethostname()[:128] or "operator"


class Herald:
    """Emits events. One that cannot be emitted is logged and changes nothing else."""

    def __init__(self, kube: Kube, guard: Guard) -> None:
        self._kube = kube
        self._guard = guard

    async def emit(self, entry: QueueEntry, events: tuple[EmitEvent, ...]) -> None:
        """Emit the events of a transition that the status of `entry` tells of."""
        for event in events:
            await self._guard(f"event {event.reason}")
            try:
                await self._kube.create(event_of(entry, event, datetime.now(UTC)), manager=MANAGER)
            except AlreadyExists:
                continue
            except ApiError as error:
                log.warning("an event was not emitted", extra={"error": str(error)})


def _cut(note: str) -> str:
    return note.encode()[:LONGEST_NOTE_BYTES].decode(errors="ignore")


def event_of(entry: QueueEntry, event: EmitEvent, now: datetime) -> Object:
    """Return an Event whose name follows from the transition: told twice, it exists already."""
    namespace, name = entry.key
    told = "\0".join((entry.uid, entry.version, event.reason, event.message))
    digest = hashlib.sha256(told.encode()).hexdigest()[:16]
    return {
        "apiVersion": EVENTS.api_version,
        "kind": EVENTS.kind,
        "metadata": {"name": f"{name}.{digest}", "namespace": namespace},
        "eventTime": now.isoformat(timespec="microseconds").replace("+00:00", "Z"),
        "type": "Warning" if event.is_warning else "Normal",
        "reason": event.reason,
        "action": event.reason,
        "note": _cut(safe_message(event.message)),
        "reportingController": "awa.dev/operator",
        "reportingInstance": _INSTANCE,
        "regarding": {
            "apiVersion": API_VERSION,
            "kind": KIND,
            "namespace": namespace,
            "name": name,
            "uid": entry.uid,
            "resourceVersion": entry.version,
        },
    }
