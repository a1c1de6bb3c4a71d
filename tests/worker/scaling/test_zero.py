"""To zero and back: activation, idleness, cooldown."""

from datetime import timedelta

import pytest

from awa.scaling import Limit, PolicyType, RatePolicy, RateRules, Reason, SelectPolicy

SLEEPER = {"min_replicas": 0, "cooldown": timedelta(seconds=300)}


@pytest.mark.parametrize("work", ["ready", "due_soon", "orphaned", "expired_callbacks", "due_cron"])
def test_every_kind_of_waiting_work_wakes_the_queue(looking, work):
    decision = looking(0, **SLEEPER).look(**{work: 1})
    assert (decision.desired, decision.reason) == (1, Reason.ACTIVATION)


@pytest.mark.parametrize(
    "work", ["ready", "running", "due_soon", "orphaned", "expired_callbacks", "due_cron"]
)
def test_every_kind_of_work_keeps_the_last_replica(looking, work):
    planner = looking(1, **SLEEPER)
    assert set(planner.looks(3600, **{work: 1})) == {1}


def test_a_running_job_of_nobody_wakes_nothing(looking):
    assert looking(0, **SLEEPER).look(running=3).desired == 0


def test_waking_jumps_to_what_the_backlog_needs(looking):
    assert looking(0, **SLEEPER).look(ready=30).desired == 3


def test_waking_stays_within_the_rate(looking):
    decision = looking(0, **SLEEPER).look(ready=1000)
    assert (decision.desired, decision.wanted, decision.limit) == (4, 100, Limit.UP_RATE)


def test_waking_does_not_wait_for_the_up_window(looking):
    slow = RateRules(timedelta(seconds=600), (RatePolicy(PolicyType.PODS, 9, timedelta(1)),))
    assert looking(0, **SLEEPER, up=slow).look(ready=30).desired == 3


def test_a_queue_wakes_even_if_rising_is_disabled(looking):
    never = RateRules(timedelta(0), (), SelectPolicy.DISABLED)
    planner = looking(0, **SLEEPER, up=never)
    assert planner.look(ready=500).desired == 1
    assert planner.look(after=60, ready=500).desired == 1


@pytest.mark.parametrize(("ready", "desired"), [(5, 0), (6, 1)])
def test_only_work_above_the_threshold_wakes_the_queue(looking, ready, desired):
    decision = looking(0, **SLEEPER, activation_threshold=5).look(ready=ready)
    assert decision.desired == desired
    assert (decision.limit is Limit.ACTIVATION_THRESHOLD) is (desired == 0)


def test_the_threshold_counts_every_kind_of_work_together(looking):
    planner = looking(0, **SLEEPER, activation_threshold=2)
    assert planner.look(ready=1, due_soon=1, due_cron=1).desired == 1


def test_a_queue_that_may_not_sleep_needs_no_waking(looking):
    planner = looking(0, min_replicas=1, activation_threshold=50)
    assert planner.look(ready=10, running=20).desired == 3


def test_work_below_the_threshold_still_keeps_a_replica_that_is_there(looking):
    planner = looking(1, **SLEEPER, activation_threshold=5)
    assert set(planner.looks(1200, ready=2)) == {1}


def test_the_last_replica_goes_after_the_whole_cooldown(looking):
    planner = looking(1, min_replicas=0, cooldown=timedelta(seconds=600))
    counts = planner.looks(610)
    assert counts == [1] * 60 + [0]


def test_any_work_starts_the_cooldown_again(looking):
    planner = looking(1, **SLEEPER)
    planner.looks(290)
    planner.look(after=5, due_soon=1)
    assert set(planner.looks(300)) == {1}
    assert planner.look(after=10).desired == 0


def test_an_idle_queue_goes_to_zero_from_one_only(looking):
    planner = looking(20, **SLEEPER)
    planner.look(ready=200)
    counts = planner.looks(3600)
    assert counts[-1] == 0
    assert counts[counts.index(0) - 1] == 1
    assert counts == sorted(counts, reverse=True)


def test_a_long_idleness_does_not_shorten_the_way_from_many(looking):
    free = RateRules(timedelta(0), (RatePolicy(PolicyType.PODS, 100, timedelta(seconds=1)),))
    planner = looking(20, min_replicas=0, cooldown=timedelta(0), down=free)
    planner.look(ready=200)
    assert planner.look(after=10).desired == 1
    assert planner.look().desired == 1
    assert planner.look(after=10).desired == 0


def test_the_cooldown_is_named_as_what_keeps_the_last_replica(looking):
    planner = looking(1, min_replicas=0, cooldown=timedelta(seconds=900))
    planner.looks(600)
    assert planner.look(after=10).limit is Limit.COOLDOWN


def test_a_minimum_of_one_never_goes_to_zero(looking):
    planner = looking(1, min_replicas=1, cooldown=timedelta(0))
    assert set(planner.looks(3600)) == {1}
    assert planner.look(after=10).limit is Limit.MIN_REPLICAS


def test_the_clocks_say_since_when(looking):
    planner = looking(1, **SLEEPER)
    woken = planner.look(ready=1).history
    assert (woken.active_since, woken.idle_since) == (planner.now, None)
    since = planner.now
    assert planner.look(after=10, ready=2).history.active_since == since
    idle = planner.look(after=10).history
    assert (idle.active_since, idle.idle_since) == (None, planner.now)
    busy = planner.look(after=10, running=1).history
    assert (busy.active_since, busy.idle_since) == (None, None)
