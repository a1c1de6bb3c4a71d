"""Our driver does what the benchmark asks of it, for real and with few jobs."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from bench.contender import Contender
from bench.run import Failure, Plan
from bench.scenario import SCENARIOS, Sizes

ROOT = Path(__file__).parents[2]
SMALL = ["--jobs", "300", "--pinned-jobs", "300", "--future-jobs", "2000", "--rate", "50",
         "--seconds", "2"]  # fmt: skip


def measure(*scenarios: str) -> list[dict[str, Any]]:
    done = subprocess.run(
        [sys.executable, "-m", "bench", *scenarios, "--reps", "1", "--contenders", "awa", *SMALL],
        cwd=ROOT, capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]


@pytest.mark.postgres
@pytest.mark.slow
def test_every_case_gives_figures() -> None:
    # The other scenarios are made of the same steps.
    scenarios = ("latency", "backlog", "producers")
    runs = [record for record in measure(*scenarios) if record["record"] == "run"]
    assert [(run["scenario"], run["case"]) for run in runs] == [
        (scenario, case.name) for scenario in scenarios for case in SCENARIOS[scenario]
    ]
    figures = [(name, value) for run in runs for name, value in run["figures"].items()]
    rates = [value for name, value in figures if name.endswith("_per_s")]
    assert len(rates) == 6
    assert all(rate > 0 for rate in rates)


def test_repetitions_are_interleaved() -> None:
    contenders = tuple(Contender(name, (), {}, 1) for name in "ab")
    plan = Plan(("throughput",), contenders, 2, Sizes())
    order = [(step.repetition, step.case.name[0], step.contender.name) for step in plan.steps()]
    assert order == [
        (1, "1", "a"), (1, "1", "b"), (1, "2", "a"), (1, "2", "b"),
        (2, "1", "a"), (2, "1", "b"), (2, "2", "a"), (2, "2", "b"),
    ]  # fmt: skip


def test_a_failure_names_its_run() -> None:
    step = next(Plan(("latency",), (Contender("a", (), {}, 1),), 1, Sizes()).steps())
    assert Failure(step, "why").as_json()["run"] == "latency #1 open loop a"
