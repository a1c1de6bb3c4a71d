"""Looks at one database in its own rhythm, and remembers what it saw.

A look is: connect if need be, probe, read the signals of all Queues by one statement, and their
workers.

- A failed look is repeated after a second, then two, up to the poll interval, with jitter, so that
  a hundred databases that come back together are not all asked in the same moment.
- A database that cannot be read gives `Unknown`, never zero, and at most once in a poll interval.
- A session ends when it would be idle for long, unless workers live of which it may have to tell
  that they are gone, and when the connection string changes.
- A Queue without workers sleeps on the session: the first job that comes wakes it.
"""

import asyncio
import contextlib
import logging
import random
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Protocol, Self

from awa.scaling import Signals, Unknown
from awa_operator.database import CONNECT_LIMIT, Facts, Session
from awa_operator.database_faults import DatabaseFault
from awa_operator.databases import LiveWorker, QueueKey, Served
from awa_operator.dsn import Dsn
from awa_operator.observed import DatabaseProblem, DatabaseView, SignalsView

log = logging.getLogger(__name__)

FIRST_RETRY = timedelta(seconds=1)
LONGEST_RETRY = timedelta(seconds=30)
LEAST_GAP = timedelta(milliseconds=200)
"""Between two looks, whoever asks for them."""
PROBE_INTERVAL = timedelta(seconds=30)
"""How often a database is looked at whose signals nobody wants."""
IDLE_LIMIT = timedelta(seconds=60)
"""A session that would not be used for longer is closed after the look."""
LONGEST_LEAD = timedelta(seconds=30)
"""Deferred jobs wake a Queue at most so long before they are due."""
OPENING_AT_ONCE = 64
REOPENING_AT_ONCE = 32


class PollNotes(Protocol):
    """What a poller tells to whoever measures it."""

    def probed(self, identity: str, took_seconds: float, problem: DatabaseProblem | None) -> None:
        """Tell of one look at a database."""

    def connected(self, identity: str, change: int) -> None:
        """Tell that a session with a database was opened (1) or has ended (-1)."""

    def left(self, identity: str) -> None:
        """Tell that a database is looked at no more."""


@dataclass(slots=True)
class Places:
    """Places for sessions that are being opened: failing databases take none from the others."""

    first: asyncio.Semaphore
    again: asyncio.Semaphore

    @classmethod
    def make(cls) -> Self:
        """Return free places."""
        return cls(asyncio.Semaphore(OPENING_AT_ONCE), asyncio.Semaphore(REOPENING_AT_ONCE))


