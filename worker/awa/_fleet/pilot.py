"""Looks at a queue, asks the planner how many workers it needs, and tells the fleet."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

from awa._fleet.fleet import Fleet
from awa._store.database import Database
from awa.errors import AwaError
from awa.manifest import LocalView
from awa.scaling import Decision, History, Reason, ScalingSpec, Signals, Unknown, decide

LOOK_LIMIT = timedelta(seconds=2)
"""How long one look may take; then the queue counts as unknown."""
LOOK_INTERVAL = timedelta(seconds=1)
"""How often to look at least: a cluster spares its database, here somebody waits."""
START_LEAD = timedelta(seconds=2)
"""How long before a deferred job is due a worker has to be woken for it."""


@dataclass(frozen=True, slots=True)
class Seen:
    """One look at a queue and what followed. `reason` is None where nothing scales."""

    signals: Signals | Unknown
    wanted: int
    ready: int
    alive: int
    reason: Reason | None


class Pilot:
    """Steers the fleet of one queue; `on_seen` is told of every look."""

    def __init__(
        self, view: LocalView, fleet: Fleet, database: Database, on_seen: Callable[[Seen], None]
    ) -> None:
        self._view = view
        self._spec = None if view.scaling is None else watched_closely(view.scaling)
        self._fleet = fleet
        self._database = database
        self._on_seen = on_seen
        self._history = History()
        self._has_worked = False

    async def run(self) -> None:
        """Steer for ever."""
        if not self._view.suspended:
            await self._fleet.scale(self._view.replicas)
        while True:
            started = asyncio.get_running_loop().time()
            await self._look()
            spent = asyncio.get_running_loop().time() - started
            await asyncio.sleep(max(0.0, self._interval.total_seconds() - spent))

    @property
    def _interval(self) -> timedelta:
        return LOOK_INTERVAL if self._spec is None else self._spec.poll_interval

    async def _look(self) -> None:
        """Look once, and act."""
        signals = await self._signals()
        spec, fleet = self._spec, self._fleet
        decision: Decision | None = None
        if spec is not None and not self._view.suspended:
            now = datetime.now(UTC)
            self._has_worked = self._has_worked or fleet.ready > 0
            if isinstance(signals, Signals) and not self._has_worked:
                signals = signals.before_new_handlers()
            decision = decide(spec, self._history, signals, fleet.wanted, fleet.ready, now)
            self._history = decision.history
            await fleet.scale(decision.desired)
        reason = None if decision is None else decision.reason
        self._on_seen(Seen(signals, fleet.wanted, fleet.ready, fleet.alive, reason))

    async def _signals(self) -> Signals | Unknown:
        lead = START_LEAD + self._interval
        try:
            async with asyncio.timeout(LOOK_LIMIT.total_seconds()):
                rows = await self._database.fetch("signals", [self._view.queue_name], lead)
        except (AwaError, TimeoutError):
            return Unknown()
        if not rows:
            return Signals()  # no job has ever been in it
        (row,) = rows
        return Signals(
            ready=row["ready"],
            running=row["running"],
            oldest_ready_age=timedelta(seconds=row["oldest_ready_seconds"]),
            due_soon=row["due_soon"],
            orphaned=row["orphaned"],
            set_aside=row["set_aside"],
        )


def watched_closely(spec: ScalingSpec) -> ScalingSpec:
    """Return a manifest's rules with a short poll interval; what counts polls counts more."""
    if spec.poll_interval <= LOOK_INTERVAL:
        return spec
    polls = -(-spec.failure_threshold * spec.poll_interval // LOOK_INTERVAL)
    return replace(spec, poll_interval=LOOK_INTERVAL, failure_threshold=polls)
