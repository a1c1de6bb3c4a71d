"""The gates: what the queue has to reach, and whether it did."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass

from bench.record import Sample, Spread

OURS, BASELINE = "awa", "graphile"

# Repetitions with more foreign work than this do not count, as long as enough others are left.
NOISY_CORES = 0.4
ENOUGH = 3

Key = tuple[str, str, str, int]
Samples = Mapping[Key, Sample]


@dataclass(frozen=True, slots=True)
class Gate:
    """One demand: `value` per repetition must be at least, or at most, `limit`.

    The verdict goes by the median over the repetitions.
    """

    name: str
    limit: float
    at_least: bool
    value: Callable[[Samples, int], tuple[float, float] | None]
    unit: str = "x"

    def demand(self) -> str:
        return f"{'≥' if self.at_least else '≤'} {self.limit:g} {self.unit}".strip()


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a gate measured."""

    gate: Gate
    measured: Spread
    noisy: int

    @property
    def is_met(self) -> bool:
        if self.gate.at_least:
            return self.measured.median >= self.gate.limit
        return self.measured.median <= self.gate.limit

    def as_json(self) -> dict[str, object]:
        return {
            "record": "gate",
            "gate": self.gate.name,
            "demand": self.gate.demand(),
            "median": round(self.measured.median, 4),
            "low": round(self.measured.low, 4),
            "high": round(self.measured.high, 4),
            "repetitions": self.measured.count,
            "noisy_repetitions_left_out": self.noisy,
            "met": self.is_met,
        }


def _quotient(
    figure: str, scenario: str, over: tuple[str, str], under: tuple[str, str]
) -> Callable[[Samples, int], tuple[float, float] | None]:
    """Divide a figure of one (case, contender) by that of another in the same repetition.

    The second number is the greater foreign work of the two runs.
    """

    def value(samples: Samples, repetition: int) -> tuple[float, float] | None:
        top = samples.get((scenario, *over, repetition))
        bottom = samples.get((scenario, *under, repetition))
        if top is None or bottom is None or not bottom.figures[figure]:
            return None
        noise = max(top.foreign_cores, bottom.foreign_cores)
        return top.figures[figure] / bottom.figures[figure], noise

    return value


def _against(
    name: str, scenario: str, case: str, figure: str, *, at_least: float = 0, at_most: float = 0
) -> Gate:
    value = _quotient(figure, scenario, (case, OURS), (case, BASELINE))
    return Gate(name, at_least or at_most, bool(at_least), value)


def _cost(name: str, scenario: str, plain: str, burdened: str, contender: str = OURS) -> Gate:
    quotient = _quotient("drain_per_s", scenario, (burdened, contender), (plain, contender))

    def value(samples: Samples, repetition: int) -> tuple[float, float] | None:
        found = quotient(samples, repetition)
        return (100 * (1 - found[0]), found[1]) if found else None

    return Gate(name, 5.0, at_least=False, value=value, unit="%")


def _killed(scenario: str, case: str) -> Gate:
    def value(samples: Samples, repetition: int) -> tuple[float, float] | None:
        sample = samples.get((scenario, case, OURS, repetition))
        # Two decimals: heartbeats update a row each interval, whatever the number of jobs.
        return (round(sample.figures["killed_per_job"], 2), 0.0) if sample else None

    return Gate("killed tuples a job", 0.0, at_least=False, value=value, unit="")


GATES: tuple[Gate, ...] = (
    _against("enqueue rate", "throughput", "1 worker", "enqueue_per_s", at_least=2.5),
    _against("drain rate, 1 worker", "throughput", "1 worker", "drain_per_s", at_least=2.0),
    _against("drain rate, 2 workers", "throughput", "2 workers", "drain_per_s", at_least=1.5),
    _against("commit to start p50", "latency", "open loop", "start_p50_ms", at_most=1.0),
    _against("commit to start p99", "latency", "open loop", "start_p99_ms", at_most=1.0),
    _against("WAL a job", "throughput", "1 worker", "wal_bytes", at_most=0.35),
    _against("worker CPU a job", "throughput", "1 worker", "worker_us", at_most=0.5),
    _against("server CPU a job", "throughput", "1 worker", "server_us", at_most=0.7),
    _killed("throughput", "1 worker"),
    _cost("cost of future rows", "backlog", "empty", "future rows"),
    _cost("cost of a held snapshot", "pinned", "free", "snapshot held"),
    Gate(
        "16 producers over 1",
        8.0,
        at_least=True,
        value=_quotient("commits_per_s", "producers", ("16 producers", OURS), ("1 producer", OURS)),
    ),
)

# The same demands met or not by the baseline: for comparison only.
BASELINE_COSTS: tuple[Gate, ...] = (
    _cost("cost of future rows", "backlog", "empty", "future rows", BASELINE),
    _cost("cost of a held snapshot", "pinned", "free", "snapshot held", BASELINE),
)


def judge(samples: Iterable[Sample], gates: Iterable[Gate] = GATES) -> Iterator[Verdict]:
    """Yield a verdict for every gate that the samples have something to say about."""
    known = {(s.scenario, s.case, s.contender, s.repetition): s for s in samples}
    repetitions = sorted({key[3] for key in known})
    for gate in gates:
        found = [value for rep in repetitions if (value := gate.value(known, rep))]
        quiet = [value for value in found if value[1] <= NOISY_CORES]
        used = quiet if len(quiet) >= ENOUGH else found
        measured = Spread.of(value for value, _ in used)
        if measured is not None:
            yield Verdict(gate, measured, len(found) - len(used))
