"""The decision: one look at a queue in, the replica count and its reason out.

The planner is a pure function of its arguments, the clock among them, so that `awa up` and the
operator decide alike and a day can be simulated in a second. One look goes through

1. the need of the moment: depth, lag and the work in hand (`need.py`);
2. stabilisation: the smallest need of the window on the way up, the largest on the way down;
3. rate policies: how far the count may move in a period (`rate.py`);
4. bounds: the minimum and maximum, and the last replica, which stays until the queue was idle
   for the whole cooldown.

What holds always:

- within `min_replicas` and `max_replicas`, at once: bounds are orders, not needs;
- `Unknown` never lowers, except to a lowered maximum, and only the fallback raises;
- nothing goes to zero but from one, with no work waiting, due or running;
- the first look after a restart or a long gap never lowers, except to a lowered maximum;
- asked again at the same moment, carried out or not, the answer is the same.
"""

from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from awa.scaling.history import History, Pending
from awa.scaling.need import Need, need, need_at_zero
from awa.scaling.rate import highest, lowest
from awa.scaling.reasons import Limit, Reason
from awa.scaling.signals import Signals, Unknown
from awa.scaling.spec import ScalingSpec

PATIENCE_WITH_STARTING = timedelta(seconds=120)
"""How long growth by lag waits for replicas that were added but are not ready."""

BLIND_AFTER_POLLS = 3
"""After this many missed looks in a row, if longer than the down window, the past is unknown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """What to do now, and what to remember until `next_look`.

    `wanted` is the count that the work alone asks for and `reason` says why; `limit` says what
    keeps `desired` from it, None when nothing does. Pass `history` to the next call.
    """

    desired: int
    reason: Reason
    history: History
    next_look: datetime
    wanted: int
    limit: Limit | None = None


def decide(
    spec: ScalingSpec,
    history: History,
    signals: Signals | Unknown,
    current: int,
    ready_replicas: int,
    now: datetime,
) -> Decision:
    """Return the replica count that the queue should have now.

    `current` is the count that is asked for at present (a Deployment's `spec.replicas`, or the
    number of local processes started and not told to stop), `ready_replicas` how many of them
    work. `now` is an aware time that moves forward from call to call.
    """
    is_new_look = not history.samples or history.samples[-1].at != now
    blind_after = max(spec.down.window, spec.poll_interval * BLIND_AFTER_POLLS)
    history = history.looked(current, now, blind_after)
    if isinstance(signals, Unknown):
        failures = history.failures + is_new_look
        history = replace(history, failures=failures, idle_since=None)
        wanted = _need_unseen(spec, history, current)
    else:
        history = _clocked(spec, history, signals, now)
        wanted = _need_seen(spec, history, signals, (current, ready_replicas), now)
    history = history.with_need(wanted.replicas, now, spec.longest_window)
    desired, limit = _settled(spec, history, wanted, current, now)
    period = max(spec.longest_period, PATIENCE_WITH_STARTING)
    change = None if desired == current else Pending(now, current, desired, wanted.reason)
    return Decision(
        desired=desired,
        reason=wanted.reason,
        history=history.with_change(change, now, period),
        next_look=now + spec.poll_interval,
        wanted=wanted.replicas,
        limit=limit,
    )


def _clocked(spec: ScalingSpec, history: History, signals: Signals, now: datetime) -> History:
    is_active = signals.waking > spec.activation_threshold
    return replace(
        history,
        failures=0,
        active_since=(history.active_since or now) if is_active else None,
        idle_since=(history.idle_since or now) if signals.is_idle else None,
    )


def _need_unseen(spec: ScalingSpec, history: History, current: int) -> Need:
    fallback = spec.fallback_replicas or 0
    if fallback > current and history.failures >= spec.failure_threshold:
        return Need(fallback, Reason.FALLBACK)
    return Need(current, Reason.METRICS_UNAVAILABLE)


def _need_seen(
    spec: ScalingSpec,
    history: History,
    signals: Signals,
    replicas: tuple[int, int],
    now: datetime,
) -> Need:
    current, ready = replicas
    if current == 0 and spec.min_replicas == 0:
        return need_at_zero(spec, signals)
    raised = history.last_raise()
    is_recent = raised is not None and now - raised < PATIENCE_WITH_STARTING
    return need(spec, signals, current, ready, starting=is_recent and ready < current)


def _settled(
    spec: ScalingSpec, history: History, wanted: Need, current: int, now: datetime
) -> tuple[int, Limit | None]:
    """Return the count that is allowed, and the last thing that changed it."""
    windowed = _stabilised(spec, history, wanted, current, now)
    lowest_now = lowest(spec.down, history, current, now)
    rated = max(lowest_now, min(windowed, highest(spec.up, history, current, now)))
    floored = max(rated, _last_replica(spec, history, wanted, current, now))
    course = (
        (windowed, Limit.DOWN_WINDOW, Limit.UP_WINDOW),
        (rated, Limit.DOWN_RATE, Limit.UP_RATE),
        (floored, Limit.COOLDOWN, Limit.COOLDOWN),
        (spec.clamp(floored), Limit.MIN_REPLICAS, Limit.MAX_REPLICAS),
    )
    result, limit = wanted.replicas, wanted.limit
    for count, raised_by, lowered_by in course:
        if count != result:
            limit = raised_by if count > result else lowered_by
            result = count
    return result, wanted.limit if result == wanted.replicas else limit


def _stabilised(
    spec: ScalingSpec, history: History, wanted: Need, current: int, now: datetime
) -> int:
    """Return the count after both windows; waking and falling back do not wait for them."""
    if wanted.reason in (Reason.ACTIVATION, Reason.FALLBACK):
        return wanted.replicas
    least = min([wanted.replicas, *history.needs_after(now - spec.up.window)])
    most = max(history.needs_from(now - spec.down.window))
    return min(max(current, least), most)


def _last_replica(
    spec: ScalingSpec, history: History, wanted: Need, current: int, now: datetime
) -> int:
    """Return 1 while the last replica must stay, or when work wakes the first, else 0.

    A count above one is never taken to zero either: the last replica goes alone, at a later look.
    """
    if spec.min_replicas > 0:
        return 0
    if current == 0:
        return int(wanted.reason in (Reason.ACTIVATION, Reason.FALLBACK))
    if current == 1 and history.idle_since is not None and history.steps[-1].at < now:
        return int(now - history.idle_since < spec.cooldown)
    return 1
