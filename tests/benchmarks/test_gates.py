import json

import pytest
from bench.gates import Gate, judge
from bench.record import Sample, Spread
from bench.table import tables


def drained(
    contender: str,
    rate: float,
    *,
    repetition: int = 1,
    case: str = "1 worker",
    scenario: str = "throughput",
    foreign: float = 0.0,
    killed: float = 0.0,
) -> Sample:
    figures = {
        "enqueue_per_s": rate,
        "drain_per_s": rate,
        "wal_bytes": 1.0,
        "worker_us": 1.0,
        "server_us": 1.0,
        "killed_per_job": killed,
    }
    return Sample(scenario, case, contender, "1", repetition, foreign, figures)


def verdict_of(name: str, samples: list[Sample]) -> dict[str, object]:
    return {verdict.gate.name: verdict.as_json() for verdict in judge(samples)}[name]


@pytest.mark.parametrize(("ours", "met"), [(199.0, False), (200.0, True), (300.0, True)])
def test_a_rate_is_divided_by_the_baseline_of_the_same_repetition(ours: float, met: bool) -> None:
    verdict = verdict_of("drain rate, 1 worker", [drained("awa", ours), drained("graphile", 100)])
    assert verdict["median"] == ours / 100
    assert verdict["met"] is met


def test_the_median_of_the_repetitions_decides() -> None:
    samples = [drained("graphile", 100, repetition=rep) for rep in (1, 2, 3)]
    samples += [drained("awa", rate, repetition=rep) for rep, rate in ((1, 50), (2, 210), (3, 900))]
    verdict = verdict_of("drain rate, 1 worker", samples)
    assert (verdict["low"], verdict["median"], verdict["high"]) == (0.5, 2.1, 9.0)
    assert verdict["met"] is True


def test_noisy_repetitions_are_left_out_while_three_quiet_ones_remain() -> None:
    samples = [drained("graphile", 100, repetition=rep) for rep in range(1, 6)]
    samples += [drained("awa", 300, repetition=rep) for rep in (1, 2, 3)]
    samples += [drained("awa", 10, repetition=rep, foreign=1.0) for rep in (4, 5)]
    verdict = verdict_of("drain rate, 1 worker", samples)
    assert (verdict["low"], verdict["noisy_repetitions_left_out"]) == (3.0, 2)


def test_noisy_repetitions_count_when_too_few_are_quiet() -> None:
    samples = [drained("graphile", 100, repetition=rep, foreign=1.0) for rep in (1, 2, 3)]
    samples += [drained("awa", 300, repetition=rep) for rep in (1, 2, 3)]
    assert verdict_of("drain rate, 1 worker", samples)["repetitions"] == 3


@pytest.mark.parametrize(("burdened", "met"), [(96.0, True), (94.0, False)])
def test_a_burden_may_cost_five_percent_of_the_drain_rate(burdened: float, met: bool) -> None:
    samples = [
        drained("awa", 100, scenario="pinned", case="free"),
        drained("awa", burdened, scenario="pinned", case="snapshot held"),
    ]
    verdict = verdict_of("cost of a held snapshot", samples)
    assert verdict["median"] == pytest.approx(100 - burdened)
    assert verdict["met"] is met


@pytest.mark.parametrize(("killed", "met"), [(0.0, True), (0.004, True), (0.01, False)])
def test_one_killed_tuple_in_a_hundred_jobs_is_too_many(killed: float, met: bool) -> None:
    samples = [drained("awa", 100, killed=killed)]
    assert verdict_of("killed tuples a job", samples)["met"] is met


def test_a_gate_without_samples_has_no_verdict() -> None:
    assert {verdict.gate.name for verdict in judge([drained("awa", 100)])} == {
        "killed tuples a job"
    }


def test_every_record_is_one_line_of_json() -> None:
    samples = [drained("awa", 300), drained("graphile", 100)]
    records = [sample.as_json() for sample in samples] + [v.as_json() for v in judge(samples)]
    assert all("\n" not in json.dumps(record) for record in records)


def test_the_table_names_what_was_missed() -> None:
    text = "\n".join(tables([drained("awa", 150), drained("graphile", 100)]))
    missed = [line.split("|")[1].strip() for line in text.splitlines() if "MISSED" in line]
    assert "drain rate, 1 worker" in missed
    assert "killed tuples a job" not in missed


def test_a_gate_says_its_demand() -> None:
    gate = Gate("x", 2.5, at_least=True, value=lambda samples, repetition: None)
    assert gate.demand() == "≥ 2.5 x"


def test_a_spread_of_nothing_is_none() -> None:
    assert Spread.of([]) is None
