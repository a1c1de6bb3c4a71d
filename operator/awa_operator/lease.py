"""Which replica acts: a Lease of the API server, held by at most one.

`Tenure` holds the rules and no clock of its own: a replica leads only until the moment at which
another one could count its lease as expired, reckoned from when it *sent* its last renewal by a
clock that goes on while a process is stopped. So a replica that was paused knows, before it writes
anything, that it no longer leads. Wall clocks are written into the Lease for people. They are read
only to know for how long nobody has led, which says how much of the past is unknown.
"""

import asyncio
import contextlib
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from enum import Enum, auto
from typing import Protocol

from awa_operator.errors import ApiConflict, ApiError, NotLeading

log = logging.getLogger(__name__)

MARGIN = timedelta(seconds=2)
"""How much earlier than the others a leader counts its own lease as expired, at most."""


def suspended_clock() -> float:
    """Return seconds of a clock that goes on while the process or the machine is stopped."""
    return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))


@dataclass(frozen=True, slots=True)
class LeaseRecord:
    """What a Lease says. `holder` is empty once it was released."""

    holder: str = ""
    duration: timedelta = timedelta(seconds=15)
    acquired: datetime | None = None
    renewed: datetime | None = None
    transitions: int = 0
    resource_version: str | None = None
    """What a replacement must name; None if there is no Lease yet."""


class LeaseStore(Protocol):
    """The Lease in the API server."""

    async def read(self) -> LeaseRecord | None:
        """Return the Lease, None if there is none."""

    async def write(self, record: LeaseRecord) -> LeaseRecord:
        """Create the Lease if `resource_version` is None, else replace that version.

        Raises `ApiConflict` if it changed or exists.
        """

    def watch(self) -> AsyncIterator[LeaseRecord | None]:
        """Yield the Lease as it is and each time it changes, until the stream ends."""


class Step(Enum):
    """What a replica does next about the lease."""

    LOOK = auto()
    ACQUIRE = auto()
    RENEW = auto()
    WAIT = auto()


@dataclass(frozen=True, slots=True)
class Terms:
    """For how long a lease counts and when it is renewed."""

    duration: timedelta = timedelta(seconds=15)
    renew_every: timedelta = timedelta(seconds=10)
    retry_every: timedelta = timedelta(seconds=1)

    @property
    def own_duration(self) -> timedelta:
        """How long a holder relies on a renewal, from when it sent it."""
        spare = self.duration - self.renew_every - self.retry_every
        return self.duration - min(MARGIN, spare)


