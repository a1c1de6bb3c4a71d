"""Every Prometheus metric of a worker process, declared once.

Base units, totals end in `_total`, labels only from closed sets: queue, kind, outcome, reason,
duty. Kinds and queues are capped: what comes after the first hundreds counts as `other`. The event
loop counts without locks; a scrape reads.
"""

import bisect
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Self

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.registry import Collector

MAX_LABEL_VALUES = 400
MAX_UNKNOWN_PAIRS = 100
"""How many pairs of unknown kind and queue a process names; the others count as `other`."""
_DURATION_BUCKETS = (
    0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 1800,
)  # fmt: skip
_SIZE_BUCKETS = (64.0, 128.0, 256.0, 512.0, 1024.0, 2048.0, 3072.0, 4096.0)
OTHER = "other"
RESCUE_REASONS = ("dead_worker", "deadline")
"""Why an attempt is taken from its worker."""
PRUNE_REASONS = ("retention", "size")
"""Why a completed job goes. Counted from 0, so that a first increase is seen as one."""


class _Histogram:
    __slots__ = ("bounds", "counts", "total")

    def __init__(self, bounds: tuple[float, ...]) -> None:
        self.bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.total = 0.0

    def observe(self, value: float) -> None:
        # Most values lie in the first bucket; the search is for the others.
        self.counts[0 if value <= self.bounds[0] else bisect.bisect_left(self.bounds, value)] += 1
        self.total += value

    def buckets(self) -> list[tuple[str, float]]:
        running, found = 0, []
        for bound, count in zip((*self.bounds, float("inf")), self.counts, strict=True):
            running += count
            found.append(("+Inf" if bound == float("inf") else str(float(bound)), float(running)))
        return found


