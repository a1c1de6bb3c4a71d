"""Looks at every database that a Queue is served from, each in its own rhythm.

A database has one task and at most one session, whatever the number of its Queues; the session ends
with the last of them. Queues that name another monitor Secret have their own, as one that is wrong
must not hurt the others. What does not answer costs its own task a few seconds and nobody else
anything: sessions that work wait for no one, and those that must be opened share places, the
failing ones apart from the rest.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from typing import Self

from awa_operator.database import Session
from awa_operator.database_faults import DatabaseFault
from awa_operator.database_watch import DatabaseWatch, Places, PollNotes
from awa_operator.databases import LiveWorker, QueueKey, Served, Way
from awa_operator.observed import DatabaseProblem, DatabaseView, SignalsView

log = logging.getLogger(__name__)

BUSY_COST = 10
"""Deletion cost of a pod that has just begun a job; one more for each second of its oldest job."""
HIGHEST_COST = 2**31 - 1


class Poller:
    """Implements `Databases`. Use as an async context manager, or `stop` it in the end.

    `changed` is called, from the event loop, with each Queue to which something new matters.
    """

    def __init__(
        self, changed: Callable[[QueueKey], None], *, notes: PollNotes | None = None
    ) -> None:
        self._changed = changed
        self._notes = notes
        self._places = Places.make()
        self._watches: dict[Way, DatabaseWatch] = {}
        self._ways: dict[QueueKey, Way] = {}
        self._ending: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    @property
    def sessions(self) -> int:
        """Sessions that are open now."""
        return sum(watch.is_connected for watch in self._watches.values())

    def serve(self, key: QueueKey, served: Served | None) -> None:
        """Serve a Queue as described from now on; not at all with None."""
        before = self._ways.get(key)
        if before is not None and (served is None or served.way != before):
            del self._ways[key]
            watch = self._watches[before]
            watch.drop(key)
            if not watch.serves:
                del self._watches[before]
                ending = asyncio.create_task(
                    self._leave(watch, before[0]), name=f"close database {before[0]}"
                )
                self._ending.add(ending)
                ending.add_done_callback(self._ending.discard)
        if served is None:
            return
        watch = self._watches.get(served.way) or self._start(served)
        self._ways[key] = served.way
        watch.take(key, served)

    def view(self, key: QueueKey) -> DatabaseView | None:
        """Return the last probe of a Queue's database, None before the first."""
        watch = self._watch_of(key)
        return None if watch is None else watch.view

    def signals(self, key: QueueKey) -> SignalsView | None:
        """Return the last poll of a Queue's signals, None before the first."""
        watch = self._watch_of(key)
        return None if watch is None else watch.signals.get(key)

    def live_workers(self, key: QueueKey) -> Sequence[LiveWorker]:
        """Return the workers of a Queue that the last poll found alive and that named a pod."""
        watch = self._watch_of(key)
        return () if watch is None else watch.workers.get(key, ())

    def probe_soon(self, key: QueueKey) -> None:
        """Probe a Queue's database as soon as possible."""
        watch = self._watch_of(key)
        if watch is not None:
            watch.look_soon()

    async def mark_dead(self, key: QueueKey, worker_id: int, reason: str) -> bool:
        """Hand on the jobs of a worker whose pod is gone; False if it was known to be dead.

        Raises `DatabaseFault` when the database cannot be told.
        """
        jobs = await self._session_of(key).rescue_lost(worker_id, reason)
        if jobs is None:
            return False
        log.warning(
            "jobs of a lost worker handed on",
            extra={"worker": worker_id, "jobs": jobs, "reason": reason},
        )
        return True

    async def costs(self, key: QueueKey) -> Mapping[str, int]:
        """Return the deletion cost of each pod that runs jobs of a Queue.

        Raises `DatabaseFault` when the database cannot be asked.
        """
        watch = self._watch_of(key)
        owner = "" if watch is None else watch.owner_of(key)
        oldest = await self._session_of(key).oldest_running(owner)
        return {pod: deletion_cost(age) for pod, age in oldest.items()}

    async def stop(self) -> None:
        """Close every session. Safe to repeat."""
        watches = list(self._watches.values())
        self._watches.clear()
        self._ways.clear()
        await asyncio.gather(*(watch.stop() for watch in watches), *self._ending)

    def _start(self, served: Served) -> DatabaseWatch:
        watch = DatabaseWatch(
            served.identity, served.schema, self._places, self._changed, self._notes
        )
        self._watches[served.way] = watch
        return watch

    async def _leave(self, watch: DatabaseWatch, identity: str) -> None:
        """End the looks at a database, and tell when they were the last."""
        await watch.stop()
        if self._notes is not None and all(way[0] != identity for way in self._watches):
            self._notes.left(identity)

    def _watch_of(self, key: QueueKey) -> DatabaseWatch | None:
        way = self._ways.get(key)
        return None if way is None else self._watches.get(way)

    def _session_of(self, key: QueueKey) -> Session:
        watch = self._watch_of(key)
        session = None if watch is None else watch.session
        if session is None or not session.is_open:
            text = "there is no connection to the database now"
            raise DatabaseFault(DatabaseProblem.UNREACHABLE, text)
        return session


def deletion_cost(oldest: timedelta) -> int:
    """Return the cost of deleting a pod whose oldest job has run for so long; idle pods cost 0."""
    return min(BUSY_COST + int(oldest.total_seconds()), HIGHEST_COST)
