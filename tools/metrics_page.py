"""Write docs/reference/metrics.md from the metrics themselves; `--check` compares only."""

import sys
from collections.abc import Iterable
from pathlib import Path

from awa.metrics import GAUGES, FleetMetrics, Metric, SupervisorMetrics, WorkerMetrics

PAGE = Path(__file__).resolve().parent.parent / "docs" / "reference" / "metrics.md"

HEAD = """\
# Metrics

Made by `python tools/metrics_page.py` from the code; do not edit.

What `/metrics` of a worker serves, in the text format of Prometheus. Several processes under one
supervisor are summed: there is no series per process, pod or job. Kinds and queues beyond the first
400 count as `other`. Histograms have `_bucket`, `_sum` and `_count`.

| metric | type | labels | what it tells |
|---|---|---|---|
"""


def page() -> str:
    """Return the whole page."""
    rows = [*_rows(WorkerMetrics().collect()), *_rows(SupervisorMetrics(1).collect())]
    rows += _rows(FleetMetrics().collect())
    rows += [_row(name, "gauge", labels, text) for name, (text, labels) in GAUGES.items()]
    return HEAD + "".join(sorted(set(rows)))


def _rows(metrics: Iterable[Metric]) -> list[str]:
    rows = []
    for metric in metrics:
        if metric.type != "gauge":
            name = metric.name + ("_total" if metric.type == "counter" else "")
            labels = tuple(getattr(metric, "_labelnames", ()))
            rows.append(_row(name, metric.type, labels, metric.documentation))
    return rows


def _row(name: str, kind: str, labels: tuple[str, ...], text: str) -> str:
    return f"| `{name}` | {kind} | {', '.join(f'`{label}`' for label in labels)} | {text} |\n"


def main(arguments: list[str]) -> int:
    """Write the page, or say whether it is stale."""
    text = page()
    if "--check" in arguments:
        if PAGE.exists() and PAGE.read_text(encoding="utf-8") == text:
            return 0
        print(f"{PAGE.name} is stale: run python tools/metrics_page.py", file=sys.stderr)
        return 1
    PAGE.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
