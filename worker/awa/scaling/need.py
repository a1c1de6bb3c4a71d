"""How many replicas the work of this moment needs, before windows and rates have their say."""

from dataclasses import dataclass
from datetime import timedelta

from awa.scaling.reasons import Limit, Reason
from awa.scaling.signals import Signals
from awa.scaling.spec import ScalingSpec

LAG_GROWTH = 2
"""However far the lag is above its target, one look asks at most for this many times as much."""


@dataclass(frozen=True, slots=True)
class Need:
    """The replicas needed, why, and what already kept the number from following the work."""

    replicas: int
    reason: Reason
    limit: Limit | None = None


def need_at_zero(spec: ScalingSpec, signals: Signals) -> Need:
    """Return the need of a queue asleep: none, unless its work is above the threshold.

    Running jobs wake nobody: either another worker has them, or they show up as orphaned.
    """
    if signals.waking > spec.activation_threshold:
        return Need(max(1, by_depth(spec, signals)), Reason.ACTIVATION)
    below = Limit.ACTIVATION_THRESHOLD if signals.waking else None
    return Need(0, Reason.IDLE if signals.is_idle else Reason.STEADY, below)


def need(spec: ScalingSpec, signals: Signals, current: int, ready: int, starting: bool) -> Need:
    """Return the need of a queue awake, with `current` replicas, `ready` of them at work.

    `starting` says that replicas were added a moment ago and are not ready yet.
    """
    depth, floor = by_depth(spec, signals), by_work_in_hand(spec, signals)
    lag = by_lag(spec, signals, current, current if starting else ready)
    held = starting and lag > current
    votes = (
        Need(depth, Reason.BACKLOG),
        Need(floor, Reason.WORK_IN_HAND),
        Need(current if held else lag, Reason.LAG, Limit.PENDING_REPLICAS if held else None),
    )
    wanted = max(votes, key=lambda vote: vote.replicas)
    return _within_tolerance(spec, current, _named(wanted, signals, current))


def by_depth(spec: ScalingSpec, signals: Signals) -> int:
    """Return the replicas that ready and running jobs ask for."""
    return _divide_up(signals.demand, spec.target_jobs_per_replica)


def by_work_in_hand(spec: ScalingSpec, signals: Signals) -> int:
    """Return the replicas without which running jobs would have no place."""
    return _divide_up(signals.running, spec.concurrency)


def by_lag(spec: ScalingSpec, signals: Signals, current: int, ready: int) -> int:
    """Return the vote of the oldest claimable job: none, hold, or more the later it is."""
    target, lag = spec.target_lag, signals.lag
    if target is None or lag * 2 <= target:
        return 0
    if lag <= target:
        return current
    lag = min(lag, target * LAG_GROWTH)
    return max(current + 1, _divide_up(ready * _ticks(lag), _ticks(target)))


def _named(wanted: Need, signals: Signals, current: int) -> Need:
    """Return the need with the reason that fits its relation to the current count."""
    if wanted.replicas > current:
        return wanted
    if wanted.replicas < current:
        return Need(wanted.replicas, Reason.IDLE if signals.is_idle else Reason.LESS_WORK)
    if wanted.limit is not None:
        return wanted
    held = wanted.reason is Reason.LAG
    return Need(current, Reason.LAG_NEAR_TARGET if held else Reason.STEADY)


def _within_tolerance(spec: ScalingSpec, current: int, wanted: Need) -> Need:
    difference = abs(wanted.replicas - current)
    if difference and difference * 100 <= spec.tolerance_percent * current:
        return Need(current, wanted.reason, Limit.TOLERANCE)
    return wanted


def _divide_up(dividend: int, divisor: int) -> int:
    return -(-dividend // divisor)


def _ticks(duration: timedelta) -> int:
    return duration // timedelta.resolution
