"""Series are bounded, and those of a Queue go with it."""

from datetime import timedelta

from awa.manifest import parse_queue
from awa.manifest.status import Condition, QueueStatus
from awa_operator.metrics import Metrics
from awa_operator.observed import DatabaseProblem

STATUS = QueueStatus(
    replicas=3,
    desiredReplicas=4,
    readyReplicas=2,
    conditions=(
        Condition(
            type="Ready", status="False", reason="RollingOut",
            lastTransitionTime="2026-01-01T00:00:00Z",
        ),
    ),
)  # fmt: skip


def lines(metrics: Metrics) -> list[str]:
    return metrics.exposition().decode().splitlines()


def test_a_status_is_shown_as_conditions_and_counts():
    metrics = Metrics()
    metrics.queues.of("ns", "mail").take_status(STATUS)
    shown = lines(metrics)
    ready = [line for line in shown if 'type="Ready"' in line]
    assert len(ready) == 1
    assert 'status="False"' in ready[0]
    assert 'reason="RollingOut"' in ready[0]
    desired = [line for line in shown if "queue_replicas" in line and 'kind="desired"' in line]
    assert [line.rpartition(" ")[2] for line in desired] == ["4.0"]


def test_jobs_and_decisions_are_shown():
    metrics = Metrics()
    figures = metrics.queues.of("ns", "mail")
    figures.take_jobs(ready=5, running=2, due=1, lag=timedelta(seconds=7))
    figures.decided("up", "Depth")
    figures.decided("up", "Depth")
    shown = "\n".join(lines(metrics))
    assert 'state="ready"} 5.0' in shown
    assert "awa_operator_queue_lag_seconds" in shown
    assert 'reason="Depth"} 2.0' in shown


def test_a_turn_is_a_change_the_other_way_and_holds_are_none():
    metrics = Metrics()
    figures = metrics.queues.of("ns", "mail")
    assert "scale_direction_changes_total{" not in "\n".join(lines(metrics))
    for direction in ("up", "up", "down", "up"):
        figures.decided(direction, "Depth")
    figures.decided("down", "HeldByMigration", is_hold=True)
    figures.decided("up", "Resumed", is_hold=True)
    figures.decided("up", "Depth")
    shown = [line for line in lines(metrics) if "scale_direction_changes_total{" in line]
    assert [line.rpartition(" ")[2] for line in shown] == ["2.0"]


def test_what_cannot_be_written_is_told_until_no_queue_needs_it():
    metrics = Metrics()

    def degraded() -> list[str]:
        return [line.rpartition(" ")[2] for line in lines(metrics) if "cannot write Net" in line]

    one, two = ("ns", "mail"), ("ns", "other")
    metrics.refused(one, ["NetworkPolicy"])
    metrics.refused(two, ["NetworkPolicy"])
    metrics.refused(one, ())
    assert degraded() == ["1.0"]
    metrics.refused(two, ["PodMonitor"])
    assert degraded() == ["0.0"]
    metrics.refused(one, ["NetworkPolicy"])
    metrics.forget_queues()
    assert degraded() == ["0.0"]


def test_bounds_are_those_of_scaling_in_mode_native_only():
    base = {
        "apiVersion": "awa.dev/v1alpha1", "kind": "Queue", "metadata": {"name": "mail"},
        "spec": {
            "database": {"connectionSecretRef": {"name": "db"}}, "worker": {"image": "a"},
            "migration": {"mode": "External"},
            "scaling": {"mode": "Native", "maxReplicas": 7, "targetJobsPerReplica": 5},
        },
    }  # fmt: skip
    metrics = Metrics()
    metrics.queues.of("ns", "mail").take_spec(parse_queue(base))
    assert any('kind="max"' in line and line.endswith(" 7.0") for line in lines(metrics))


def test_no_series_of_a_queue_is_left_when_it_is_gone():
    metrics = Metrics()
    for name in ("mail", "other"):
        figures = metrics.queues.of("ns", name)
        figures.take_status(STATUS)
        figures.take_jobs(ready=1, running=0, due=0, lag=timedelta(0))
        figures.decided("up", "Depth")
    metrics.queues.forget("ns", "mail")
    shown = "\n".join(lines(metrics))
    assert 'name="mail"' not in shown
    assert 'name="other"' in shown


def test_no_series_of_a_database_is_left_when_it_is_gone():
    metrics = Metrics()
    metrics.probed("aa", 0.1, None)
    metrics.probed("aa", 0.1, DatabaseProblem.TIMEOUT)
    metrics.probed("bb", 0.1, None)
    metrics.left("aa")
    shown = "\n".join(lines(metrics))
    assert 'database="aa"' not in shown
    assert 'database="bb"' in shown


def test_every_metric_has_the_prefix_but_the_process_own():
    for line in lines(Metrics()):
        if line.startswith("# TYPE"):
            assert line.split()[2].startswith(("awa_operator_", "process_"))