class DatabaseWatch:
    """The looks at one database; runs from its making until `stop`."""

    def __init__(
        self,
        identity: str,
        schema: str,
        places: Places,
        changed: Callable[[QueueKey], None],
        notes: PollNotes | None,
    ) -> None:
        self._identity = identity
        self._schema = schema
        self._places = places
        self._changed = changed
        self._notes = notes
        self._served: dict[QueueKey, Served] = {}
        self._soon = asyncio.Event()
        self._is_looking = False
        self._dsn: Dsn | None = None
        self.session: Session | None = None
        self.view: DatabaseView | None = None
        self.signals: dict[QueueKey, SignalsView] = {}
        self.workers: dict[QueueKey, tuple[LiveWorker, ...]] = {}
        self._task = asyncio.create_task(self._run(), name=f"database {identity}")

    @property
    def serves(self) -> bool:
        """Whether any Queue wants this database."""
        return bool(self._served)

    @property
    def is_connected(self) -> bool:
        """Whether there is an open session."""
        return self.session is not None and self.session.is_open

    def owner_of(self, key: QueueKey) -> str:
        """Return the uid by which a Queue's workers name their owner."""
        return self._served[key].owner

    def take(self, key: QueueKey, served: Served) -> None:
        """Look for a Queue too; soon, if that asks for something new."""
        if self._served.get(key) != served:
            self._served[key] = served
            self.look_soon()

    def drop(self, key: QueueKey) -> None:
        """Look for a Queue no longer."""
        for remembered in (self._served, self.signals, self.workers):
            remembered.pop(key, None)

    def look_soon(self) -> None:
        """Look now, or as soon as the least gap has passed."""
        self._soon.set()

    async def stop(self) -> None:
        """End the task and the session."""
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self) -> None:
        try:
            while True:
                self._soon.clear()
                self._is_looking = True
                began = time.monotonic()
                try:
                    await self._look()
                except Exception:
                    log.exception("a look at a database failed", extra={"database": self._identity})
                    self._close()
                self._is_looking = False
                pause = self._pause()
                if self._may_close(pause):
                    self._close()
                await self._rest(pause.total_seconds(), began)
        finally:
            self._close()

    async def _rest(self, seconds: float, began: float) -> None:
        """Wait, but not when somebody asks for a look; never less than the least gap."""
        least = LEAST_GAP if self._failures == 0 else FIRST_RETRY / 2
        gap = max(0.0, began + least.total_seconds() - time.monotonic())
        await asyncio.sleep(gap)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(max(0.0, seconds - gap)):
                await self._soon.wait()

    # --- one look -------------------------------------------------------------------------------

    async def _look(self) -> None:
        served = dict(self._served)
        if not served:
            return
        began = time.monotonic()
        try:
            facts = await self._probed(served)
        except DatabaseFault as fault:
            self._failed(served, fault)
            problem: DatabaseProblem | None = fault.problem
        else:
            self._worked(served, facts)
            await self._read(served, facts)
            problem = None
        if self._notes is not None:
            self._notes.probed(self._identity, time.monotonic() - began, problem)

    async def _probed(self, served: Mapping[QueueKey, Served]) -> Facts:
        """Return what a probe finds. A session that was lost meanwhile is opened again first."""
        dsn = served[min(served)].dsn
        if self._dsn is not None and self._dsn != dsn:
            self._close()
        self._dsn = dsn
        if self.session is not None and self.is_connected:
            try:
                return await self.session.probe()
            except DatabaseFault:
                if self.is_connected:
                    raise
        self._close()
        async with self._places.again if self._failures else self._places.first:
            try:
                async with asyncio.timeout(CONNECT_LIMIT.total_seconds()):
                    self.session = session = await Session.open(dsn, self._schema)
                    session.on_wake = self._woken
                    session.on_end = self._session_ended
                    self._note_session(1)
                    return await session.probe()
            except TimeoutError:
                self._close()
            text = f"no answer within {CONNECT_LIMIT.total_seconds():g} seconds"
            raise DatabaseFault(DatabaseProblem.TIMEOUT, text)

    async def _read(self, served: Mapping[QueueKey, Served], facts: Facts) -> None:
        """Read signals and workers; what cannot be read is unknown."""
        session = self.session
        if session is None:
            return
        found: Mapping[str, Signals] = {}
        workers: Mapping[str, tuple[LiveWorker, ...]] = {}
        try:
            if facts.has_signals:
                # Before the look, so that no job can come between the two.
                await session.sleep_on(self._to_sleep_on(served))
                names = (one.queue_name for one in served.values() if one.wants_signals)
                found = await session.signals(names, self._lead(served))
            if facts.has_workers:
                workers = await session.workers(one.owner for one in served.values() if one.owner)
        except DatabaseFault as fault:
            extra = {"database": self._identity, "reason": fault.problem.value}
            log.warning("signals cannot be read", extra=extra)
            found, workers = {}, {}
        self.workers = {
            key: workers.get(one.owner, ()) for key, one in served.items() if key in self._served
        }
        now = _now()
        for key, one in served.items():
            if one.wants_signals:
                self._note_signals(
                    key, SignalsView(at=now, signals=found.get(one.queue_name, Unknown()))
                )

    def _to_sleep_on(self, served: Mapping[QueueKey, Served]) -> frozenset[str]:
        """Return the queues to be woken for: without workers, and without work that is known of."""
        return frozenset(
            one.queue_name
            for key, one in served.items()
            if one.is_waiting and not _has_work(self.signals.get(key))
        )

    # --- what comes of it -----------------------------------------------------------------------

    @property
    def _failures(self) -> int:
        return 0 if self.view is None else self.view.failures

    def _worked(self, served: Mapping[QueueKey, Served], facts: Facts) -> None:
        before, now = self.view, _now()
        since = None if before is None else before.reachable_since
        if before is not None and before.problem is not None:
            since = now
            log.info("database answers again", extra={"database": self._identity})
        self._note_view(
            served,
            DatabaseView(
                at=now,
                message=facts.lacks,
                schema_version=facts.schema_version,
                last_contract_version=facts.last_contract_version,
                reachable_since=since,
                max_connections=facts.max_connections,
            ),
        )

    def _failed(self, served: Mapping[QueueKey, Served], fault: DatabaseFault) -> None:
        # A server that refuses now may be another one at the next try: a standby was promoted.
        self._close()
        before, now = self.view, _now()
        if before is None or before.problem is not fault.problem:
            extra = {"database": self._identity, "reason": fault.problem.value}
            log.warning("database cannot be used: %s", fault.message, extra=extra)
        known = DatabaseView(at=now) if before is None else before
        self._note_view(
            served,
            replace(
                known,
                at=now,
                problem=fault.problem,
                message=fault.message,
                reachable_since=None,
                failures=known.failures + 1,
            ),
        )
        self.workers = {}
        for key, one in served.items():
            last = self.signals.get(key)
            if one.wants_signals and (last is None or now - last.at >= one.poll_interval):
                self._note_signals(key, SignalsView(at=now, signals=Unknown()))

    def _note_view(self, served: Iterable[QueueKey], view: DatabaseView) -> None:
        before, self.view = self.view, view
        if before is None or replace(before, at=view.at, failures=view.failures) != view:
            for key in served:
                self._changed(key)

    def _note_signals(self, key: QueueKey, view: SignalsView) -> None:
        if key not in self._served:  # meanwhile
            return
        before = self.signals.get(key)
        self.signals[key] = view
        if before is None or before.signals != view.signals or _has_work(view):
            self._changed(key)

    def _session_ended(self) -> None:
        """See at once what is the matter; the end of a session during a look is part of it."""
        if not self._is_looking:
            self.look_soon()

    def _woken(self, queue_name: str) -> None:
        if any(one.is_waiting and one.queue_name == queue_name for one in self._served.values()):
            self.look_soon()

    # --- rhythm ---------------------------------------------------------------------------------

    def _pause(self) -> timedelta:
        interval = self._interval(self._served)
        if self._failures:
            longest = min(max(interval, FIRST_RETRY), LONGEST_RETRY)
            backoff = FIRST_RETRY * 2.0 ** min(self._failures - 1, 10)
            return min(backoff, longest) * random.uniform(0.5, 1.0)  # noqa: S311 - no secret
        return interval * random.uniform(0.9, 1.0)  # noqa: S311 - no secret

    def _interval(self, served: Mapping[QueueKey, Served]) -> timedelta:
        wanted = [one.poll_interval for one in served.values() if one.wants_signals]
        return min(wanted, default=PROBE_INTERVAL)

    def _lead(self, served: Mapping[QueueKey, Served]) -> timedelta:
        return min(self._interval(served), LONGEST_LEAD)

    def _may_close(self, pause: timedelta) -> bool:
        asleep = self.session is not None and self.session.asleep
        has_workers = any(self.workers.values())
        return not (asleep or has_workers) and pause > IDLE_LIMIT

    def _close(self) -> None:
        session, self.session = self.session, None
        if session is not None:
            session.on_end = lambda: None
            session.close()
            self._note_session(-1)

    def _note_session(self, change: int) -> None:
        if self._notes is not None:
            self._notes.connected(self._identity, change)


def _has_work(view: SignalsView | None) -> bool:
    """Whether there is work to be awake for, or running: what changes with every look."""
    if view is None or isinstance(view.signals, Unknown):
        return False
    return not view.signals.is_idle


def _now() -> datetime:
    return datetime.now(UTC)