class Tenure:
    """What one replica knows of the lease and may conclude. Times are seconds of its clock."""

    def __init__(self, identity: str, terms: Terms) -> None:
        self.identity = identity
        self.terms = terms
        self.seen: LeaseRecord | None = None
        self._looked = False
        self._changed_at = 0.0
        self._led_until: float | None = None
        self._renew_at = 0.0
        self._retry_at = 0.0

    def observe(self, record: LeaseRecord | None, now: float, *, is_answer: bool = False) -> None:
        """Take in what the Lease says; what says the same as before is no sign of life.

        Unless it answers a request, what is older than the last answer is passed over: a watch may
        be slow.
        """
        known = self.seen
        may_be_late = not is_answer and known is not None and record is not None
        if may_be_late and _version(record) < _version(known):
            return
        self.seen, self._looked = record, True
        if record is None or known is None or _sign(known) != _sign(record):
            self._changed_at = now
        if record is None or record.holder != self.identity:
            self._led_until = None

    def unsure(self) -> None:
        """Note that a write was answered by a conflict: look before the next one."""
        self._looked = False

    def confirm(self, record: LeaseRecord, sent_at: float, now: float) -> None:
        """Note that the record which was sent at `sent_at` was accepted."""
        self.observe(record, now, is_answer=True)
        self._led_until = sent_at + self.terms.own_duration.total_seconds()
        self._renew_at = sent_at + self.terms.renew_every.total_seconds()
        self._retry_at = 0.0

    def failed(self, now: float) -> None:
        """Note that a request failed; the next one is made after the retry time."""
        self._retry_at = now + self.terms.retry_every.total_seconds()

    def leads(self, now: float) -> bool:
        """Return whether this replica may act at `now`."""
        return self._led_until is not None and now < self._led_until

    def remaining(self, now: float) -> float:
        """Return for how many more seconds this replica may act; 0 if it may not."""
        return max(self._led_until - now, 0.0) if self._led_until is not None else 0.0

    def decide(self, now: float) -> tuple[Step, float]:
        """Return what to do now, and if that is to wait, for how many seconds at most."""
        if now < self._retry_at:
            return Step.WAIT, self._retry_at - now
        if not self._looked:
            return Step.LOOK, 0.0
        if self.seen is not None and self.seen.holder == self.identity:
            return (Step.RENEW, 0.0) if now >= self._renew_at else (Step.WAIT, self._renew_at - now)
        expires = self._expires()
        if self._is_free() or now >= expires:
            return Step.ACQUIRE, 0.0
        return Step.WAIT, expires - now

    def claim(self, now: datetime) -> LeaseRecord:
        """Return the record that takes or keeps the lease."""
        seen = self.seen or LeaseRecord()
        mine = seen.holder == self.identity
        return replace(
            seen,
            holder=self.identity,
            duration=self.terms.duration,
            renewed=now,
            acquired=seen.acquired if mine and seen.acquired else now,
            transitions=seen.transitions + (0 if mine or self.seen is None else 1),
        )

    def _is_free(self) -> bool:
        return self.seen is None or not self.seen.holder

    def _expires(self) -> float:
        duration = self.seen.duration if self.seen is not None else self.terms.duration
        return self._changed_at + duration.total_seconds()


def _sign(record: LeaseRecord) -> tuple[object, ...]:
    """Return what of a record changes when its holder is alive."""
    return record.holder, record.renewed, record.transitions


def _version(record: LeaseRecord | None) -> int:
    """Return a record's version as a number that grows; 0 if it has none."""
    version = record.resource_version if record is not None else None
    return int(version) if version is not None and version.isdecimal() else 0


class LeaseNotes(Protocol):
    """What the election tells to whoever measures it."""

    def leading(self, leads: bool) -> None:
        """Tell whether this replica leads now."""

    def roundtrip(self, seconds: float) -> None:
        """Tell how long a renewal took to come back through the watch."""


