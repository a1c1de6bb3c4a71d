"""Every metric of the operator, declared once. The prefix is `awa_operator_`.

Labels are few and bounded: namespace and name of a Queue, the identity of a database, words of an
enumeration. What is told of a Queue is made at the scrape out of what is known of it then, so the
series of a Queue go when it goes, whenever that was.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    ProcessCollector,
    disable_created_metrics,
    generate_latest,
)
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from awa.manifest import Queue, QueueStatus
from awa_operator import __version__
from awa_operator.observed import DatabaseProblem
from awa_operator.work_queue import Result

PREFIX = "awa_operator"
_FAST = (0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)
_SLOW = (1, 5, 15, 30, 60, 120, 300, 600, 1800, 3600)


@dataclass(slots=True)
class QueueFigures:
    """What is told of one Queue."""

    conditions: tuple[tuple[str, str, str], ...] = ()
    replicas: tuple[tuple[str, int], ...] = ()
    bounds: tuple[tuple[str, int], ...] = ()
    jobs: tuple[tuple[str, int], ...] = ()
    lag_seconds: float | None = None
    lag_target_seconds: float | None = None
    decisions: dict[tuple[str, str], int] = field(default_factory=dict)
    turns: int = 0
    last_direction: str | None = None

    def take_spec(self, queue: Queue) -> None:
        """Take the bounds and the target of scaling, which only mode Native has."""
        scaling = queue.spec.scaling
        is_native = scaling.mode == "Native"
        bounds = (("min", scaling.min_replicas), ("max", scaling.max_replicas))
        self.bounds = bounds if is_native else ()
        self.lag_target_seconds = scaling.target_lag_seconds if is_native else None

    def take_status(self, status: QueueStatus) -> None:
        """Take the conditions and counts of a status."""
        self.conditions = tuple((one.type, one.status, one.reason) for one in status.conditions)
        counts = {
            "current": status.replicas,
            "desired": status.desired_replicas,
            "ready": status.ready_replicas,
        }
        self.replicas = tuple((kind, count) for kind, count in counts.items() if count is not None)

    def take_jobs(self, *, ready: int, running: int, due: int, lag: timedelta) -> None:
        """Take the counts of jobs and how long the oldest claimable one waits."""
        self.jobs = (("ready", ready), ("running", running), ("due", due))
        self.lag_seconds = lag.total_seconds()

    def decided(self, direction: str, reason: str, *, is_hold: bool = False) -> None:
        """Count a change of the replica count, and a turn if the one before went the other way.

        A hold and the return from it say nothing about the queue and are no turns.
        """
        key = direction, reason
        self.decisions[key] = self.decisions.get(key, 0) + 1
        if is_hold:
            return
        self.turns += self.last_direction not in (None, direction)
        self.last_direction = direction


class QueueSeries(Collector):
    """The series of all Queues, made at the scrape."""

    def __init__(self) -> None:
        self.figures: dict[tuple[str, str], QueueFigures] = {}

    def of(self, namespace: str, name: str) -> QueueFigures:
        """Return the figures of a Queue, to be changed."""
        return self.figures.setdefault((namespace, name), QueueFigures())

    def forget(self, namespace: str, name: str) -> None:
        """Tell nothing more of a Queue."""
        self.figures.pop((namespace, name), None)

    def collect(self) -> Iterator[Metric]:
        """Yield the families."""
        mine = ["namespace", "name"]
        conditions = _gauges(
            "queue_condition",
            "1 for the status that a condition has, and its reason.",
            [*mine, "type", "status", "reason"],
        )
        replicas = _gauges(
            "queue_replicas", "Replicas: current, desired, ready, min, max.", [*mine, "kind"]
        )
        jobs = _gauges("queue_jobs", "Jobs: ready, running, due.", [*mine, "state"])
        lag = _gauges("queue_lag_seconds", "Age of the oldest claimable job.", mine)
        target = _gauges("queue_lag_target_seconds", "The most that a job should wait.", mine)
        decisions = CounterMetricFamily(
            f"{PREFIX}_scale_decisions",
            "Changes of the replica count by direction and reason.",
            labels=[*mine, "direction", "reason"],
        )
        turns = CounterMetricFamily(
            f"{PREFIX}_scale_direction_changes",
            "Changes of the replica count that went the other way than the one before.",
            labels=mine,
        )
        # A copy: the scrape runs in a thread.
        for key, figures in list(self.figures.items()):
            for one in figures.conditions:
                conditions.add_metric([*key, *one], 1)
            for kind, count in (*figures.replicas, *figures.bounds):
                replicas.add_metric([*key, kind], count)
            for state, count in figures.jobs:
                jobs.add_metric([*key, state], count)
            if figures.lag_seconds is not None:
                lag.add_metric(key, figures.lag_seconds)
            if figures.lag_target_seconds is not None:
                target.add_metric(key, figures.lag_target_seconds)
            for decision, count in list(figures.decisions.items()):
                decisions.add_metric([*key, *decision], count)
            if figures.decisions:
                turns.add_metric(key, figures.turns)
        yield from (conditions, replicas, jobs, lag, target, decisions, turns)


def _gauges(name: str, text: str, labels: list[str]) -> GaugeMetricFamily:
    return GaugeMetricFamily(f"{PREFIX}_{name}", text, labels=labels)


class Metrics:
    """All series of one process, in a registry of its own."""

    def __init__(self) -> None:
        # When a series began is told by no panel and would double what is kept.
        switch_off: Callable[[], None] = disable_created_metrics
        switch_off()
        self.registry = CollectorRegistry()
        self.queues = QueueSeries()
        self.registry.register(self.queues)
        ProcessCollector(registry=self.registry)
        self._declare_process()
        self._declare_databases()
        self._refused: dict[str, set[tuple[str, str]]] = {}
        self.build_info.labels(__version__).set(1)
        for resource in ("queues", "deployments", "jobs", "poddisruptionbudgets", "pods"):
            self.watch_audit_mismatch.labels(resource)

    def exposition(self) -> bytes:
        """Return all series in Prometheus' text format."""
        return generate_latest(self.registry)

    def request(self, verb: str, resource: str, code: str) -> None:
        """Count a request to the API server."""
        self.api_requests.labels(verb, resource, code).inc()

    def started(self, waited_seconds: float, depth: int) -> None:
        """Note that a key began to run after a wait in line."""
        self.workqueue_wait.observe(waited_seconds)
        self.workqueue_depth.set(depth)

    def ended(self, took_seconds: float, waited_seconds: float, result: Result) -> None:
        """Note that a key has run, with what result, and how long it had waited before that."""
        self.reconcile_total.labels(result).inc()
        self.reconcile_duration.observe(took_seconds)
        self.reconcile_latency.observe(waited_seconds + took_seconds)
        if result != "success":
            self.workqueue_retries.inc()

    def leading(self, leads: bool) -> None:
        """Note whether this replica leads."""
        self.leader.set(1 if leads else 0)

    def roundtrip(self, seconds: float) -> None:
        """Note how long a renewal of the lease took to come back through its watch."""
        self.watch_canary.observe(seconds)

    def probed(self, identity: str, took_seconds: float, problem: DatabaseProblem | None) -> None:
        """Note one look at a database."""
        self.db_probe_duration.labels(identity).observe(took_seconds)
        self.db_connections.labels(identity)
        if problem is not None:
            self.db_probe_failures.labels(identity, problem.value).inc()

    def refused(self, queue: tuple[str, str], kinds: Iterable[str]) -> None:
        """Note which kinds cannot be written for a Queue; the others can."""
        kinds = set(kinds)
        for kind in kinds | self._refused.keys():
            queues = self._refused.setdefault(kind, set())
            (queues.add if kind in kinds else queues.discard)(queue)
            self.degraded.labels(f"cannot write {kind}").set(1 if queues else 0)

    def forget_queues(self) -> None:
        """Tell nothing more of any Queue: another replica acts now."""
        self.queues.figures.clear()
        for kind, queues in self._refused.items():
            queues.clear()
            self.degraded.labels(f"cannot write {kind}").set(0)

    def connected(self, identity: str, change: int) -> None:
        """Note that a session with a database was opened or has ended."""
        self.db_connections.labels(identity).inc(change)

    def left(self, identity: str) -> None:
        """Remove every series of a database that is looked at no more."""
        for metric in self._by_database:
            metric.remove_by_labels({"database": identity})

    def heard(self, resource: str, at: datetime) -> None:
        """Note that a watch told something."""
        self.watch_last_event.labels(resource).set(at.timestamp())

    def _declare_process(self) -> None:
        self.reconcile_total = self._counter(
            "reconcile",
            "Reconciles by result: success, conflict (something changed meanwhile) or error.",
            ["result"],
        )
        self.reconcile_duration = self._histogram(
            "reconcile_duration_seconds", "How long a reconcile takes.", [], _FAST
        )
        self.reconcile_stage = self._histogram(
            "reconcile_stage_duration_seconds",
            "How long each part of a reconcile takes: observe, plan, act or report.",
            ["stage"],
            _FAST,
        )
        self.reconcile_latency = self._histogram(
            "reconcile_latency_seconds",
            "From what asks for a reconcile, such as a watch event, to its end.",
            [],
            _FAST,
        )
        self.workqueue_depth = self._gauge("workqueue_depth", "Queues in line.")
        self.workqueue_wait = self._histogram(
            "workqueue_wait_seconds", "How long a Queue waits in line.", [], _FAST
        )
        self.workqueue_retries = self._counter("workqueue_retries", "Reconciles that failed.")
        self.event_loop_lag = self._histogram(
            "event_loop_lag_seconds", "How late the event loop is.", [], _FAST
        )
        self.watch_last_event = self._gauge(
            "watch_last_event_timestamp_seconds", "When a watch last told something.", ["resource"]
        )
        self.watch_restarts = self._counter(
            "watch_restarts", "Watching that ended with an error and was begun again."
        )
        self.watch_canary = self._histogram(
            "watch_canary_roundtrip_seconds",
            "From sending a renewal of the lease until its watch told of it.",
            [],
            _FAST,
        )
        self.watch_audit_mismatch = self._counter(
            "watch_audit_mismatch", "Objects that a list showed and no watch told of.", ["resource"]
        )
        self.api_requests = self._counter(
            "api_requests",
            "Requests to the API server; the code is error where there was no answer.",
            ["verb", "resource", "code"],
        )
        self.leader = self._gauge("leader", "1 on the replica that acts.")
        self.degraded = self._gauge("degraded", "1 for what does not work.", ["reason"])
        self.rollout_duration = self._histogram(
            "rollout_duration_seconds",
            "From applying a pod template until its workers were ready.",
            [],
            _SLOW,
        )
        self.build_info = self._gauge("build_info", "1, with the version.", ["version"])

    def _declare_databases(self) -> None:
        one = ["database"]
        self.migration_attempts = self._counter(
            "migration_attempts", "Migration Jobs that were created.", one
        )
        self.migration_duration = self._histogram(
            "migration_duration_seconds", "How long a migration took.", one, _SLOW
        )
        self.migration_last_success = self._gauge(
            "migration_last_success_timestamp_seconds", "When a migration last succeeded.", one
        )
        self.schema_version = self._gauge(
            "schema_version", "Version of the schema that was last seen.", one
        )
        self.db_probe_duration = self._histogram(
            "db_probe_duration_seconds", "How long a probe of a database takes.", one, _FAST
        )
        self.db_probe_failures = self._counter(
            "db_probe_failures", "Probes that failed, by reason.", [*one, "reason"]
        )
        self.db_connections = self._gauge(
            "db_connections", "Open connections of the operator.", one
        )
        self._by_database: tuple[Gauge | Counter | Histogram, ...] = (
            self.migration_attempts,
            self.migration_duration,
            self.migration_last_success,
            self.schema_version,
            self.db_probe_duration,
            self.db_probe_failures,
            self.db_connections,
        )

    def _gauge(self, name: str, text: str, labels: Iterable[str] = ()) -> Gauge:
        return Gauge(f"{PREFIX}_{name}", text, list(labels), registry=self.registry)

    def _counter(self, name: str, text: str, labels: Iterable[str] = ()) -> Counter:
        return Counter(f"{PREFIX}_{name}", text, list(labels), registry=self.registry)

    def _histogram(
        self, name: str, text: str, labels: Iterable[str], buckets: tuple[float, ...]
    ) -> Histogram:
        return Histogram(
            f"{PREFIX}_{name}", text, list(labels), registry=self.registry, buckets=buckets
        )
