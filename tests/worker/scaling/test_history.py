"""What survives a restart, and what forgetting may not do."""

from datetime import UTC, datetime, timedelta, timezone

import pytest

from awa.scaling import History, Reason

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)


def test_the_status_keeps_four_facts():
    history = History(
        active_since=NOON,
        idle_since=NOON + timedelta(minutes=1),
        last_scale_time=NOON + timedelta(minutes=2),
        last_scale_reason=Reason.LAG,
    )
    status = history.to_status()
    assert status == {
        "activeSince": "2026-03-01T12:00:00Z",
        "idleSince": "2026-03-01T12:01:00Z",
        "lastScaleTime": "2026-03-01T12:02:00Z",
        "lastScaleReason": "Lag",
    }
    assert History.from_status(status) == history


def test_a_fresh_history_has_no_status():
    assert History().to_status() == {}
    assert History.from_status({}) == History.from_status(None) == History()


def test_times_are_written_in_utc():
    east = NOON.astimezone(timezone(timedelta(hours=5)))
    assert History(idle_since=east).to_status() == {"idleSince": "2026-03-01T12:00:00Z"}


@pytest.mark.parametrize(
    "status",
    [
        {"idleSince": "yesterday"},
        {"idleSince": "2026-03-01T12:00:00"},
        {"idleSince": 12},
        {"idleSince": None},
        {"lastScaleReason": "FromALaterRelease"},
        {"unknownField": "x"},
    ],
)
def test_a_status_that_cannot_be_read_counts_as_absent(status):
    assert History.from_status(status) == History()


def test_a_parsed_time_is_taken_as_it_is():
    assert History.from_status({"idleSince": NOON}).idle_since == NOON


def test_a_decided_change_is_in_the_status_at_once(looking):
    planner = looking(1)
    status = planner.look(ready=40).history.to_status()
    assert status["lastScaleReason"] == "Backlog"
    assert status["lastScaleTime"] == "2026-01-05T00:00:00Z"
    carried_out = planner.look(after=10, ready=40).history
    assert carried_out.to_status() == status
    assert carried_out.last_scale_reason is Reason.BACKLOG


def test_a_restart_holds_the_count_for_one_window(looking):
    planner = looking(10)
    planner.look(ready=100)
    planner.history = History.from_status(planner.history.to_status())
    assert set(planner.looks(310, ready=1)) == {10}
    assert planner.look(after=10, ready=1).desired == 7


def test_a_restart_keeps_the_cooldown_running(looking):
    planner = looking(1, min_replicas=0, cooldown=timedelta(seconds=1200))
    planner.looks(600)
    planner.history = History.from_status(planner.history.to_status(), planner.now)
    assert planner.looks(610) == [1] * 60 + [0]


def test_a_restart_does_not_hold_a_rise(looking):
    planner = looking(1)
    planner.history = History.from_status({})
    assert planner.look(ready=40).desired == 4


def test_a_restart_still_waits_for_replicas_that_start(looking):
    planner = looking(2, target_lag=timedelta(seconds=60))
    planner.look(ready=5, lag=120)
    planner.history = History.from_status(planner.history.to_status())
    planner.ready = 2
    assert planner.look(after=60, ready=5, lag=180).desired == 4
    assert planner.look(after=60, ready=5, lag=240).desired == 5


def test_a_long_gap_without_looks_is_like_a_restart(looking):
    planner = looking(10)
    planner.look(ready=100)
    assert planner.look(after=3600, ready=1).desired == 10
    assert set(planner.looks(300, ready=1)) == {10}
    assert planner.look(after=10, ready=1).desired == 7


def test_a_long_gap_does_not_count_as_idleness(looking):
    planner = looking(1, min_replicas=0, cooldown=timedelta(seconds=600))
    planner.looks(300)
    assert planner.look(after=7200).history.idle_since == planner.now
    assert set(planner.looks(590)) == {1}
    assert planner.look(after=10).desired == 0


@pytest.mark.parametrize("is_told", [True, False], ids=["told", "unknown"])
def test_a_long_absence_does_not_count_as_idleness(looking, is_told):
    planner = looking(1, min_replicas=0, cooldown=timedelta(seconds=600))
    planner.looks(300)
    last_look = planner.now if is_told else None
    planner.history = History.from_status(planner.history.to_status(), last_look)
    assert planner.look(after=7200).history.idle_since == planner.now
    assert set(planner.looks(590)) == {1}
    assert planner.look(after=10).desired == 0


def test_a_short_idleness_before_a_restart_counts_though_no_last_look_is_known(looking):
    planner = looking(1, min_replicas=0, cooldown=timedelta(seconds=1200))
    planner.looks(200)
    planner.history = History.from_status(planner.history.to_status())
    assert planner.looks(1010) == [1] * 100 + [0]


def test_one_missed_look_is_no_gap(looking):
    planner = looking(1, min_replicas=0, cooldown=timedelta(seconds=300))
    planner.looks(200)
    planner.look(after=60)
    assert planner.looks(60) == [1] * 5 + [0]
