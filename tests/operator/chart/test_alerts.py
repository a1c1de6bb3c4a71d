"""Each alert fires in its own scenario, in no other, and not a minute too early (promtool)."""

import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from awa_operator.metrics import Metrics, QueueFigures
from support.charts import CHART
from support.planning.fixtures import ready_world, world
from support.planning.world import World

__all__ = ["ready_world", "world"]

ALERTS = CHART / "files" / "alerts.yaml"
MINUTES = 150
QUEUE = 'namespace="a", name="q"'
OTHER = 'namespace="a", name="other"'


REASONS = {
    ("Ready", "True"): "WorkersAvailable",
    ("SchemaMigrated", "True"): "Migrated",
    ("Stalled", "False"): "NoProblem",
    ("Reconciling", "False"): "Settled",
    ("Reconciling", "True"): "RollingOut",
    ("DatabaseReachable", "True"): "Connected",
    ("ScalingActive", "False"): "Fixed",
    ("WorkersAvailable", "True"): "MinimumAvailable",
}
"""What conditions say while all is well."""


def condition(kind: str, status: str, reason: str = "", queue: str = QUEUE) -> str:
    reason = reason or REASONS[kind, status]
    labels = f'{queue}, type="{kind}", status="{status}", reason="{reason}"'
    return f"awa_operator_queue_condition{{{labels}}}"


def replicas(kind: str) -> str:
    return f'awa_operator_queue_replicas{{{QUEUE}, kind="{kind}"}}'


BUILD = 'awa_operator_build_info{pod="op-1", version="1"}'
LEADER = 'awa_operator_leader{job="op", pod="op-1"}'
STANDBY = 'awa_operator_leader{job="op", pod="op-2"}'
HEARD = 'awa_operator_watch_last_event_timestamp_seconds{pod="op-1", resource="queues"}'
DEGRADED = 'awa_operator_degraded{pod="op-1", reason="CrdTooOld"}'
TRANSACTION = 'awa_database_oldest_transaction_seconds{namespace="a", holder="other", pod="w-1"}'
TURNS = f"awa_operator_scale_direction_changes_total{{{QUEUE}}}"
LAG = f"awa_operator_queue_lag_seconds{{{QUEUE}}}"
TARGET = f"awa_operator_queue_lag_target_seconds{{{QUEUE}}}"

ALWAYS, NEVER, ABSENT = f"1x{MINUTES}", f"0x{MINUTES}", f"_x{MINUTES}"
# Everything is well: a queue at its most workers and within its target, another one that is busy.
HEALTHY = {
    BUILD: ALWAYS,
    LEADER: ALWAYS,
    STANDBY: NEVER,
    HEARD: f"0+60x{MINUTES}",
    DEGRADED: NEVER,
    TRANSACTION: f"5x{MINUTES}",
    condition("Ready", "True"): ALWAYS,
    condition("SchemaMigrated", "True"): ALWAYS,
    condition("Stalled", "False"): ALWAYS,
    condition("Reconciling", "False"): ALWAYS,
    condition("DatabaseReachable", "True"): ALWAYS,
    condition("WorkersAvailable", "True"): ALWAYS,
    condition("ScalingActive", "False"): ALWAYS,
    condition("Ready", "True", queue=OTHER): ALWAYS,
    condition("SchemaMigrated", "True", queue=OTHER): ALWAYS,
    condition("Reconciling", "True", queue=OTHER): ALWAYS,
    LAG: f"50x{MINUTES}",
    TARGET: f"60x{MINUTES}",
    replicas("desired"): f"10x{MINUTES}",
    replicas("max"): f"10x{MINUTES}",
    TURNS: f"0+0.08x{MINUTES}",
}


def turned(kind: str, before: str, after: str, reason: str) -> dict[str, str]:
    """A condition that has another status from the eleventh minute on."""
    return {condition(kind, before): "1x10 stale", condition(kind, after, reason): "_x11 1x138"}


