"""What reconciling needs of the databases; `poller` does it.

A database is known by its identity, a hash of the reference to it. All Queues of one identity that
name the same monitor Secret share one connection. Nothing here waits for a database except
`mark_dead` and `costs`, which have limits.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Protocol

from awa_operator.dsn import Dsn
from awa_operator.observed import DatabaseView, SignalsView

type QueueKey = tuple[str, str]
"""Namespace and name of a Queue."""
type Way = tuple[str, str]
"""Identity of a database, and by which Secret it is connected to."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Served:
    """What a Queue wants of its database.

    `monitor` is the reference to the monitor Secret, and `dsn` what that holds. `is_waiting`: the
    workers' count is zero, so a notification of the database should wake the Queue at once.
    `poll_interval` is how often signals are read. `owner` is the Queue's uid, which its workers
    name as `AWA_POD_OWNER`: only they are looked at, as other clusters may have workers in the
    same database.
    """

    identity: str
    schema: str
    monitor: str
    dsn: Dsn
    queue_name: str
    poll_interval: timedelta
    wants_signals: bool
    is_waiting: bool
    owner: str = ""

    @property
    def way(self) -> Way:
        """What Queues that share one connection have in common."""
        return self.identity, self.monitor


@dataclass(frozen=True, slots=True)
class LiveWorker:
    """A worker that the database calls alive, and the pod that it says it runs in.

    `pod_uid` tells its pod from an earlier or later one of the same name.
    """

    worker_id: int
    pod: str
    started_at: datetime
    pod_uid: str = ""


class Databases(Protocol):
    """The databases of all Queues that are served.

    Whoever implements it calls back with the `QueueKey` of each Queue for which a view, the signals
    or the live workers say something new that matters: a problem that came or went, another schema
    version, a poll that ended, a wake.
    """

    def serve(self, key: QueueKey, served: Served | None) -> None:
        """Serve a Queue as described from now on; not at all with None. Cheap and idempotent."""

    def view(self, key: QueueKey) -> DatabaseView | None:
        """Return the last probe of a Queue's database, None before the first."""

    def signals(self, key: QueueKey) -> SignalsView | None:
        """Return the last poll of a Queue's signals, None before the first."""

    def live_workers(self, key: QueueKey) -> Sequence[LiveWorker]:
        """Return the workers of a Queue that the last poll found alive and that named a pod."""

    def probe_soon(self, key: QueueKey) -> None:
        """Probe a Queue's database as soon as possible."""

    async def mark_dead(self, key: QueueKey, worker_id: int, reason: str) -> bool:
        """Tell the database that a worker's pod is gone; return whether it was taken for alive."""

    async def costs(self, key: QueueKey) -> Mapping[str, int]:
        """Return the deletion cost of each pod that runs jobs of a Queue: 10 and more when busy."""
