"""What holds for every spec, every past and every moment."""

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from awa.scaling import (
    History,
    PolicyType,
    RatePolicy,
    RateRules,
    ScalingSpec,
    SelectPolicy,
    Signals,
    Unknown,
    decide,
)

START = datetime(2026, 1, 5, tzinfo=UTC)


def holds_for(*strategies: st.SearchStrategy) -> Callable[..., Any]:
    """As `given`; how long an example takes says nothing on a busy machine."""
    return lambda test: settings(deadline=None)(given(*strategies)(test))


def seconds(least: int, most: int) -> st.SearchStrategy[timedelta]:
    return st.integers(least, most).map(lambda count: timedelta(seconds=count))


rate_rules = st.builds(
    RateRules,
    seconds(0, 600),
    st.lists(
        st.builds(RatePolicy, st.sampled_from(PolicyType), st.integers(1, 150), seconds(1, 300)),
        min_size=1,
        max_size=3,
    ).map(tuple),
    st.sampled_from(SelectPolicy),
)
small = st.integers(0, 3) | st.just(0)
signals = st.builds(
    Signals,
    ready=st.integers(0, 400) | st.just(0),
    running=st.integers(0, 200) | st.just(0),
    oldest_ready_age=seconds(0, 600),
    due_soon=small,
    orphaned=small,
    expired_callbacks=small,
    due_cron=small,
)
sights = signals | st.builds(Signals) | st.builds(Unknown)


@st.composite
def specs(draw: st.DrawFn, most_min: int = 5) -> ScalingSpec:
    least = draw(st.integers(0, most_min))
    return ScalingSpec(
        concurrency=draw(st.integers(1, 20)),
        target_jobs_per_replica=draw(st.integers(1, 20)),
        target_lag=draw(st.none() | seconds(1, 300)),
        min_replicas=least,
        max_replicas=draw(st.integers(max(1, least), 30)),
        activation_threshold=draw(st.integers(0, 5)),
        poll_interval=draw(seconds(1, 60)),
        cooldown=draw(seconds(0, 600)),
        tolerance_percent=draw(st.integers(0, 50)),
        up=draw(rate_rules),
        down=draw(rate_rules),
        fallback_replicas=draw(st.none() | st.integers(0, 30)),
        failure_threshold=draw(st.integers(1, 4)),
    )


@st.composite
def moments(draw: st.DrawFn, /, **wishes: int):
    """A spec and a planner that has looked some times, each decision carried out or not."""
    spec = draw(specs(**wishes))
    current, now, history = draw(st.integers(0, spec.max_replicas)), START, History()
    for sight in draw(st.lists(sights, max_size=12)):
        decision = decide(spec, history, sight, current, draw(st.integers(0, current)), now)
        history = decision.history
        current = draw(st.sampled_from([decision.desired, current]))
        now += draw(seconds(1, 400))
    return spec, history, current, draw(st.integers(0, current + 2)), now


@holds_for(moments(), sights)
def test_the_count_is_within_its_bounds(moment, sight):
    spec, history, current, ready, now = moment
    decision = decide(spec, history, sight, current, ready, now)
    assert spec.min_replicas <= decision.desired <= spec.max_replicas


@holds_for(moments(most_min=0), sights)
def test_zero_comes_only_from_one_and_only_without_work(moment, sight):
    spec, history, current, ready, now = moment
    decision = decide(spec, history, sight, current, ready, now)
    if current > 0 and decision.desired == 0:
        assert current == 1
        assert isinstance(sight, Signals)
        assert sight.is_idle
        assert now - decision.history.idle_since >= spec.cooldown


@holds_for(moments())
def test_not_knowing_never_lowers(moment):
    spec, history, current, ready, now = moment
    decision = decide(spec, history, Unknown(), current, ready, now)
    assert decision.desired >= current


@holds_for(moments())
def test_not_knowing_raises_to_the_fallback_or_the_minimum_only(moment):
    spec, history, current, ready, now = moment
    decision = decide(spec, history, Unknown(), current, ready, now)
    assert decision.desired <= max(current, spec.min_replicas, spec.fallback_replicas or 0)


@holds_for(moments(), sights)
def test_the_first_look_after_a_restart_never_lowers(moment, sight):
    spec, history, current, ready, now = moment
    restarted = History.from_status(history.to_status())
    assert decide(spec, restarted, sight, current, ready, now).desired >= current


@holds_for(moments(), signals)
def test_work_in_hand_keeps_its_replicas(moment, sight):
    spec, history, current, ready, now = moment
    decision = decide(spec, history, sight, current, ready, now)
    places = -(-sight.running // spec.concurrency)
    assert decision.desired >= min(current, places)


@holds_for(moments(), signals, st.integers(0, 50), st.integers(0, 50), small)
def test_more_work_never_asks_for_fewer(moment, sight, more_ready, more_running, more_due):
    spec, history, current, ready, now = moment
    busier = replace(
        sight,
        ready=sight.ready + more_ready,
        running=sight.running + more_running,
        due_soon=sight.due_soon + more_due,
    )
    less = decide(spec, history, sight, current, ready, now)
    more = decide(spec, history, busier, current, ready, now)
    assert more.desired >= less.desired


@holds_for(moments(), sights)
def test_a_decision_that_was_carried_out_is_not_followed_by_another(moment, sight):
    spec, history, current, ready, now = moment
    first = decide(spec, history, sight, current, ready, now)
    second = decide(spec, first.history, sight, first.desired, ready, now)
    assert second.desired == first.desired


@holds_for(moments(), sights)
def test_a_decision_that_was_not_carried_out_is_made_again(moment, sight):
    spec, history, current, ready, now = moment
    first = decide(spec, history, sight, current, ready, now)
    second = decide(spec, first.history, sight, current, ready, now)
    assert (second.desired, second.reason, second.limit) == (
        first.desired,
        first.reason,
        first.limit,
    )


@holds_for(moments(), signals, st.lists(signals, max_size=20), seconds(1, 60))
def test_a_rise_is_kept_for_the_down_window(moment, sight, later_sights, between):
    spec, history, current, _, now = moment
    decision = decide(spec, history, sight, current, current, now)
    reached, until = decision.desired, now + spec.down.window
    if reached <= current:
        return
    for later in later_sights:
        now += between
        if now > until:
            break
        before = decision.desired
        decision = decide(spec, decision.history, later, before, before, now)
        assert decision.desired >= reached


@holds_for(moments(), sights)
def test_a_limit_is_named_whenever_the_count_is_not_the_wanted_one(moment, sight):
    spec, history, current, ready, now = moment
    decision = decide(spec, history, sight, current, ready, now)
    assert decision.limit is not None or decision.desired == decision.wanted


@holds_for(moments(), sights)
def test_the_history_stays_within_the_range_of_counts(moment, sight):
    spec, history, current, ready, now = moment
    samples = decide(spec, history, sight, current, ready, now).history.samples
    counts = [sample.replicas for sample in samples]
    assert len(counts) <= 2 * (max(counts) - min(counts)) + 1
    assert [sample.at for sample in samples] == sorted(sample.at for sample in samples)