# What changes in the eleventh minute; the alert may fire so many minutes after it.
SCENARIOS: dict[str, tuple[dict[str, str], int]] = {
    "AwaQueueNotReady": (turned("Ready", "True", "False", "NotReady"), 15),
    "AwaMigrationFailed": (turned("Stalled", "False", "True", "AttemptsExhausted"), 1),
    "AwaMigrationRunning": (turned("SchemaMigrated", "True", "False", "Running"), 30),
    "AwaRolloutStalled": (turned("Stalled", "False", "True", "RolledBack"), 1),
    "AwaDatabaseUnreachable": (turned("DatabaseReachable", "True", "Unknown", "NotProbed"), 5),
    "AwaLagAboveTarget": ({LAG: "50x10 90x139"}, 10),
    "AwaWatchStale": ({HEARD: "0+60x10 600x139"}, 4),
    "AwaOperatorDown": ({BUILD: "1x10 stale"}, 5),
    "AwaNoLeader": ({LEADER: "1x10 0x139"}, 2),
    "AwaOperatorDegraded": ({DEGRADED: "0x10 1x139"}, 5),
    "AwaOldTransaction": ({TRANSACTION: "5x10 1000x139"}, 5),
}  # fmt: skip


def exported(world: World) -> dict[str, str]:
    """What the operator tells of the conditions of a Queue in some state, all other things equal.

    The series are those of its own page, from the eleventh minute on.
    """
    metrics = Metrics()
    metrics.queues.of("a", "q").take_status(world.status())
    said = [
        line.rpartition(" ")[0].replace(",", ", ")
        for line in metrics.exposition().decode().splitlines()
        if line.startswith("awa_operator_queue_condition{") and 'type="Ready"' not in line
    ]
    well = [name for name in HEALTHY if f"queue_condition{{{QUEUE}" in name and "Ready" not in name]
    before = {name: ALWAYS if name in said else "1x10 stale" for name in well}
    return before | {name: "_x11 1x138" for name in said if name not in before}


def migrating(world: World) -> None:
    world.edit(worker={"image": "app:2"})
    world.settle()


def failed(world: World) -> None:
    migrating(world)
    world.end_job(65, "no")
    world.settle()


def stuck(world: World) -> None:
    world.broken_images.add("app:2")
    migrating(world)
    world.end_job(version=53)
    world.settle()
    world.exceed_deadline()
    world.settle()


def refused(world: World) -> None:
    world.invalid_images["app:2"] = True
    migrating(world)


def taken(world: World) -> None:
    world.deployments["email"].is_ours = False
    migrating(world)


def without_secret(world: World) -> None:
    world.secrets.clear()
    migrating(world)


def without_database(world: World) -> None:
    world.lose_database()
    migrating(world)


def retrying(world: World) -> None:
    migrating(world)
    world.end_job(75, "LockTimeout: somebody holds it")
    world.settle()


STATES: dict[str, tuple[Callable[[World], None], list[str]]] = {
    "a migration runs": (migrating, ["AwaMigrationRunning"]),
    "a migration is tried again": (retrying, ["AwaMigrationRunning"]),
    "a migration has failed": (failed, ["AwaMigrationFailed"]),
    "a rollout has stalled": (stuck, ["AwaRolloutStalled"]),
    "the template is refused": (refused, []),
    "the name is taken": (taken, []),
    "the Secret is missing": (without_secret, ["AwaDatabaseUnreachable"]),
    "the database is away": (without_database, ["AwaDatabaseUnreachable"]),
}


@pytest.fixture(scope="session")
def promtool() -> str:
    found = shutil.which("promtool")
    assert found, "promtool is missing; the Debian package is prometheus"
    return found