class Election:
    """Takes, keeps and gives up the lease; `started` and `stopped` are called on each change."""

    def __init__(
        self,
        store: LeaseStore,
        tenure: Tenure,
        *,
        started: Callable[[], None],
        stopped: Callable[[], None],
        notes: LeaseNotes | None = None,
        clock: Callable[[], float] = suspended_clock,
        today: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._store = store
        self._tenure = tenure
        self._started = started
        self._stopped = stopped
        self._notes = notes
        self._clock = clock
        self._today = today
        self._acting = False
        self.led_before: datetime | None = None
        """When somebody was last known to lead before this replica began to; None if never."""
        self._woken = asyncio.Event()
        self._heard_at = clock()
        self._confirmed_at: float | None = None
        self._sent: tuple[datetime, float] | None = None

    @property
    def leads(self) -> bool:
        """Whether this replica may act now; looks at the clock each time."""
        return self._tenure.leads(self._clock())

    def check(self) -> timedelta:
        """Return for how long this replica may still act. Raises `NotLeading` if it may not."""
        remaining = self._tenure.remaining(self._clock())
        if remaining <= 0:
            raise NotLeading("the lease is not held by this replica")
        return timedelta(seconds=remaining)

    def deaf_for(self) -> timedelta:
        """Return for how long the watch has told nothing although the Lease was renewed."""
        if self._confirmed_at is None:
            return timedelta(0)
        return timedelta(seconds=max(self._confirmed_at - self._heard_at, 0.0))

    def heard_ago(self) -> timedelta:
        """Return how long ago a renewal of anybody came through the watch."""
        return timedelta(seconds=max(self._clock() - self._heard_at, 0.0))

    async def run(self) -> None:
        """Compete for the lease until cancelled; `release` it afterwards."""
        listening = asyncio.create_task(self._listen(), name="lease watch")
        try:
            while True:
                await self._step()
        finally:
            listening.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await listening
            self._settle(leads=False)

    async def release(self) -> None:
        """Give the lease up, if it is held, so that another replica need not wait.

        Only once `run` has ended, which would take back what has become free.
        """
        seen = self._tenure.seen
        if not self.leads or seen is None:
            return
        self._tenure.observe(self._freed(seen), self._clock())
        try:
            try:
                await self._store.write(self._freed(seen))
            except ApiConflict:
                # A renewal was on its way when `run` was ended.
                found = await self._store.read()
                if found is not None and found.holder == self._tenure.identity:
                    await self._store.write(self._freed(found))
        except ApiError as error:
            log.warning("the lease could not be released", extra={"error": str(error)})

    def _freed(self, record: LeaseRecord) -> LeaseRecord:
        return replace(record, holder="", renewed=self._today(), duration=timedelta(seconds=1))

    async def _step(self) -> None:
        step, wait = self._tenure.decide(self._clock())
        match step:
            case Step.LOOK:
                await self._attempt(self._look)
            case Step.ACQUIRE | Step.RENEW:
                await self._attempt(self._write)
            case Step.WAIT:
                await self._wait(wait)
        self._settle(leads=self.leads)

    async def _attempt(self, request: Callable[[], Awaitable[None]]) -> None:
        """Make a request that must not outlive what it is for; note how it went."""
        limit = max(self._tenure.terms.retry_every.total_seconds() * 3, 1.0)
        try:
            async with asyncio.timeout(limit):
                await request()
        except ApiConflict:
            self._tenure.unsure()
        except (ApiError, TimeoutError) as error:
            now = self._clock()
            self._tenure.failed(now)
            if self._acting:
                log.warning("the lease was not renewed", extra={"error": str(error)})
            self._settle(leads=self.leads)

    async def _look(self) -> None:
        record = await self._store.read()
        self._tenure.observe(record, self._clock(), is_answer=True)

    async def _write(self) -> None:
        sent_at, today, before = self._clock(), self._today(), self._tenure.seen
        self._sent = today, sent_at
        record = await self._store.write(self._tenure.claim(today))
        self._tenure.confirm(record, sent_at, self._clock())
        if not self._acting:
            self.led_before = before.renewed if before is not None else None
        self._confirmed_at = sent_at

    async def _wait(self, seconds: float) -> None:
        """Wait, but not beyond the end of the own lease, and until something is heard."""
        remaining = self._tenure.remaining(self._clock())
        limit = min(seconds, remaining) if remaining > 0 else seconds
        self._woken.clear()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(max(limit, 0.01)):
                await self._woken.wait()

    async def _listen(self) -> None:
        """Take in what the watch tells, and open it again whenever it ends."""
        while True:
            try:
                async for record in self._store.watch():
                    self._heard(record)
            except ApiError as error:
                log.debug("the watch of the lease ended", extra={"error": str(error)})
            await asyncio.sleep(self._tenure.terms.retry_every.total_seconds())

    def _heard(self, record: LeaseRecord | None) -> None:
        now = self._clock()
        self._heard_at = now
        sent = self._sent
        if sent is not None and record is not None and record.renewed == sent[0]:
            self._sent = None
            if self._notes is not None:
                self._notes.roundtrip(now - sent[1])
        # A holder learns of its own renewals by their answers, which carry when they were sent.
        if record is not None and record.holder == self._tenure.identity:
            return
        seen = self._tenure.seen
        if record != seen:
            self._tenure.observe(record, now)
            self._woken.set()

    def _settle(self, *, leads: bool) -> None:
        """Call `started` or `stopped` if leading changed."""
        if leads == self._acting:
            return
        self._acting = leads
        if self._notes is not None:
            self._notes.leading(leads)
        log.info("leads now" if leads else "leads no more")
        (self._started if leads else self._stopped)()
