"""How fast a need is followed: stabilisation windows, rate policies, bounds."""

from dataclasses import replace
from datetime import timedelta

import pytest

from awa.scaling import (
    DOWN,
    UP,
    History,
    Limit,
    PolicyType,
    RatePolicy,
    RateRules,
    SelectPolicy,
    Signals,
    decide,
)

SECOND = timedelta(seconds=1)


def rules(window: int, *policies: tuple[PolicyType, int, int], select=SelectPolicy.MAX):
    made = tuple(RatePolicy(kind, value, period * SECOND) for kind, value, period in policies)
    return RateRules(window * SECOND, made, select)


FREE = rules(0, (PolicyType.PODS, 1000, 1))


def test_the_way_up_follows_the_smallest_need_of_its_window(looking):
    planner = looking(1, up=replace(FREE, window=30 * SECOND))
    held = planner.look(ready=50)
    assert (held.desired, held.limit) == (1, Limit.UP_WINDOW)
    assert planner.looks(30, ready=50) == [1, 1, 5]
    assert planner.looks(30, ready=80) == [5, 5, 8]


def test_a_short_spike_is_not_followed_when_the_up_window_is_longer(looking):
    planner = looking(1, up=replace(FREE, window=60 * SECOND))
    counts = planner.looks(40, ready=100) + planner.looks(200, ready=1)
    assert set(counts) == {1}


def test_the_way_down_follows_the_largest_need_of_its_window(looking):
    planner = looking(10, down=replace(FREE, window=300 * SECOND))
    planner.look(ready=100)
    held = planner.look(after=10, ready=20)
    assert (held.desired, held.wanted, held.limit) == (10, 2, Limit.DOWN_WINDOW)
    counts = planner.looks(300, ready=20)
    assert counts == [10] * 29 + [2]


def test_the_default_rise_is_four_replicas_or_double_in_fifteen_seconds(looking):
    planner = looking(1, max_replicas=100)
    counts = [planner.look(after=15, ready=1000).desired for _ in range(5)]
    assert counts == [5, 10, 20, 40, 80]


def test_a_rise_counts_against_the_rate_until_its_period_is_over(looking):
    planner = looking(10, max_replicas=100)
    first = planner.look(ready=1000)
    assert (first.desired, first.limit) == (20, Limit.UP_RATE)
    assert planner.look(after=14, ready=1000).desired == 20
    assert planner.look(after=1, ready=1000).desired == 40


def test_the_default_fall_is_a_quarter_a_minute(looking):
    planner = looking(20, down=replace(DOWN, window=0 * SECOND))
    planner.look(ready=200)
    counts = planner.looks(600, running=1)
    assert counts[::6] == [15, 11, 8, 6, 4, 3, 2, 1, 1, 1]
    assert counts == sorted(counts, reverse=True)


def test_a_fall_limited_by_its_rate_says_so(looking):
    planner = looking(20, down=replace(DOWN, window=0 * SECOND))
    planner.look(ready=200)
    assert planner.look(after=10, ready=1).limit is Limit.DOWN_RATE


TWO_POLICIES = ((PolicyType.PODS, 2, 60), (PolicyType.PERCENT, 50, 60))


@pytest.mark.parametrize(
    ("select", "desired"),
    [(SelectPolicy.MAX, 15), (SelectPolicy.MIN, 12), (SelectPolicy.DISABLED, 10)],
)
def test_select_policy_chooses_among_policies_on_the_way_up(looking, select, desired):
    planner = looking(10, up=rules(0, *TWO_POLICIES, select=select))
    assert planner.look(ready=1000).desired == desired


@pytest.mark.parametrize(
    ("select", "desired"),
    [(SelectPolicy.MAX, 5), (SelectPolicy.MIN, 8), (SelectPolicy.DISABLED, 10)],
)
def test_select_policy_chooses_among_policies_on_the_way_down(looking, select, desired):
    planner = looking(10, down=rules(0, *TWO_POLICIES, select=select))
    planner.look(ready=100)
    assert planner.look(after=10, ready=1).desired == desired


def test_a_change_by_someone_else_counts_against_the_rate(looking):
    planner = looking(2, max_replicas=100)
    planner.look(ready=20)
    planner.current = 4
    assert planner.look(after=5, ready=1000).desired == 6
    assert planner.look(after=15, ready=1000).desired == 12


def test_a_rise_by_someone_else_is_where_the_next_rise_starts(looking):
    planner = looking(2, max_replicas=100)
    planner.look(ready=20)
    planner.current = 10
    planner.look(after=10, ready=100)
    assert planner.look(after=15, ready=1000).desired == 20


