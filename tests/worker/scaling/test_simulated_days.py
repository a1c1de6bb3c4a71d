"""Days of load, simulated: what the windows, rates and bounds amount to together.

One replica does two jobs a second (ten slots, five seconds a job), so twenty jobs a second need
ten replicas. A replica works twenty seconds after it was added.
"""

from datetime import timedelta
from itertools import pairwise
from pathlib import Path

import pytest

from awa.scaling import Reason, ScalingSpec

SPEC = ScalingSpec(
    concurrency=10,
    target_jobs_per_replica=10,
    target_lag=timedelta(seconds=60),
    min_replicas=0,
    max_replicas=20,
)
TARGET_LAG = 60
GUIDE = (Path(__file__).parents[3] / "docs" / "guides" / "scaling.md").read_text()
LOOKS_IN_WINDOW = 30


def square(period: int, high: int):
    return lambda tick, _: high * (tick // (period // 2) % 2)


def noise(_tick, chance):
    return chance.randint(0, 30)


def assert_the_guide_says_so(load: str, run) -> None:
    counts = run.settled(hours=22)
    least, most = min(counts), max(counts)
    replicas = f"{least}" if least == most else f"{least} to {most}"
    assert f"| {load} | {replicas} | {run.turns} | {run.worst_lag} s |" in GUIDE.splitlines()


def most_turns_in_a_window(run) -> int:
    moves = [after - before for before, after in pairwise(run.replicas)]
    most = 0
    for begin in range(0, len(moves) - LOOKS_IN_WINDOW, LOOKS_IN_WINDOW // 2):
        seen = [move for move in moves[begin : begin + LOOKS_IN_WINDOW] if move]
        most = max(most, sum((one > 0) is not (two > 0) for one, two in pairwise(seen)))
    return most


def test_a_steady_load_settles_and_stays(simulate):
    run = simulate(SPEC, lambda _tick, _chance: 20)
    assert len(set(run.settled(hours=22))) == 1
    assert 10 <= run.replicas[-1] <= 13
    assert run.turns <= 1
    assert run.worst_lag <= TARGET_LAG
    assert run.unhoused <= 0
    assert_the_guide_says_so("20 jobs/s, even", run)


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_independent_arrivals_move_the_count_little(simulate, poisson, seed):
    run = simulate(SPEC, poisson(20), seed=seed)
    settled = run.settled(hours=23)
    assert min(settled) >= 10
    assert max(settled) <= 15
    assert run.turns <= 2 * 24
    assert run.worst_lag <= TARGET_LAG
    if seed == 1:
        assert_the_guide_says_so("20 jobs/s, at random", run)


def test_a_wave_of_a_minute_is_served_at_its_crest(simulate):
    run = simulate(SPEC, square(60, high=30))
    assert run.turns <= 1
    assert len(set(run.settled(hours=22))) == 1
    assert run.worst_lag <= TARGET_LAG
    assert run.unhoused <= 0
    assert_the_guide_says_so("0 and 30 jobs/s, 30 seconds each", run)


def test_a_wave_of_ten_minutes_is_followed_with_its_own_edges_only(simulate):
    run = simulate(SPEC, square(600, high=30))
    assert run.turns <= 2 * (24 * 6)
    assert most_turns_in_a_window(run) <= 2
    assert run.worst_lag <= TARGET_LAG
    assert run.unhoused <= 0
    assert_the_guide_says_so("0 and 30 jobs/s, 5 minutes each", run)


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_noise_does_not_make_the_count_flap(simulate, seed):
    run = simulate(SPEC, noise, seed=seed)
    assert run.turns <= 6 * 24
    assert most_turns_in_a_window(run) <= 2
    assert run.worst_lag <= TARGET_LAG
    assert run.unhoused <= 0
    if seed == 1:
        assert_the_guide_says_so("0 to 30 jobs/s, new every second", run)


def test_a_burst_is_served_and_then_left_step_by_step_to_zero(simulate):
    run = simulate(SPEC, lambda tick, _: 20 if 60 <= tick < 120 else 0, replicas=0)
    assert run.finished == 1200
    assert run.worst_lag <= TARGET_LAG
    assert run.turns == 1
    top = run.replicas.index(max(run.replicas))
    falls = [before - after for before, after in pairwise(run.replicas[top:]) if before != after]
    assert len(falls) >= 5
    assert all(fall <= max(1, 20 // 4) for fall in falls)
    last = run.replicas.index(0, top)
    assert run.replicas[last - 1] == 1
    assert set(run.replicas[last:]) == {0}
    assert last * 10 <= 3600
    assert run.decisions[last].reason is Reason.IDLE
    assert_the_guide_says_so("20 jobs/s for one minute, once", run)


def test_bursts_every_hour_wake_the_queue_and_let_it_sleep_again(simulate):
    run = simulate(SPEC, lambda tick, _: 5 if tick % 3600 < 60 else 0, replicas=0)
    assert run.finished == 24 * 300
    assert run.worst_lag <= TARGET_LAG
    assert run.turns == 2 * 24 - 1
    for before, after in pairwise(run.replicas):
        assert after > 0 or before <= 1
    assert_the_guide_says_so("5 jobs/s for the first minute of every hour", run)


def test_an_outage_of_an_hour_changes_nothing(simulate):
    outage = range(2 * 3600, 3 * 3600)
    run = simulate(SPEC, lambda _tick, _chance: 20, hours=4, blind=outage)
    during = run.replicas[outage.start // 10 - 1 : outage.stop // 10]
    assert len(set(during)) == 1
    assert during[0] >= 10
    assert run.worst_lag <= TARGET_LAG


def test_restarts_every_ten_minutes_never_lower_the_count(simulate):
    restarts = range(600, 24 * 3600, 600)
    run = simulate(SPEC, square(600, high=30), restarts=restarts)
    for tick in restarts:
        assert run.replicas[tick // 10] >= run.replicas[tick // 10 - 1]
    assert run.worst_lag <= TARGET_LAG
