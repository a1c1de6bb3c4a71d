"""Figures and the levels that they are held against."""

import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Figure:
    """One figure, and the most that it may be to be good, and best."""

    name: str
    value: float
    unit: str
    good: float | None = None
    best: float | None = None

    @property
    def verdict(self) -> str:
        """Which level it reaches."""
        if self.best is not None and self.value <= self.best:
            return "best"
        if self.good is None:
            return "" if self.best is None else "missed"
        return "good" if self.value <= self.good else "missed"


def percentiles(
    name: str, gaps: Sequence[float], levels: tuple[float | None, float | None]
) -> list[Figure]:
    """Return the middle and the slowest of gaps in seconds, and how many were seen."""
    if len(gaps) < 2:
        return [Figure(f"{name}, seen", len(gaps), "")]
    cuts = statistics.quantiles(gaps, n=100, method="inclusive")
    return [
        Figure(f"{name}, p50", cuts[49], "s", levels[0]),
        Figure(f"{name}, p99", cuts[98], "s", *levels),
        Figure(f"{name}, seen", len(gaps), ""),
    ]


def table(figures: Sequence[Figure]) -> Iterator[str]:
    """Yield the lines of a table."""
    rows = [("figure", "value", "good", "best", "level")]
    for one in figures:
        good, best = ("" if level is None else f"{level:g}" for level in (one.good, one.best))
        rows.append((one.name, f"{one.value:.3g} {one.unit}".strip(), good, best, one.verdict))
    widths = [max(len(row[column]) for row in rows) for column in range(5)]
    for row in rows:
        yield "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
