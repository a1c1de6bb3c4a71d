"""What the planner remembers between two looks.

A value: every method returns a new one. In memory it holds the needs within the windows and the
changes within the rate periods. In a resource's status only four facts survive (`to_status`);
after a restart the current count stands in for every need that is forgotten, for one window, so
that forgetting never lowers anything.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Self

from awa.scaling.reasons import Reason


@dataclass(frozen=True, slots=True)
class Sample:
    """How many replicas were needed at one moment."""

    at: datetime
    replicas: int


@dataclass(frozen=True, slots=True)
class Step:
    """The replica count from one moment on."""

    at: datetime
    replicas: int


@dataclass(frozen=True, slots=True)
class Pending:
    """A change that was decided; the next look shows whether it was carried out."""

    at: datetime
    before: int
    after: int
    reason: Reason


@dataclass(frozen=True, slots=True, kw_only=True)
class History:
    """Needs, changes and clocks of one queue. The empty value is a fresh start."""

    samples: tuple[Sample, ...] = ()
    steps: tuple[Step, ...] = ()
    pending: Pending | None = None
    active_since: datetime | None = None
    idle_since: datetime | None = None
    last_scale_time: datetime | None = None
    last_scale_reason: Reason | None = None
    failures: int = 0
    last_look: datetime | None = None
    """When there was a look before a restart, as far as is known."""

    def looked(self, current: int, now: datetime, blind_after: timedelta) -> Self:
        """Return the history brought up to `now`, where the replica count is `current`.

        A decided change that was not carried out is forgotten; one made by someone else is
        noted. Without a look for longer than `blind_after` nothing is known of the time between:
        `current` is the only need that is remembered, and the queue has to be seen idle anew.
        After a restart it is the same, reckoned from the last moment that is told.
        """
        history, idle_since = self._settled(current), _past(self.idle_since, now)
        steps = tuple(step for step in history.steps if step.at <= now)
        if not steps or steps[-1].replicas != current:
            steps = (*steps, Step(now, current))
        samples = tuple(sample for sample in history.samples if sample.at <= now)
        last_look = samples[-1].at if samples else history._last_told(now)
        if last_look is None or now - last_look > blind_after:
            samples, idle_since = (), None
        samples = samples or (Sample(now, current),)
        return replace(history, samples=samples, steps=steps, idle_since=idle_since)

    def with_need(self, replicas: int, now: datetime, window: timedelta) -> Self:
        """Return the history with one more need, without those older than the longest window."""
        samples = (*self.samples, Sample(now, replicas))
        kept = [sample for sample in samples if now - sample.at <= window]
        return replace(self, samples=tuple(_telling(kept)))

    def with_change(self, pending: Pending | None, now: datetime, period: timedelta) -> Self:
        """Return the history with a decided change, without steps that no policy looks back on."""
        begin = max((i for i, step in enumerate(self.steps) if step.at <= now - period), default=0)
        return replace(self, steps=self.steps[begin:], pending=pending)

    def needs_from(self, begin: datetime) -> list[int]:
        """Return what was needed at a moment and since; the stand-in after a restart included."""
        return [sample.replicas for sample in self.samples if sample.at >= begin]

    def needs_after(self, begin: datetime) -> list[int]:
        """Return what was needed since a moment, and not what was needed at it."""
        return [sample.replicas for sample in self.samples if sample.at > begin]

    def replicas_at(self, moment: datetime) -> int:
        """Return the replica count at a moment, or the oldest one known."""
        before = [step.replicas for step in self.steps if step.at <= moment]
        return before[-1] if before else self.steps[0].replicas

    def last_raise(self) -> datetime | None:
        """Return when the count last rose; after a restart, when it last changed."""
        for older, newer in zip(reversed(self.steps[:-1]), reversed(self.steps), strict=False):
            if newer.replicas > older.replicas:
                return newer.at
        return self.last_scale_time if len(self.steps) == 1 else None

    def to_status(self) -> dict[str, str]:
        """Return what a resource's `status.scaling` keeps; facts that are not there are left out.

        A change counts from its decision, so the answer can be written beside it.
        """
        scale_time, reason = self.last_scale_time, self.last_scale_reason
        if self.pending is not None:
            scale_time, reason = self.pending.at, self.pending.reason
        times = {
            "lastScaleTime": scale_time,
            "activeSince": self.active_since,
            "idleSince": self.idle_since,
        }
        status = {name: _written(time) for name, time in times.items() if time is not None}
        return status if reason is None else {**status, "lastScaleReason": reason.value}

    @classmethod
    def from_status(
        cls, status: Mapping[str, object] | None, last_look: datetime | None = None
    ) -> Self:
        """Return the history that `to_status` kept; the last look was not before `last_look`.

        A value that cannot be read counts as absent, which can delay a change but not cause one.
        """
        status = status or {}
        reason = status.get("lastScaleReason")
        return cls(
            active_since=_read(status.get("activeSince")),
            idle_since=_read(status.get("idleSince")),
            last_scale_time=_read(status.get("lastScaleTime")),
            last_scale_reason=next((known for known in Reason if known == reason), None),
            last_look=last_look,
        )

    def _last_told(self, now: datetime) -> datetime | None:
        """Return when there was a look before a restart: each of these was noted at one."""
        told = (self.last_look, self.idle_since, self.active_since, self.last_scale_time)
        return max((moment for moment in told if moment and moment <= now), default=None)

    def _settled(self, current: int) -> Self:
        decided = self.pending
        if decided is None:
            return self
        if current != decided.after:
            return replace(self, pending=None)
        return replace(
            self,
            pending=None,
            steps=(*self.steps, Step(decided.at, decided.after)),
            last_scale_time=decided.at,
            last_scale_reason=decided.reason,
        )


def _telling(samples: list[Sample]) -> Iterable[Sample]:
    """Keep what can still be the smallest or largest need of a window that ends later.

    A sample followed by one at least as large and one at least as small is never either, so the
    history is bounded by the range of the replica count and not by the number of looks.
    """
    kept: list[Sample] = []
    smallest, largest = samples[-1].replicas + 1, samples[-1].replicas - 1
    for sample in reversed(samples):
        if not smallest <= sample.replicas <= largest:
            kept.append(sample)
            smallest, largest = min(smallest, sample.replicas), max(largest, sample.replicas)
    return reversed(kept)


def _past(moment: datetime | None, now: datetime) -> datetime | None:
    return moment if moment is not None and moment <= now else None


def _written(moment: datetime) -> str:
    return moment.astimezone(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")


def _read(value: object) -> datetime | None:
    if isinstance(value, str):
        try:
            value = datetime.fromisoformat(value)
        except ValueError:
            return None
    return value if isinstance(value, datetime) and value.tzinfo is not None else None