@pytest.fixture
def firing(promtool: str, tmp_path: Path):
    """Check which alerts fire for changed series, at minutes given as `{minute: names}`."""

    def check(changed: dict[str, str], expected: dict[int, list[str]]) -> None:
        shutil.copy(ALERTS, tmp_path / "alerts.yaml")
        series = [
            {"series": name, "values": values} for name, values in {**HEALTHY, **changed}.items()
        ]
        (tmp_path / "test.yaml").write_text(yaml.safe_dump(scenario_of(series, expected)))
        done = subprocess.run(
            [promtool, "test", "rules", "test.yaml"],
            cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout + done.stderr

    return check


def scenario_of(series: list[dict[str, str]], expected: dict[int, list[str]]) -> dict[str, Any]:
    looks = [
        {
            "expr": 'count by (alertname) (ALERTS{alertstate="firing"})',
            "eval_time": f"{minute}m",
            "exp_samples": [
                {"labels": f'{{alertname="{name}"}}', "value": 1} for name in sorted(names)
            ],
        }
        for minute, names in expected.items()
    ]
    return {
        "rule_files": ["alerts.yaml"],
        "evaluation_interval": "1m",
        "tests": [{"interval": "1m", "input_series": series, "promql_expr_test": looks}],
    }


def test_the_rules_are_valid(promtool):
    done = subprocess.run(
        [promtool, "check", "rules", str(ALERTS)],
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert re.search(rf"SUCCESS: {len(SCENARIOS) + 1} rules found", done.stdout)


def test_nothing_fires_while_everything_is_well(firing):
    firing({}, {minute: [] for minute in (1, 30, 60, 120, 149)})


@pytest.mark.parametrize("alert", SCENARIOS)
def test_an_alert_fires_in_its_scenario_and_not_a_minute_before(firing, alert):
    changed, after = SCENARIOS[alert]
    # A queue that is not ready for long is told of beside the cause; the scenarios leave Ready.
    firing(changed, {10 + after: [], 12 + after: [alert]})


@pytest.mark.parametrize("state", STATES)
def test_a_state_of_a_queue_is_told_by_the_alert_that_means_it(firing, ready_world, state):
    """The series are what the operator exports in that state; Ready has an alert of its own."""
    happen, alerts = STATES[state]
    happen(ready_world)
    firing(exported(ready_world), {60: sorted(alerts)})


def test_a_migration_and_its_pauses_between_attempts_are_one_time(firing, ready_world):
    migrating(ready_world)
    running = exported(ready_world)
    ready_world.end_job(75, "LockTimeout: somebody holds it")
    ready_world.settle()
    pausing = exported(ready_world)
    alternating = {name: "_x11 " + "1 stale " * 69 for name in running if running[name] != ALWAYS}
    alternating |= {name: "_x11 " + "stale 1 " * 69 for name in pausing if pausing[name] != ALWAYS}
    shared = {name: "_x11 1x138" for name in alternating if name in running and name in pausing}
    well = {name: "1x10 stale" for name in alternating if name in HEALTHY}
    firing(alternating | shared | well, {30: [], 60: ["AwaMigrationRunning"]})


def test_two_ordinary_bursts_are_no_flapping_and_more_than_six_turns_are(firing):
    figures = QueueFigures()
    turns = [0] * 11
    for direction in [*["up"] * 4, *["down"] * 4, *["up"] * 4, *["down"] * 4]:
        figures.decided(direction, "Depth")
        turns.append(figures.turns)
    burst = " ".join(map(str, turns)) + f" {figures.turns}x120"
    firing({TURNS: burst}, {minute: [] for minute in range(10, 149, 10)})
    assert figures.turns == 3
    firing({TURNS: "0x10 " + " ".join(map(str, range(1, 120)))}, {13: [], 40: ["AwaScalingFlaps"]})


def test_lag_is_not_told_while_more_workers_may_come(firing):
    firing({LAG: "90x149", replicas("desired"): "9x149"}, {60: []})


def test_a_queue_without_a_target_has_no_lag_alert(firing):
    firing({LAG: "9000x149", TARGET: "_x149"}, {60: []})


def test_a_running_migration_that_ends_in_time_is_not_told(firing):
    ends = {
        condition("SchemaMigrated", "True"): "1x10 stale _x23 1x110",
        condition("SchemaMigrated", "False", "Running"): "_x11 1x24 stale",
        condition("Reconciling", "True", "MigrationRunning"): "_x11 1x24 stale",
    }
    firing(ends, {20: [], 39: [], 45: [], 60: []})
