"""Write docs/reference/operator.md from the operator's metrics and settings; `--check` compares."""

import ast
import inspect
import itertools
import sys
from collections.abc import Iterator
from pathlib import Path

from prometheus_client.metrics_core import Metric
from pydantic.fields import FieldInfo

from awa_operator.metrics import PREFIX as METRICS_PREFIX
from awa_operator.metrics import Metrics
from awa_operator.settings import PREFIX, OperatorSettings

PAGE = Path(__file__).resolve().parent.parent / "docs" / "reference" / "operator.md"

HEAD = """\
# The operator: metrics and settings

Made by `python tools/operator_page.py` from the code; do not edit.

## Metrics

What `/metrics` serves (port 9090 of the operator's pod), beside the usual `process_…`. Labels are
names of Queues, hashes that name databases, and words of small sets. Series of a Queue go when it
goes. Histograms have `_bucket`, `_sum` and `_count`.

| metric | type | labels | what it tells |
|---|---|---|---|
"""
SETTINGS = """
## Settings

Environment variables. The chart sets the first seven and takes others in `env`. Durations are in
seconds. An empty variable counts as not set.

| variable | default | what it is |
|---|---|---|
"""


def page() -> str:
    """Return the whole page."""
    metrics = Metrics()
    rows = sorted(_metric_row(one, metrics) for one in metrics.registry.collect() if _is_ours(one))
    return HEAD + "".join(rows) + SETTINGS + "".join(_setting_rows())


def _is_ours(metric: Metric) -> bool:
    return metric.name.startswith(METRICS_PREFIX) and not metric.name.endswith("_created")


def _metric_row(metric: Metric, metrics: Metrics) -> str:
    name = metric.name + ("_total" if metric.type == "counter" else "")
    labels = ", ".join(f"`{label}`" for label in _labels(metric, metrics))
    return f"| `{name}` | {metric.type} | {labels} | {metric.documentation} |\n"


def _labels(metric: Metric, metrics: Metrics) -> tuple[str, ...]:
    """Return the labels: a family made at the scrape tells them, others are asked for."""
    if found := getattr(metric, "_labelnames", ()):
        return tuple(found)
    suffix = metric.name.removeprefix(f"{METRICS_PREFIX}_")
    for declared in vars(metrics).values():
        if getattr(declared, "_name", "").removeprefix(f"{METRICS_PREFIX}_") == suffix:
            return tuple(declared._labelnames)
    return ()


def _setting_rows() -> Iterator[str]:
    words = _docstrings()
    for name, field in OperatorSettings.model_fields.items():
        cells = (f"`{PREFIX}{name.upper()}`", _default(name, field), words[name])
        yield f"| {' | '.join(cells)} |\n"


def _default(name: str, field: FieldInfo) -> str:
    if field.is_required():
        return "the host's name and a random part" if name == "identity" else "required"
    default = field.default
    if default in ((), None):
        return ""
    if isinstance(default, float) and default.is_integer():
        default = int(default)
    return f"`{default}`"


def _docstrings() -> dict[str, str]:
    """Return the text below each field of the settings."""
    (declared,) = ast.parse(inspect.getsource(OperatorSettings)).body
    found: dict[str, str] = {}
    body = declared.body if isinstance(declared, ast.ClassDef) else []
    for field, text in itertools.pairwise(body):
        is_text = isinstance(text, ast.Expr) and isinstance(text.value, ast.Constant)
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name) and is_text:
            found[field.target.id] = " ".join(ast.unparse(text).strip("\"'").split())
    return found


def main(arguments: list[str]) -> int:
    """Write the page, or say whether it is stale."""
    text = page()
    if "--check" in arguments:
        if PAGE.exists() and PAGE.read_text(encoding="utf-8") == text:
            return 0
        print(f"{PAGE.name} is stale: run python tools/operator_page.py", file=sys.stderr)
        return 1
    PAGE.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
