"""Tables for people, made of samples and verdicts."""

from collections.abc import Iterable, Iterator, Sequence

from bench.gates import BASELINE, BASELINE_COSTS, OURS, Verdict, judge
from bench.record import Sample, Spread


def tables(samples: Sequence[Sample]) -> Iterator[str]:
    """Yield the lines of one table for each scenario, then those of the gates."""
    for scenario in dict.fromkeys(sample.scenario for sample in samples):
        yield f"\n{scenario} (median [lowest..highest])\n"
        yield from _scenario([sample for sample in samples if sample.scenario == scenario])
    yield from _gates(list(judge(samples)), list(judge(samples, BASELINE_COSTS)))


def _scenario(samples: Sequence[Sample]) -> Iterator[str]:
    figures = list(dict.fromkeys(name for sample in samples for name in sample.figures))
    cells: dict[tuple[str, str], list[Sample]] = {}
    for sample in samples:
        cells.setdefault((sample.case, f"{sample.contender} {sample.version}"), []).append(sample)
    # Figures go down and contenders across: there are many more figures.
    head = ["", *(f"{case}, {contender}" for case, contender in cells)]
    body = [
        [name, *(_spread(_values(group, name)) for group in cells.values())] for name in figures
    ]
    foreign = [_spread([s.foreign_cores for s in group]) for group in cells.values()]
    counts = [str(len(group)) for group in cells.values()]
    body += [["foreign cores", *foreign], ["repetitions", *counts]]
    yield from _aligned([head, *body])


def _values(group: Iterable[Sample], name: str) -> list[float]:
    return [sample.figures[name] for sample in group if name in sample.figures]


def _gates(verdicts: Sequence[Verdict], costs: Sequence[Verdict]) -> Iterator[str]:
    if not verdicts:
        return
    yield f"\ngates ({OURS} against {BASELINE}, by repetition: median [lowest..highest])\n"
    rows = [["gate", "measured", "demand", "verdict", f"{BASELINE} itself"]]
    theirs = {verdict.gate.name: _spread_text(verdict.measured) for verdict in costs}
    for verdict in verdicts:
        gate = verdict.gate
        left_out = f" ({verdict.noisy} noisy left out)" if verdict.noisy else ""
        rows.append(
            [
                gate.name,
                f"{_spread_text(verdict.measured)} {gate.unit}{left_out}".strip(),
                gate.demand(),
                "met" if verdict.is_met else "MISSED",
                theirs.get(gate.name, ""),
            ]
        )
    yield from _aligned(rows)


def _spread(values: Iterable[float]) -> str:
    spread = Spread.of(values)
    return _spread_text(spread) if spread else "-"


def _spread_text(spread: Spread) -> str:
    if spread.count == 1:
        return _number(spread.median)
    return f"{_number(spread.median)} [{_number(spread.low)}..{_number(spread.high)}]"


def _number(value: float) -> str:
    size = abs(value)
    if size >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if size >= 10 else f"{value:.2f}" if size >= 0.1 else f"{value:.3f}"


def _aligned(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    for number, row in enumerate(rows):
        cells = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        yield f"| {' | '.join(cells)} |"
        if number == 0:
            yield f"|{'|'.join('-' * (width + 2) for width in widths)}|"
