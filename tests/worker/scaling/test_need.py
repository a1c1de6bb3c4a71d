"""The need of one moment: depth, lag, the work in hand, tolerance."""

from datetime import timedelta

import pytest

from awa.scaling import Limit, Reason

MINUTE = timedelta(seconds=60)


@pytest.mark.parametrize(
    ("ready", "running", "expected"),
    [(30, 0, 3), (31, 0, 4), (0, 30, 3), (21, 10, 4), (1, 0, 1)],
)
def test_depth_counts_ready_and_running_jobs(looking, ready, running, expected):
    decision = looking(1, concurrency=100).look(ready=ready, running=running)
    assert decision.wanted == expected


def test_a_backlog_raises_the_count(looking):
    decision = looking(1).look(ready=40)
    assert (decision.desired, decision.reason, decision.limit) == (4, Reason.BACKLOG, None)


def test_running_jobs_keep_their_replicas_even_if_depth_needs_fewer(looking):
    planner = looking(4, target_jobs_per_replica=1000, tolerance_percent=0)
    decision = planner.look(running=50)
    assert (decision.wanted, decision.reason) == (5, Reason.WORK_IN_HAND)


@pytest.mark.parametrize(
    ("lag", "wanted", "reason"),
    [
        (30, 1, Reason.LESS_WORK),  # half the target: no vote
        (30.001, 10, Reason.LAG_NEAR_TARGET),
        (60, 10, Reason.LAG_NEAR_TARGET),
        (60.001, 11, Reason.LAG),
        (90, 15, Reason.LAG),
        (120, 20, Reason.LAG),
        (3600, 20, Reason.LAG),  # never more than double
    ],
)
def test_lag_votes_for_none_or_the_same_or_more(looking, lag, wanted, reason):
    planner = looking(10, target_lag=MINUTE, tolerance_percent=0)
    decision = planner.look(ready=5, lag=lag)
    assert (decision.wanted, decision.reason) == (wanted, reason)


def test_lag_has_no_vote_without_a_target(looking):
    assert looking(10).look(ready=5, lag=3600).reason is Reason.LESS_WORK


def test_an_age_without_a_claimable_job_is_no_lag(looking):
    planner = looking(10, target_lag=MINUTE)
    assert planner.look(ready=0, running=5, lag=3600).reason is Reason.LESS_WORK


def test_lag_grows_from_the_replicas_that_work(looking):
    planner = looking(10, ready=6, target_lag=MINUTE, tolerance_percent=0)
    assert planner.look(ready=5, lag=120).wanted == 12


def test_growth_by_lag_waits_for_the_replicas_added_last(looking):
    planner = looking(2, target_lag=MINUTE)
    assert planner.look(ready=5, lag=120).desired == 4
    planner.ready = 2
    waiting = planner.look(after=60, ready=5, lag=180)
    assert (waiting.desired, waiting.limit) == (4, Limit.PENDING_REPLICAS)
    planner.ready = 4
    assert planner.look(after=10, ready=5, lag=190).desired == 8


def test_growth_by_lag_gives_up_waiting_after_two_minutes(looking):
    planner = looking(2, target_lag=MINUTE)
    planner.look(ready=5, lag=120)
    planner.ready = 2
    assert planner.look(after=119, ready=5, lag=240).desired == 4
    assert planner.look(after=1, ready=5, lag=240).desired == 5


def test_growth_by_lag_waits_whatever_else_happened_since(looking):
    planner = looking(2, target_lag=MINUTE)
    planner.look(ready=5, lag=120)
    planner.ready = 2
    planner.look(after=10, ready=5, lag=130)
    planner.current = 3
    planner.look(after=60, ready=5, lag=190)
    waiting = planner.look(after=40, ready=5, lag=230)
    assert (waiting.desired, waiting.limit) == (3, Limit.PENDING_REPLICAS)
    assert planner.look(after=10, ready=5, lag=240).desired == 4


def test_growth_by_depth_does_not_wait_for_replicas_that_start(looking):
    planner = looking(2, ready=2, target_lag=MINUTE)
    planner.look(ready=40, lag=120)
    assert planner.look(after=15, ready=80, lag=135).desired == 8


@pytest.mark.parametrize(
    ("jobs", "desired", "limit"),
    [(100, 10, None), (110, 10, Limit.TOLERANCE), (111, 12, None), (90, 10, Limit.TOLERANCE)],
)
def test_a_difference_within_the_tolerance_changes_nothing(looking, jobs, desired, limit):
    decision = looking(10).look(ready=jobs)
    assert (decision.desired, decision.limit) == (desired, limit)


def test_zero_tolerance_follows_every_difference(looking):
    assert looking(10, tolerance_percent=0).look(ready=110).desired == 11


def test_a_count_that_fits_is_steady(looking):
    decision = looking(3).look(ready=20, running=10)
    assert (decision.desired, decision.reason, decision.limit) == (3, Reason.STEADY, None)


def test_the_next_look_is_one_poll_away(looking):
    planner = looking(3, poll_interval=timedelta(seconds=7))
    assert planner.look(ready=1).next_look == planner.now + timedelta(seconds=7)