class WorkerMetrics(Collector):
    """What one worker process counts. Names: docs/reference/metrics.md."""

    def __init__(self) -> None:
        self._durations: dict[tuple[str, str], _Histogram] = {}
        self._waits: dict[str, _Histogram] = {}
        self._sizes: dict[tuple[str, str], _Histogram] = {}
        self.outcomes: dict[tuple[str, str, str], int] = defaultdict(int)
        self.stale: dict[str, int] = defaultdict(int)
        self.claimed: dict[str, int] = defaultdict(int)
        self.claims: dict[str, int] = defaultdict(int)
        self.outputs: dict[tuple[str, str, str], int] = defaultdict(int)
        self.dropped: dict[tuple[str, str, str], int] = defaultdict(int)
        self.rescued = dict.fromkeys(RESCUE_REASONS, 0)
        self.promoted = 0
        self.pruned = dict.fromkeys(PRUNE_REASONS, 0)
        self.duties: dict[tuple[str, str], int] = defaultdict(int)
        self._kinds: set[str] = set()
        self._unknown: set[tuple[str, str]] = set()
        self.gauges: Callable[[], Iterable[Metric]] = tuple

    def registry(self) -> CollectorRegistry:
        """Return a registry with these metrics alone."""
        registry = CollectorRegistry(auto_describe=False)
        registry.register(self)
        return registry

    def ended(self, kind: str, queue: str, seconds: float) -> None:
        """Count the run time of an attempt."""
        histogram = self._durations.get((kind, queue))
        if histogram is None:
            key = (self.label(kind), self.label(queue))
            histogram = self._durations.setdefault(key, _Histogram(_DURATION_BUCKETS))
            self._durations[(kind, queue)] = histogram
        histogram.observe(seconds)

    def ended_many(self, kind: str, queue: str, seconds: list[float]) -> None:
        """Count the run times of attempts of one kind."""
        self.ended(kind, queue, seconds[0])
        observe = self._durations[(kind, queue)].observe
        for one in seconds[1:]:
            observe(one)

    def waited(self, queue: str, seconds: float) -> None:
        """Count how long a claimed job had been due."""
        histogram = self._waits.get(queue)
        if histogram is None:
            histogram = self._waits[queue] = _Histogram(_DURATION_BUCKETS)
        histogram.observe(max(seconds, 0.0))

    def recorded_output(self, kind: str, queue: str, outcome: str, size_bytes: int) -> None:
        """Count an output that was published, `outcome` completed or failed."""
        self.outputs[(self.label(kind), queue, outcome)] += 1
        self._sizes.setdefault((self.label(kind), queue), _Histogram(_SIZE_BUCKETS)).observe(
            size_bytes
        )

    def dropped_output(self, kind: str, queue: str, reason: str) -> None:
        """Count an output that was not published."""
        self.dropped[(self.label(kind), queue, reason)] += 1

    def label(self, value: str) -> str:
        """Return a value as a label: itself, or `other` once there are too many."""
        if value not in self._kinds:
            if len(self._kinds) >= MAX_LABEL_VALUES:
                return OTHER
            self._kinds.add(value)
        return value

    def unknown_labels(self, kind: str, queue: str) -> tuple[str, str]:
        """Return the labels of a kind that nobody knows here; capped apart from those of work.

        So names that a broken producer makes up never push out those of real kinds.
        """
        pair = (kind, queue)
        if pair not in self._unknown:
            if len(self._unknown) >= MAX_UNKNOWN_PAIRS:
                return (OTHER, OTHER)
            self._unknown.add(pair)
        return pair

    def collect(self) -> Iterable[Metric]:
        """Return every metric; called by a scrape."""
        yield from self._counters()
        yield from self._histograms()
        yield from self.gauges()

    def describe(self) -> Iterable[Metric]:
        """Return names and help, without values."""
        return self.collect()

    def _counters(self) -> Iterable[Metric]:
        yield _counter(
            "awa_job_finished",
            "Attempts whose end was accepted, by outcome.",
            ("awa_job_kind", "awa_job_queue", "awa_job_outcome"),
            self.outcomes,
        )
        yield _counter(
            "awa_job_stale", "Attempts whose end was refused: the claim was lost.",
            ("awa_job_queue",), _single(self.stale),
        )  # fmt: skip
        yield _counter(
            "awa_job_claimed", "Jobs claimed.", ("awa_job_queue",), _single(self.claimed)
        )
        yield _counter(
            "awa_claim_calls", "Claim calls, by what they brought.", ("outcome",),
            _single(self.claims),
        )  # fmt: skip
        yield _counter(
            "awa_job_output_recorded", "Outputs published with the transition of their attempt.",
            ("awa_job_kind", "awa_job_queue", "awa_job_outcome"), self.outputs,
        )  # fmt: skip
        yield _counter(
            "awa_job_output_dropped", "Outputs that were recorded and not published.",
            ("awa_job_kind", "awa_job_queue", "awa_output_reason"), self.dropped,
        )  # fmt: skip
        yield _counter(
            "awa_job_rescued", "Attempts taken from workers, by reason.", ("reason",),
            _single(self.rescued),
        )  # fmt: skip
        yield _counter("awa_job_promoted", "Due jobs made ready.", (), {(): self.promoted})
        yield _counter(
            "awa_job_pruned",
            "Completed jobs that went: at the end of their retention, or earlier for their size.",
            ("reason",), _single(self.pruned),
        )  # fmt: skip
        yield _counter(
            "awa_duty_runs", "Maintenance duties run here, by how they ended.",
            ("duty", "outcome"), self.duties,
        )  # fmt: skip

    def _histograms(self) -> Iterable[Metric]:
        run = HistogramMetricFamily(
            "awa_job_duration_seconds",
            "Run time of attempts.",
            labels=("awa_job_kind", "awa_job_queue"),
        )
        for histogram in {id(one): one for one in self._durations.values()}.values():
            key = next(key for key, one in self._durations.items() if one is histogram)
            run.add_metric(
                (self.label(key[0]), self.label(key[1])), histogram.buckets(), histogram.total
            )
        yield run
        wait = HistogramMetricFamily(
            "awa_job_wait_duration_seconds",
            "Time from due to claimed.",
            labels=("awa_job_queue",),
        )
        for queue, histogram in self._waits.items():
            wait.add_metric((queue,), histogram.buckets(), histogram.total)
        yield wait
        sizes = HistogramMetricFamily(
            "awa_job_output_size_bytes",
            "Size of published outputs in bytes of JSON text.",
            labels=("awa_job_kind", "awa_job_queue"),
        )
        for size_key, histogram in self._sizes.items():
            sizes.add_metric(size_key, histogram.buckets(), histogram.total)
        yield sizes


class SupervisorMetrics(Collector):
    """What a supervisor counts of its processes."""

    def __init__(self, wanted: int) -> None:
        self.wanted = wanted
        self.running = 0
        self.unsettled = 0
        self.ends: dict[str, int] = dict.fromkeys(PROCESS_ENDS, 0)

    def collect(self) -> Iterable[Metric]:
        """Return every metric; called by a scrape."""
        yield gauge("awa_worker_processes", {(): float(self.running)})
        yield gauge("awa_worker_processes_wanted", {(): float(self.wanted)})
        yield gauge("awa_worker_unsettled", {(): float(self.unsettled)})
        yield _counter(
            "awa_worker_process_ends", "Worker processes that ended, by how.", ("reason",),
            _single(self.ends),
        )  # fmt: skip


class FleetMetrics(Collector):
    """What `awa up` knows of the workers of its queues, by queue."""

    def __init__(self) -> None:
        self.wanted: dict[tuple[str, ...], float] = {}
        self.ready: dict[tuple[str, ...], float] = {}
        self.restarts: dict[tuple[str, ...], int] = {}

    def collect(self) -> Iterable[Metric]:
        """Return every metric; called by a scrape."""
        yield gauge("awa_queue_workers_wanted", self.wanted)
        yield gauge("awa_queue_workers_ready", self.ready)
        yield _counter("awa_queue_worker_restarts",
                       "Workers under `awa up` that ended by themselves.",
                       ("awa_job_queue",), self.restarts)  # fmt: skip


PROCESS_ENDS = ("clean", "crashed", "killed")
"""How a worker process ends: by itself and with nothing left, by a fault, by its supervisor."""

