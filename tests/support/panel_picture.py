"""A dashboard drawn as one picture (SVG), from what a Prometheus answers to its panels."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape

UNIT_WIDTH, UNIT_HEIGHT, GAP = 44, 26, 8
COLORS = ("#3274d9", "#e0762f", "#37872d", "#b6413e", "#8f3bb8", "#b8860b", "#1f9e9e", "#6e6e6e")
FONT = "font-family='Helvetica,Arial,sans-serif'"
SUFFIXES = ((1e9, "G"), (1e6, "M"), (1e3, "k"), (1, ""), (1e-3, "m"), (1e-6, "µ"))
LONGEST_LEGEND = 22


@dataclass(frozen=True, slots=True)
class Line:
    """One series: its legend, its points as seconds and values."""

    legend: str
    points: Sequence[tuple[float, float]]


@dataclass(frozen=True, slots=True)
class Drawn:
    """One panel: where it is on the dashboard (in Grafana's units), and what it shows."""

    title: str
    kind: str
    unit: str
    place: tuple[int, int, int, int]
    lines: Sequence[Line]


def picture(panels: Sequence[Drawn], start: float, end: float) -> str:
    """Return the picture of a dashboard between two moments."""
    width = max(x + w for x, _, w, _ in (panel.place for panel in panels)) * UNIT_WIDTH
    height = max(y + h for _, y, _, h in (panel.place for panel in panels)) * UNIT_HEIGHT
    told = [
        t for panel in panels for line in panel.lines for t, v in line.points if math.isfinite(v)
    ]
    start = max(start, min(told, default=start))
    parts = [
        f"<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 {width} {height}' {FONT}>",
        f"<rect width='{width}' height='{height}' fill='#f4f5f5'/>",
    ]
    for panel in panels:
        parts += _panel(panel, start, end)
    return "\n".join([*parts, "</svg>", ""])


def _panel(panel: Drawn, start: float, end: float) -> Iterator[str]:
    x, y, w, h = panel.place
    left, top = x * UNIT_WIDTH + GAP / 2, y * UNIT_HEIGHT + GAP / 2
    width, height = w * UNIT_WIDTH - GAP, h * UNIT_HEIGHT - GAP
    yield f"<g transform='translate({left},{top})'>"
    yield f"<rect width='{width}' height='{height}' fill='white' stroke='#d8d9da'/>"
    yield f"<text x='8' y='16' font-size='12' font-weight='bold'>{escape(panel.title)}</text>"
    if panel.kind == "stat":
        last = next((line.points[-1][1] for line in panel.lines if line.points), math.nan)
        yield (
            f"<text x='{width / 2}' y='{height / 2 + 18}' font-size='28' text-anchor='middle'>"
            f"{shown(last, panel.unit)}</text>"
        )
    else:
        yield from _graph(panel, (width, height), start, end)
    yield "</g>"


def _graph(panel: Drawn, size: tuple[float, float], start: float, end: float) -> Iterator[str]:
    width, height = size
    left, top, right, bottom = 52, 28, width - 10, height - 26
    values = [v for line in panel.lines for _, v in line.points if math.isfinite(v)]
    most = max([*values, 0.0]) * 1.05 or 1.0
    for share in (0.0, 0.5, 1.0):
        at = bottom - share * (bottom - top)
        yield f"<line x1='{left}' x2='{right}' y1='{at}' y2='{at}' stroke='#e7e8e9'/>"
        words = shown(most * share, panel.unit)
        yield f"<text x='{left - 4}' y='{at + 4}' font-size='10' text-anchor='end'>{words}</text>"
    legend_at: float = left
    for number, line in enumerate(panel.lines):
        color = COLORS[number % len(COLORS)]
        points = " ".join(
            f"{left + (t - start) / (end - start) * (right - left):.1f},"
            f"{bottom - v / most * (bottom - top):.1f}"
            for t, v in line.points
            if math.isfinite(v)
        )
        if points:
            yield f"<polyline points='{points}' fill='none' stroke='{color}' stroke-width='1.5'/>"
        legend = line.legend[:LONGEST_LEGEND]
        if legend_at + _width(legend) > right:
            continue  # no room for more
        yield f"<rect x='{legend_at}' y='{height - 14}' width='10' height='3' fill='{color}'/>"
        words = escape(legend)
        yield f"<text x='{legend_at + 14}' y='{height - 9}' font-size='10'>{words}</text>"
        legend_at += _width(legend)


def _width(legend: str) -> float:
    """Return the room of a legend with its mark."""
    return 24 + 6.2 * len(legend)


def shown(value: float, unit: str) -> str:
    """Return a value as a person reads it."""
    if not math.isfinite(value):
        return "-"
    if unit == "percentunit":
        return f"{value * 100:.3g} %"
    suffix = {"s": " s", "bytes": "B", "ops": "/s", "reqps": "/s"}.get(unit, "")
    size, letter = next(((s, c) for s, c in SUFFIXES if abs(value) >= s), (1, ""))
    return f"{value / size:.3g}{letter}{suffix}" if value else f"0{suffix}"
