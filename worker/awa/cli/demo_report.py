"""What the demo prints at its end: outputs, failures, figures, and where to look."""

import shlex
from collections.abc import Sequence
from pathlib import Path

from rich.text import Text

from awa._demo.errand import Ends
from awa._demo.example import MANIFEST
from awa._demo.findings import Figures, Finding
from awa.cli.output import table
from awa.cli.screen import Screen
from awa.cli.text import count, span, visible
from awa.job import JobState

DIGITS_OF_DIGEST = 12
_OUTPUTS = ("FILE", "FORMAT", ">WIDTH", ">HEIGHT", ">BYTES", "DIGEST")
_FAILURES = (">JOB", "FILE", "DAMAGE", "ERROR")
_FIGURES = ("", ">JOBS", ">JOBS/S", ">COMMIT → START P50", ">P99", ">START → END P50", ">P99")


def print_report(screen: Screen, ends: Ends, command: str, example: Path, where: str) -> None:
    """Print everything. `command` and `where` make up the commands to go on with."""
    good = [one for one in ends.all if one.job.state is JobState.Completed]
    failed = [one for one in ends.all if one.job.state is not JobState.Completed]
    screen.say()
    screen.show(table(_OUTPUTS, map(_output, good)))
    if failed:
        screen.say()
        screen.show(table(_FAILURES, map(_failure, failed), folds=True))
    screen.say()
    screen.say(
        Text.assemble(
            (f"{len(good):,} completed", "bold green"), ", ",
            (f"{len(failed):,} failed", "bold red"), f" of {count(len(ends.all), 'job')}",
        )
    )  # fmt: skip
    screen.say()
    screen.show(table(_FIGURES, _figures(ends)))
    screen.say()
    screen.say("Look at them yourself:", "bold")
    commands = _commands(good, failed, example, where)
    width = max(len(line) for line, _ in commands)
    for line, why in commands:
        screen.say(Text.assemble(f"  {command} {line:<{width}}", (f"   # {why}", "dim")))


def _output(one: Finding) -> tuple[str, ...]:
    output = one.output
    return (
        one.picture.name, str(output["format"]), str(output["width"]), str(output["height"]),
        f"{output['bytes']:,}", str(output["digest"])[:DIGITS_OF_DIGEST],
    )  # fmt: skip


def _failure(one: Finding) -> tuple[str, ...]:
    error = one.error.removeprefix("TerminalError: ")
    return str(one.job.id), one.picture.name, one.picture.damage or "", visible(error)


def _figures(ends: Ends) -> list[tuple[str, ...]]:
    parts = (
        ("the first, which wakes a worker", ends.first, False),
        ("one by one", ends.one_by_one, False),
        ("all at once", ends.at_once, True),
    )
    figures = [
        (name, Figures.of([one.job for one in part]), is_busy) for name, part, is_busy in parts
    ]
    return [_row(name, found, is_busy) for name, found, is_busy in figures if found is not None]


def _row(name: str, found: Figures, is_busy: bool) -> tuple[str, ...]:
    """Return a line; the rate of jobs that wait for each other says nothing."""
    return (
        name, f"{found.jobs:,}", f"{found.jobs_per_second:,.0f}" if is_busy else "",
        span(found.to_start.p50), span(found.to_start.p99) if found.jobs > 1 else "",
        span(found.to_end.p50), span(found.to_end.p99) if found.jobs > 1 else "",
    )  # fmt: skip


def _commands(
    good: Sequence[Finding], failed: Sequence[Finding], example: Path, where: str
) -> list[tuple[str, str]]:
    lines = [(f"queue list{where}", "exact counts")]
    if good:
        lines.append((f"job show {good[0].job.id}{where}", "a job and its output"))
    if failed:
        lines.append((f"job list --state failed{where}", "what failed, and why"))
        lines.append((f"job show {failed[0].job.id}{where}", "one of them, with the whole error"))
    lines.append((f"up -f {shlex.quote(str(example / MANIFEST))}{where}", "run the workers again"))
    return lines