GAUGE_RULES: dict[str, Callable[[Sequence[float]], float]] = {
    "awa_service_up": min,
    "awa_maintenance_leader": max,
    "awa_history_seconds": max,
    "awa_database_oldest_transaction_seconds": max,
}
"""How a gauge of several processes becomes one value where it is not their sum."""


@dataclass(frozen=True, slots=True)
class Family:
    """The values of one metric, free of the library: what travels between processes."""

    name: str
    kind: str
    text: str
    samples: dict[tuple[str, tuple[tuple[str, str], ...]], float]

    def to_json(self) -> list[Any]:
        """Return the form that travels."""
        samples = [[name, labels, value] for (name, labels), value in self.samples.items()]
        return [self.name, self.kind, self.text, samples]

    @classmethod
    def from_json(cls, fields: list[Any]) -> Self:
        """Read what `to_json` wrote."""
        name, kind, text, samples = fields
        return cls(
            name, kind, text,
            {(n, tuple((k, v) for k, v in labels)): value for n, labels, value in samples},
        )  # fmt: skip


def families(collector: Collector) -> list[Family]:
    """Return what a collector has now."""
    return [
        Family(
            metric.name, metric.type, metric.documentation,
            {(s.name, tuple(s.labels.items())): s.value for s in metric.samples},
        )
        for metric in collector.collect()
    ]  # fmt: skip


def families_of_text(text: str) -> list[Family]:
    """Return what an exposition says. Raises ValueError for another text."""
    return [
        Family(
            metric.name, metric.type, metric.documentation,
            {(s.name, tuple(s.labels.items())): s.value for s in metric.samples},
        )
        for metric in text_string_to_metric_families(text)
    ]  # fmt: skip


def exposition(all_families: Iterable[Family]) -> bytes:
    """Return families in the text format of Prometheus."""

    class Exposed(Collector):
        def collect(self) -> Iterable[Metric]:
            for family in all_families:
                metric = Metric(family.name, family.text, family.kind)
                for (name, labels), value in family.samples.items():
                    metric.add_sample(name, dict(labels), value)
                yield metric

    registry = CollectorRegistry(auto_describe=False)
    registry.register(Exposed())
    return generate_latest(registry)


__all__ = [
    "GAUGES",
    "GAUGE_RULES",
    "MAX_LABEL_VALUES",
    "MAX_UNKNOWN_PAIRS",
    "OTHER",
    "Family",
    "FleetMetrics",
    "Metric",
    "SupervisorMetrics",
    "WorkerMetrics",
    "exposition",
    "families",
    "families_of_text",
    "gauge",
]


GAUGES: dict[str, tuple[str, tuple[str, ...]]] = {
    "awa_job_in_flight": ("Jobs that run now.", ("awa_job_queue",)),
    "awa_job_stuck": (
        "Attempts that were asked to stop, as by their deadline, and still run.",
        ("awa_job_kind",),
    ),
    "awa_worker_places": ("Jobs that can run at once.", ()),
    "awa_finisher_waiting": ("Ended attempts that are not written yet.", ()),
    "awa_service_up": ("Whether a background part runs without failing.", ("service",)),
    "awa_maintenance_leader": ("Whether this process leads maintenance.", ()),
    "awa_job_unknown_kind": (
        "Jobs that wait for a worker that knows their kind; told by the maintenance leader.",
        ("awa_job_kind", "awa_job_queue"),
    ),
    "awa_history_seconds": (
        "For how long back every completed job is still there, once some are not; told by the "
        "maintenance leader.",
        (),
    ),
    "awa_database_oldest_transaction_seconds": (
        "Age of the oldest transaction that keeps vacuum from removing rows: of `awa`, of `other` "
        "sessions, or `prepared`; told by the maintenance leader.",
        ("holder",),
    ),
    "awa_worker_processes": ("Worker processes that run.", ()),
    "awa_worker_processes_wanted": ("Worker processes that should run.", ()),
    "awa_queue_workers_wanted": ("Workers that `awa up` wants for the queue.", ("awa_job_queue",)),
    "awa_queue_workers_ready": (
        "Workers of the queue under `awa up` that work.",
        ("awa_job_queue",),
    ),
    "awa_worker_unsettled": ("Dead processes whose jobs are not handed on yet.", ()),
}
"""Every gauge: its help and its labels."""


def gauge(name: str, values: dict[tuple[str, ...], float]) -> Metric:
    """Return a gauge with its values."""
    text, labels = GAUGES[name]
    family = GaugeMetricFamily(name, text, labels=labels)
    for key, value in values.items():
        family.add_metric(key, value)
    return family


def _counter[K: tuple[str, ...]](
    name: str, text: str, labels: tuple[str, ...], values: dict[K, int]
) -> Metric:
    family = CounterMetricFamily(name, text, labels=labels)
    for key, value in values.items():
        family.add_metric(key, value)
    return family


def _single(values: dict[str, int]) -> dict[tuple[str, ...], int]:
    return {(key,): value for key, value in values.items()}
