"""What the demo shows: steps with their times, below them what goes on, a table at last."""

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from rich.console import Console
from rich.live import Live
from rich.table import Table
from rich.text import Text

LINE_SECONDS = 5.0
WIDTH_OF_A_PIPE = 120


class Screen:
    """A terminal, or a pipe, to which fewer lines go."""

    def __init__(self) -> None:
        self.console = Console(highlight=False)
        if not self.console.is_terminal:
            self.console.width = WIDTH_OF_A_PIPE
        self.steps: list[tuple[str, float]] = []
        self._live = Live(console=self.console, refresh_per_second=4, transient=True)
        self._said_at = 0.0

    @contextmanager
    def step(self, what: str) -> Iterator[None]:
        """Show that something goes on, and how long it took."""
        started = time.monotonic()
        if self.console.is_terminal:
            with self.console.status(what):
                yield
        else:
            yield
        self.done(what, time.monotonic() - started)

    def done(self, what: str, seconds: float) -> None:
        """Note a step that is done."""
        self.steps.append((what, seconds))
        self.console.print(Text.assemble(("done ", "green"), f"{what} ({seconds:.1f} s)"))

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Have a place below the lines for `now`."""
        with self._live:
            yield
            self._live.update("")

    def now(self, line: str) -> None:
        """Show how things stand; a pipe gets it from time to time."""
        if self.console.is_terminal:
            self._live.update(Text(line, style="cyan"))
        elif time.monotonic() - self._said_at >= LINE_SECONDS:
            self._said_at = time.monotonic()
            self.console.print(f"     {line}")

    def say(self, line: str) -> None:
        """Say something that has happened."""
        self.console.print(f"     {line}")

    def table(self, title: str, rows: Sequence[tuple[str, str]]) -> None:
        """Show the closing table."""
        made = Table(title=title, title_justify="left", box=None, show_header=False)
        for left, right in rows:
            made.add_row(left, right)
        self.console.print()
        self.console.print(made)
