"""The report of a soak: as values for JSON, and as text for people."""

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from operator import itemgetter
from pathlib import Path
from typing import Any

from support.soak.stories import COMMITTED, ROLLED_BACK, UNKNOWN, Story, lines_of
from support.soak.verdict import SHOWN, Evidence, Promise
from support.soak.watch import Happened

NEAR_SECONDS = 3.0
"""Faults so long before or after a job's story belong to its timeline."""


def figures(evidence: Evidence) -> dict[str, Any]:
    """Return how much there was of everything."""
    stories: Sequence[Story] = list(evidence.stories.values())
    fates = Counter(story.fate for story in stories)
    return {
        "committed": fates[COMMITTED], "unknown": fates[UNKNOWN], "rolled_back": fates[ROLLED_BACK],
        "runs": sum(len(story.runs) for story in stories),
        "stale": sum(story.stale for story in stories),
        "scheduled": sum(story.due_at is not None for story in stories),
        "unique": sum(story.unique is not None for story in stories),
        "cancels": sum(story.cancel_tried_at is not None for story in stories),
        "retries": sum(story.retries for story in stories),
        "looks": sum(len(story.seen) for story in stories),
        "present": len(evidence.rows), "pruned": evidence.removed,
        "compared": f"{len(evidence.ends) / max(1, evidence.ended):.2%}",
        "states": dict(Counter(row["state"] for row in evidence.rows)),
    }  # fmt: skip


def verdicts(
    promises: list[Promise], folder: Path, faults: list[Happened], begun: float
) -> list[dict[str, Any]]:
    """Return the promises with their violations and a timeline of each job concerned."""
    keys = {v.key for promise in promises for v in promise.violations[:SHOWN] if v.key is not None}
    lines: dict[str, list[tuple[float, str]]] = defaultdict(list)
    if keys:
        for key, at, text in lines_of(folder, keys):
            lines[key].append((at, text))
    return [
        {
            "promise": promise.text, "kept": not promise.violations, "checked": promise.checked,
            "of": promise.of,
            "violations": [
                {"text": v.text, "timeline": timeline(lines.get(v.key or "", []), faults, begun)}
                for v in promise.violations[:SHOWN]
            ],
            "violations_in_all": len(promise.violations),
        }
        for promise in promises
    ]  # fmt: skip


def timeline(lines: list[tuple[float, str]], faults: list[Happened], begun: float) -> list[str]:
    """Return what happened to a job and around it, in seconds since the start."""
    if not lines:
        return []
    first, last = min(lines)[0] - NEAR_SECONDS, max(lines)[0] + NEAR_SECONDS
    around = [
        (fault.begun, f"-- {fault.name} until {fault.ended - begun:.2f}")
        for fault in faults
        if fault.ended >= first and fault.begun <= last
    ]
    return [f"{at - begun:.2f} {text}" for at, text in sorted([*lines, *around], key=itemgetter(0))]


def as_text(verdict: dict[str, Any]) -> Iterator[str]:
    """Yield the lines of the report."""
    yield f"seed {verdict['seed']}, {verdict['seconds']:.0f} s"
    yield from _table(
        ("figure", ""), [(name, str(value)) for name, value in verdict["figures"].items()]
    )
    yield from _table(
        ("fault", "times", "took effect", "median gap, s", "longest gap, s"),
        [
            (name, str(f["times"]), str(f["took_effect"]), f"{f['median_gap_seconds']:.2f}",
             f"{f['longest_gap_seconds']:.2f}")
            for name, f in verdict["faults"].items()
        ],
    )  # fmt: skip
    for name, reason in verdict["left_out"].items():
        yield f"not done here: {name}: {reason}"
    yield from _table(("", "times"), [(n, str(c)) for n, c in verdict["counts"].items()])
    yield from _table(
        ("memory, MiB", "start", "end", "most"),
        [(n, str(f["start"]), str(f["end"]), str(f["most"])) for n, f in verdict["memory"].items()],
    )
    for promise in verdict["promises"]:
        word = "kept" if promise["kept"] else "BROKEN"
        number = promise["checked"]
        among = number if promise["of"] is None else f"{number} of {promise['of']}"
        yield f"{word:7} {promise['promise']} ({among} looked at)"
        for violation in promise["violations"]:
            yield f"        {violation['text']}"
            yield from (f"            {line}" for line in violation["timeline"])


def _table(head: tuple[str, ...], rows: list[tuple[str, ...]]) -> Iterator[str]:
    if not rows:
        return
    widths = [max(len(row[at]) for row in (head, *rows)) for at in range(len(head))]
    yield ""
    for row in (head, tuple("-" * width for width in widths), *rows):
        cells = [row[0].ljust(widths[0])]
        cells += [cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True)]
        yield "  ".join(cells)
    yield ""