def test_a_rise_by_someone_else_is_not_undone_by_the_rate(looking):
    planner = looking(2, max_replicas=100)
    planner.look(ready=20)
    planner.current = 20
    assert planner.look(after=5, ready=200).desired == 20


def test_a_fall_by_someone_else_is_not_undone_by_the_rate(looking):
    planner = looking(20, down=replace(DOWN, window=0 * SECOND))
    planner.look(ready=200)
    planner.current = 5
    assert planner.look(after=10, ready=40).desired == 5


def test_part_of_a_replica_counts_up_on_the_way_up(looking):
    planner = looking(3, up=rules(0, (PolicyType.PERCENT, 50, 15)))
    assert planner.look(ready=1000).desired == 5


def test_part_of_a_replica_counts_as_leave_to_go_on_the_way_down(looking):
    planner = looking(3, down=rules(0, (PolicyType.PERCENT, 25, 60)))
    planner.look(ready=30)
    assert planner.look(after=10, ready=1).desired == 2


@pytest.mark.parametrize(("gap", "desired"), [(30, 7), (31, 10)])
def test_a_few_missed_looks_do_not_count_as_not_knowing(looking, gap, desired):
    planner = looking(10, down=replace(DOWN, window=0 * SECOND))
    planner.look(ready=100)
    assert planner.look(after=gap, ready=1).desired == desired


def test_a_decision_that_was_not_carried_out_is_made_again(looking):
    planner = looking(2, max_replicas=100)
    assert planner.look(ready=1000).desired == 6
    planner.current = 2
    again = planner.look(after=5, ready=1000)
    assert again.desired == 6
    assert again.history.last_scale_time is None
    planner.current = 2
    assert planner.look(after=5, ready=0).history.pending is None


@pytest.mark.parametrize(
    ("current", "bounds", "expected"),
    [
        (10, {"max_replicas": 4}, (4, Limit.MAX_REPLICAS)),
        (1, {"min_replicas": 6}, (6, Limit.MIN_REPLICAS)),
        (0, {"min_replicas": 2}, (2, Limit.MIN_REPLICAS)),
    ],
)
def test_bounds_hold_at_once_whatever_windows_and_rates_say(looking, current, bounds, expected):
    decision = looking(current, **bounds).look(running=current * 10)
    assert (decision.desired, decision.limit) == expected


def test_a_maximum_of_zero_stops_every_replica(looking):
    planner = looking(3, min_replicas=0, max_replicas=0)
    assert planner.look(ready=50, running=30).desired == 0


def test_the_maximum_limits_a_backlog(looking):
    planner = looking(18)
    decision = planner.look(ready=1000)
    assert (decision.desired, decision.wanted, decision.limit) == (20, 100, Limit.MAX_REPLICAS)


def test_the_defaults_are_those_that_are_documented():
    assert rules(0, (PolicyType.PODS, 4, 15), (PolicyType.PERCENT, 100, 15)) == UP
    assert rules(300, (PolicyType.PODS, 1, 60), (PolicyType.PERCENT, 25, 60)) == DOWN


def test_remembering_a_day_of_looks_stays_small(looking):
    planner = looking(10, down=replace(DOWN, window=3600 * SECOND), poll_interval=SECOND)
    sizes = []
    for tick in range(3600):
        planner.current = tick % 20 + 1
        planner.look(after=1, ready=tick * 37 % 200)
        sizes.append((len(planner.history.samples), len(planner.history.steps)))
    assert max(samples for samples, _ in sizes) <= 2 * 20 + 1
    assert max(steps for _, steps in sizes) <= 2 * 120 + 2


def test_a_clock_that_goes_back_forgets_the_future(looking):
    planner = looking(10, min_replicas=0)
    planner.look(ready=100)
    planner.look(after=3600, ready=150)
    planner.look(after=100)
    back = planner.look(after=-1800)
    assert back.desired == 15
    assert back.history.idle_since == planner.now
    assert all(sample.at <= planner.now for sample in back.history.samples)
    assert all(step.at <= planner.now for step in back.history.steps)


def test_need_of_an_earlier_spec_does_not_break_a_later_one(looking):
    planner = looking(3)
    history = planner.look(ready=30).history
    shorter = replace(planner.spec, down=replace(DOWN, window=0 * SECOND))
    later = planner.now + 10 * SECOND
    assert decide(shorter, history, Signals(ready=1), 3, 3, later).desired == 2
    assert isinstance(history, History)
