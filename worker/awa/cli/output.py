"""What goes to standard output: tables for people, or one JSON document for programs."""

import io
import json
import sys
from collections.abc import Iterable, Sequence
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from awa.cli.text import visible, visible_json
from awa.job import JobState

COLOURS = {
    JobState.Scheduled: "magenta",
    JobState.Available: "blue",
    JobState.Running: "cyan",
    JobState.Completed: "green",
    JobState.Retryable: "yellow",
    JobState.Failed: "red",
    JobState.Cancelled: "dim",
    JobState.WaitingExternal: "cyan",
}
# Lines that nobody looks at are not cut: they go to a file or another program.
_WIDTH_OF_A_PIPE = 1000


def console() -> Console:
    """Return where tables go."""
    made = Console(highlight=False, markup=False, emoji=False)
    if not made.is_terminal:
        made.width = _WIDTH_OF_A_PIPE
    return made


def print_json(document: Any) -> None:
    """Print one JSON document."""
    print(visible_json(json.dumps(document, ensure_ascii=False, indent=2)))


def print_text(text: Text | str = "") -> None:
    """Print a line or lines; on a terminal they are broken between words."""
    console().print(text)


def print_table(heads: Sequence[str], rows: Iterable[Sequence[Text | str]]) -> None:
    """Print a table; on a terminal its last column is cut where the line ends."""
    show_table(console(), table(heads, rows))


def show_table(where: Console, made: Table) -> None:
    """Print a table; lines that go elsewhere than to a terminal have no blanks at their ends."""
    if where.is_terminal:
        where.print(made)
        return
    text = io.StringIO()
    Console(file=text, width=_WIDTH_OF_A_PIPE, highlight=False, markup=False, emoji=False).print(
        made
    )
    for line in text.getvalue().splitlines():
        print(line.rstrip(), file=where.file)


def table(
    heads: Sequence[str], rows: Iterable[Sequence[Text | str]], *, folds: bool = False
) -> Table:
    """Return a table without lines; heads that start with `>` stand for numbers.

    What has no room in the last column is cut off, or continues below with `folds`.
    """
    texts = [
        [cell if isinstance(cell, Text) else Text(visible(cell)) for cell in row] for row in rows
    ]
    made = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for number, head in enumerate(heads):
        name = head.removeprefix(">")
        is_last = number == len(heads) - 1
        made.add_column(
            name,
            justify="right" if head.startswith(">") else "left",
            no_wrap=not (is_last and folds),
            overflow="ellipsis",
            # Without it all columns would become narrower for the last one's sake.
            min_width=None
            if is_last
            else max([len(name), *(row[number].cell_len for row in texts)]),
        )
    for row in texts:
        made.add_row(*row)
    return made


def state_text(state: JobState) -> Text:
    """Return a state in its colour."""
    return Text(str(state), style=COLOURS[state])


def writes_anything() -> None:
    """Let standard output and error take every character, whatever their encoding is."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")
