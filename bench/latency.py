"""From commit to handler start: pairing what producers sent with what handlers saw."""

from collections.abc import Iterable, Iterator
from pathlib import Path


def percentile(ordered: list[float], share: float) -> float:
    """Return the value below which `share` of the sorted values lie."""
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))]


def latency_figures(folder: Path, warm_up: int) -> dict[str, float]:
    """Return the milliseconds from commit to handler start, and those of the insert itself.

    The first `warm_up` jobs do not count. Raises ValueError when a job that was sent has never
    started, or none was sent.
    """
    sent = {int(seq): (float(call), float(commit)) for seq, call, commit in _rows(folder, "sent")}
    started: dict[int, float] = {}
    for seq, at in _rows(folder, "starts"):
        started.setdefault(int(seq), float(at))
    if missing := sent.keys() - started.keys():
        raise ValueError(f"{len(missing)} of {len(sent)} jobs never started")
    counted = [seq for seq in sent if seq >= warm_up]
    if not counted:
        raise ValueError("no job was sent after the warm-up")
    # A handler may start before the producer has read the answer to its commit.
    return {
        **_summary("start", (max(0.0, started[seq] - sent[seq][1]) for seq in counted)),
        **_summary("insert", (sent[seq][1] - sent[seq][0] for seq in counted)),
    }


def _rows(folder: Path, kind: str) -> Iterator[list[str]]:
    for path in folder.glob(f"{kind}.*"):
        yield from (line.split() for line in path.read_text().splitlines())


def _summary(name: str, seconds: Iterable[float]) -> dict[str, float]:
    ordered = sorted(1e3 * value for value in seconds)
    return {
        f"{name}_p50_ms": percentile(ordered, 0.50),
        f"{name}_p95_ms": percentile(ordered, 0.95),
        f"{name}_p99_ms": percentile(ordered, 0.99),
    }
