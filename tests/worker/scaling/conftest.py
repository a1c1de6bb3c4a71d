"""A day of a queue in about a second: arrivals, slots, replicas that take time to start.

Time moves in ticks of one second. Jobs take a constant time and run in the order of arrival; a
replica works from `start_seconds` after it was added; a removed one takes no more jobs and finishes
what it runs. Busy replicas are removed last, so the running jobs fit into as few as possible.
"""

import math
import random
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any

import pytest

from awa.scaling import Decision, History, ScalingSpec, Signals, Unknown, decide

START = datetime(2026, 1, 5, tzinfo=UTC)
HOUR = 3600
JOB_SECONDS, START_SECONDS = 5, 20

Load = Callable[[int, random.Random], int]
"""Jobs that arrive in a tick."""


@dataclass
class Run:
    """What a simulated run showed."""

    replicas: list[int] = field(default_factory=list)  # after every look
    decisions: list[Decision] = field(default_factory=list)
    worst_lag: int = 0  # seconds
    unhoused: int = 0  # running jobs beyond the slots that a decision left
    finished: int = 0

    @property
    def moves(self) -> list[int]:
        return [after - before for before, after in pairwise(self.replicas) if after != before]

    @property
    def turns(self) -> int:
        """How often the count changed its direction."""
        return sum(1 for one, other in pairwise(self.moves) if (one > 0) is not (other > 0))

    def settled(self, hours: int) -> list[int]:
        """The counts of the last hours."""
        return self.replicas[-hours * HOUR // 10 :]


@dataclass
class Cluster:
    """Slots and jobs; the planner sees only its signals."""

    spec: ScalingSpec
    job_seconds: int
    start_seconds: int
    replicas: int
    waiting: deque[list[int]] = field(default_factory=deque)  # [arrival tick, jobs]
    running: int = 0
    waiting_count: int = 0

    def __post_init__(self) -> None:
        self._ends: deque[int] = deque([0] * self.job_seconds)
        self._ready_at: list[int] = [0] * self.replicas

    def tick(self, now: int, arrivals: int) -> int:
        """Move one second; return how many jobs finished."""
        if arrivals:
            self.waiting.append([now, arrivals])
            self.waiting_count += arrivals
        ended = self._ends.popleft()
        self.running -= ended
        free = self.ready(now) * self.spec.concurrency - self.running
        started = min(max(free, 0), self.waiting_count)
        self._ends.append(started)
        self.running += started
        self.waiting_count -= started
        while started:
            oldest = self.waiting[0]
            taken = min(started, oldest[1])
            oldest[1] -= taken
            started -= taken
            if not oldest[1]:
                self.waiting.popleft()
        return ended

    def ready(self, now: int) -> int:
        return sum(1 for moment in self._ready_at if moment <= now)

    def lag(self, now: int) -> int:
        return now - self.waiting[0][0] if self.waiting else 0

    def scale(self, replicas: int, now: int) -> None:
        """Add replicas that start now, or remove the ones that are not ready first."""
        added = replicas - self.replicas
        if added > 0:
            self._ready_at += [now + self.start_seconds] * added
        else:
            self._ready_at = sorted(self._ready_at)[:replicas]
        self.replicas = replicas

    def signals(self, now: int) -> Signals:
        age = timedelta(seconds=self.lag(now))
        return Signals(ready=self.waiting_count, running=self.running, oldest_ready_age=age)


Simulate = Callable[..., Run]


@pytest.fixture
def simulate() -> Simulate:
    """Run a load through planner and cluster; `blind` and `restarts` are ticks of mishaps."""

    def run(
        spec: ScalingSpec,
        load: Load,
        *,
        hours: int = 24,
        replicas: int = 1,
        seed: int = 7,
        blind: range = range(0),
        restarts: range = range(0),
    ) -> Run:
        cluster = Cluster(spec, JOB_SECONDS, START_SECONDS, replicas)
        chance = random.Random(seed)  # noqa: S311 - a repeatable load, no secret
        result, history = Run(), History()
        poll = spec.poll_interval // timedelta(seconds=1)
        for tick in range(hours * HOUR):
            result.finished += cluster.tick(tick, load(tick, chance))
            result.worst_lag = max(result.worst_lag, cluster.lag(tick))
            if tick in restarts:
                history = History.from_status(history.to_status())
            if tick % poll:
                continue
            signals = Unknown() if tick in blind else cluster.signals(tick)
            now = START + timedelta(seconds=tick)
            decision = decide(spec, history, signals, cluster.replicas, cluster.ready(tick), now)
            history = decision.history
            if decision.desired < cluster.replicas:
                places = decision.desired * spec.concurrency
                result.unhoused = max(result.unhoused, cluster.running - places)
            cluster.scale(decision.desired, tick)
            result.replicas.append(decision.desired)
            result.decisions.append(decision)
        return result

    return run


@pytest.fixture
def poisson() -> Callable[[float], Load]:
    """A load of independent arrivals with a mean per second."""

    def load(mean: float) -> Load:
        floor = math.exp(-mean)

        def arrivals(_tick: int, chance: random.Random) -> int:
            product, count = chance.random(), 0
            while product > floor:
                product *= chance.random()
                count += 1
            return count

        return arrivals

    return load


@dataclass
class Looking:
    """A planner in use: one history, a clock that moves by hand."""

    spec: ScalingSpec
    current: int
    ready: int | None = None
    history: History = field(default_factory=History)
    now: datetime = START

    def look(self, *, after: float = 0, unknown: bool = False, **signals: Any) -> Decision:
        """Let time pass, look, and carry the decision out. `lag` is in seconds."""
        self.now += timedelta(seconds=after)
        ready = self.current if self.ready is None else self.ready
        seen = Unknown() if unknown else seeing(**signals)
        decision = decide(self.spec, self.history, seen, self.current, ready, self.now)
        self.history, self.current = decision.history, decision.desired
        return decision

    def looks(self, seconds: int, **signals: Any) -> list[int]:
        """Look at every poll of some seconds; return the counts."""
        poll = self.spec.poll_interval.total_seconds()
        return [self.look(after=poll, **signals).desired for _ in range(int(seconds // poll))]


def seeing(*, lag: float = 0, **counts: int) -> Signals:
    return Signals(oldest_ready_age=timedelta(seconds=lag), **counts)


@pytest.fixture
def looking() -> Callable[..., Looking]:
    """Start a planner at a replica count; everything else is a field of its spec."""

    def start(current: int, ready: int | None = None, **spec: Any) -> Looking:
        wishes: dict[str, Any] = {
            "concurrency": 10,
            "target_jobs_per_replica": 10,
            "max_replicas": 20,
            **spec,
        }
        return Looking(ScalingSpec(**wishes), current, ready)

    return start
