"""Each alert fires in its own scenario, in no other, and not a minute too early (promtool)."""

import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from support.charts import CHART

ALERTS = CHART / "files" / "alerts.yaml"
MINUTES = 150
QUEUE = 'namespace="a", name="q"'
OTHER = 'namespace="a", name="other"'


def condition(kind: str, status: str, queue: str = QUEUE) -> str:
    return f'awa_operator_queue_condition{{{queue}, type="{kind}", status="{status}"}}'


def replicas(kind: str) -> str:
    return f'awa_operator_queue_replicas{{{QUEUE}, kind="{kind}"}}'


def decisions(direction: str) -> str:
    labels = f'{QUEUE}, direction="{direction}", reason="Depth"'
    return f"awa_operator_scale_decisions_total{{{labels}}}"


BUILD = 'awa_operator_build_info{pod="op-1", version="1"}'
LEADER = 'awa_operator_leader{job="op", pod="op-1"}'
STANDBY = 'awa_operator_leader{job="op", pod="op-2"}'
HEARD = 'awa_operator_watch_last_event_timestamp_seconds{pod="op-1", resource="queues"}'
DEGRADED = 'awa_operator_degraded{pod="op-1", reason="CrdTooOld"}'
TRANSACTION = 'awa_database_oldest_transaction_seconds{namespace="a", holder="other", pod="w-1"}'
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
    condition("Ready", "True", OTHER): ALWAYS,
    condition("SchemaMigrated", "True", OTHER): ALWAYS,
    condition("Reconciling", "True", OTHER): ALWAYS,
    LAG: f"50x{MINUTES}",
    TARGET: f"60x{MINUTES}",
    replicas("desired"): f"10x{MINUTES}",
    replicas("max"): f"10x{MINUTES}",
    decisions("up"): f"0+0.04x{MINUTES}",
    decisions("down"): f"0+0.04x{MINUTES}",
}


def turned(kind: str, before: str, after: str) -> dict[str, str]:
    """A condition that has another status from the eleventh minute on."""
    return {condition(kind, before): "1x10 stale", condition(kind, after): "_x11 1x138"}


# What changes in the eleventh minute; the alert may fire so many minutes after it.
SCENARIOS: dict[str, tuple[dict[str, str], int]] = {
    "AwaQueueNotReady": (turned("Ready", "True", "False"), 15),
    "AwaMigrationFailed": (
        {**turned("SchemaMigrated", "True", "False"), **turned("Stalled", "False", "True")}, 1,
    ),
    "AwaMigrationRunning": (
        {**turned("SchemaMigrated", "True", "False"), **turned("Reconciling", "False", "True")}, 30,
    ),
    "AwaRolloutStalled": (turned("Stalled", "False", "True"), 1),
    "AwaDatabaseUnreachable": (turned("DatabaseReachable", "True", "Unknown"), 5),
    "AwaLagAboveTarget": ({LAG: "50x10 90x139"}, 10),
    "AwaWatchStale": ({HEARD: "0+60x10 600x139"}, 4),
    "AwaOperatorDown": ({BUILD: "1x10 stale"}, 5),
    "AwaNoLeader": ({LEADER: "1x10 0x139"}, 2),
    "AwaOperatorDegraded": ({DEGRADED: "0x10 1x139"}, 5),
    "AwaOldTransaction": ({TRANSACTION: "5x10 1000x139"}, 5),
}  # fmt: skip
BUSY = {decisions("up"): "0+0.2x149", decisions("down"): "0+0.2x149"}


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


def test_going_up_and_down_all_the_time_is_told(firing):
    firing(BUSY, {10: [], 80: ["AwaScalingFlaps"]})


def test_going_up_all_the_time_is_no_flapping(firing):
    firing({decisions("up"): "0+1x149"}, {80: [], 140: []})


def test_lag_is_not_told_while_more_workers_may_come(firing):
    firing({LAG: "90x149", replicas("desired"): "9x149"}, {60: []})


def test_a_queue_without_a_target_has_no_lag_alert(firing):
    firing({LAG: "9000x149", TARGET: "_x149"}, {60: []})


def test_a_running_migration_that_ends_in_time_is_not_told(firing):
    ends = {
        condition("SchemaMigrated", "True"): "1x10 stale _x23 1x110",
        condition("SchemaMigrated", "False"): "_x11 1x24 stale",
        condition("Reconciling", "True"): "_x11 1x24 stale",
    }
    firing(ends, {20: [], 39: [], 45: [], 60: []})
