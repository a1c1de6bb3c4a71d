"""A queue that cannot be read is not an empty queue."""

from datetime import timedelta

import pytest

from awa.scaling import Limit, Reason


def test_an_unreadable_queue_holds_what_is_there(looking):
    planner = looking(7, min_replicas=0)
    planner.look(ready=70)
    blind = planner.look(after=10, unknown=True)
    assert (blind.desired, blind.reason, blind.limit) == (7, Reason.METRICS_UNAVAILABLE, None)
    assert planner.looks(3600, unknown=True) == [7] * 360


def test_the_fallback_counts_only_after_enough_failures_in_a_row(looking):
    planner = looking(1, fallback_replicas=3, failure_threshold=6)
    assert planner.looks(50, unknown=True) == [1] * 5
    sixth = planner.look(after=10, unknown=True)
    assert (sixth.desired, sixth.reason) == (3, Reason.FALLBACK)


def test_one_readable_look_starts_the_count_of_failures_again(looking):
    planner = looking(1, fallback_replicas=3, failure_threshold=3)
    planner.looks(20, unknown=True)
    planner.look(after=10, ready=1)
    assert planner.looks(20, unknown=True) == [1, 1]
    assert planner.look(after=10, unknown=True).desired == 3


def test_a_second_look_at_the_same_moment_is_not_a_second_failure(looking):
    planner = looking(1, fallback_replicas=3, failure_threshold=2)
    assert [planner.look(unknown=True).desired for _ in range(5)] == [1] * 5
    assert planner.look(after=10, unknown=True).desired == 3


@pytest.mark.parametrize(
    ("current", "fallback", "expected"), [(7, 3, 7), (0, 1, 1), (2, 3, 3), (0, None, 0)]
)
def test_the_fallback_only_ever_raises(looking, current, fallback, expected):
    planner = looking(current, min_replicas=0, fallback_replicas=fallback)
    assert planner.looks(600, unknown=True)[-1] == expected


def test_the_fallback_keeps_to_the_rate(looking):
    planner = looking(1, fallback_replicas=12, failure_threshold=1)
    decision = planner.look(unknown=True)
    assert (decision.desired, decision.limit) == (5, Limit.UP_RATE)


def test_the_fallback_is_left_as_slowly_as_any_count(looking):
    planner = looking(1, fallback_replicas=5, failure_threshold=1)
    planner.look(unknown=True)
    assert set(planner.looks(300, ready=1)) == {5}
    assert planner.look(after=10, ready=1).desired == 3


def test_nothing_falls_for_a_window_after_the_queue_can_be_read_again(looking):
    planner = looking(7)
    planner.look(ready=70)
    planner.looks(1200, unknown=True)
    assert set(planner.looks(300, ready=1)) == {7}
    assert planner.look(after=10, ready=1).desired == 5


def test_an_unreadable_moment_starts_the_cooldown_again(looking):
    planner = looking(1, min_replicas=0, cooldown=timedelta(seconds=600))
    planner.looks(300)
    planner.look(after=5, unknown=True)
    assert planner.looks(610) == [1] * 60 + [0]


@pytest.mark.parametrize(
    ("current", "bounds", "expected"), [(9, {"max_replicas": 4}, 4), (1, {"min_replicas": 2}, 2)]
)
def test_bounds_are_orders_even_in_the_dark(looking, current, bounds, expected):
    assert looking(current, **bounds).look(unknown=True).desired == expected


def test_an_unreadable_queue_at_zero_stays_at_zero_without_a_fallback(looking):
    planner = looking(0, min_replicas=0)
    assert set(planner.looks(3600, unknown=True)) == {0}
