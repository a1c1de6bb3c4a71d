"""What `awa up` and `awa demo` show: lines, and on a terminal a status below them."""

import asyncio
import contextlib
import io
import logging
from collections.abc import AsyncIterator, Iterator
from datetime import timedelta
from typing import assert_never

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.spinner import Spinner
from rich.table import Table
from rich.text import Text

from awa._fleet.events import (
    AllStopped,
    Draining,
    Event,
    LineWritten,
    PagesServed,
    QueueSeen,
    QueueStarted,
    SchemaReady,
    ServerStarted,
    StoppingAtOnce,
    WorkerEnded,
)
from awa._fleet.fleet import Ended, code_in_words
from awa._fleet.pilot import Seen
from awa.cli.output import show_table
from awa.cli.text import count, span, visible
from awa.logs import TextFormatter
from awa.manifest import LocalView
from awa.scaling import Signals, Unknown

REFRESH = timedelta(milliseconds=125)
_COLOURS = ("cyan", "magenta", "blue", "yellow", "green")


class Terminal(Console):
    """A console that goes on when nobody is there any more to read it."""

    def on_broken_pipe(self) -> None:
        """Write nowhere from now on."""
        self.file = io.StringIO()


class Screen:
    """Shows a run. `tell` takes its events; `below` is what stands under the lines."""

    def __init__(self, *, shows_workers: bool = True) -> None:
        self.console = Terminal(highlight=False, markup=False, emoji=False, soft_wrap=True)
        self.below: list[RenderableType] = []
        self._shows_workers = shows_workers
        self._views: dict[str, LocalView] = {}
        self._seen: dict[str, Seen] = {}
        self._spinners: dict[str, Spinner] = {}
        self._ending: str | None = None
        self._live: Live | None = None

    def take_logs(self) -> None:
        """Show from now on what parts of ours warn about in this process."""
        log = logging.getLogger("awa")
        log.handlers[:] = [_Shown(self)]
        log.propagate = False

    def say(self, text: Text | str = "", style: str = "") -> None:
        """Print a line."""
        line = text if isinstance(text, Text) else Text(text, style=style)
        with self._surviving():
            self.console.print(line)

    def show(self, made: Table) -> None:
        """Print a table."""
        with self._surviving():
            show_table(self.console, made)

    def done(self, what: str) -> None:
        """Print that something has been done."""
        self.say(Text.assemble(("✓ ", "green"), what))

    @contextlib.asynccontextmanager
    async def shown(self) -> AsyncIterator[None]:
        """Keep the status up to date while the block runs; only on a terminal."""
        if not self.console.is_terminal:
            yield
            return
        with Live(
            console=self.console, auto_refresh=False, transient=True, redirect_stdout=False,
            redirect_stderr=False, get_renderable=self._status,
        ) as self._live:  # fmt: skip
            refreshing = asyncio.create_task(self._refresh(self._live), name="awa screen")
            try:
                yield
            finally:
                refreshing.cancel()
                self._live = None

    def tell(self, event: Event) -> None:
        """Show an event of a run."""
        match event:
            case PagesServed() | ServerStarted() | SchemaReady() | QueueStarted():
                self._say_started(event)
            case LineWritten(queue, number, line):
                self._say_line(queue, number, line)
            case QueueSeen(queue, seen):
                self._say_seen(queue, seen)
            case WorkerEnded(queue, ended):
                self._say_ended(queue, ended)
            case Draining() | StoppingAtOnce() | AllStopped():
                self._say_stopping(event)
            case _:
                assert_never(event)

    def _say_started(self, event: PagesServed | ServerStarted | SchemaReady | QueueStarted) -> None:
        match event:
            case PagesServed(address):
                self.done(f"http://{address.host}:{address.port}/metrics, /healthz and /readyz")
            case ServerStarted(server):
                self.done(f"PostgreSQL {server.version} in {server.folder}, port {server.port}")
                if server.note:
                    self.say(f"  {server.note}", "dim")
            case SchemaReady(schema, version, applied):
                new = f", {count(applied, 'migration')} applied" if applied else ""
                self.done(f"schema {schema} at version {version}{new}")
            case QueueStarted(view):
                self._views[view.queue_name] = view
                self._say_queue(view)

    def _say_stopping(self, event: Draining | StoppingAtOnce | AllStopped) -> None:
        match event:
            case Draining(alive, longest):
                self._ending = "draining; Ctrl-C stops at once"
                finish = f"{count(alive, 'worker')} finish{'es' if alive == 1 else ''} what runs"
                self.say(f"Draining: {finish}, for {span(longest)} at most; Ctrl-C cuts it short.")
            case StoppingAtOnce():
                self._ending = "stopping at once"
                self.say("Stopping at once: what still runs is cut off and runs again later.")
            case AllStopped():
                self._ending = None

    def _say_queue(self, view: LocalView) -> None:
        spec = view.scaling
        number = f"{spec.min_replicas} to {spec.max_replicas}" if spec else f"{view.replicas}"
        workers = f"{number} workers of {count(view.concurrency, 'job')} each"
        if view.suspended:
            workers = "no workers, the manifest suspends it"
        self.done(f"queue {visible(view.queue_name)}: {workers}")
        if view.not_applied:
            paths = ", ".join(field.path for field in view.not_applied)
            self.say(f"  only for a cluster, not used here: {paths}", "dim")

    def _say_line(self, queue: str, number: int, line: str) -> None:
        if self._shows_workers:
            colour = _COLOURS[number % len(_COLOURS)]
            name = visible(f"{queue}-{number}")
            self.say(Text.assemble((f"{name} │ ", colour), visible(line.expandtabs())))

    def _say_seen(self, queue: str, seen: Seen) -> None:
        before, self._seen[queue] = self._seen.get(queue), seen
        if before is not None and _is_known(before.signals) != _is_known(seen.signals):
            known = _is_known(seen.signals)
            self.say(
                f"{visible(queue)}: the queue can be read again" if known
                else f"{visible(queue)}: the queue cannot be read; the number of workers stays",
                "" if known else "yellow",
            )  # fmt: skip
        was = 0 if before is None else before.wanted
        if was != seen.wanted:
            why = "" if seen.reason is None else f" ({_in_words(seen.reason.value)})"
            self.say(f"{visible(queue)}: {was} → {count(seen.wanted, 'worker')}{why}", "bold")

    def _say_ended(self, queue: str, ended: Ended) -> None:
        name = f"{visible(queue)}-{ended.number}"
        how = code_in_words(ended.code)
        if ended.was_killed:
            self.say(f"{name} exceeded its time to stop and was killed", "red")
        elif not ended.was_asked:
            self.say(f"{name} ended with {how}; its jobs are handed on and it is replaced", "red")
        elif ended.code != 0 and self._ending is None:
            self.say(f"{name} ended with {how}", "yellow")

    def _status(self) -> RenderableType:
        queues = [self._status_of(name, view) for name, view in self._views.items()]
        hint = self._ending or "Ctrl-C drains and stops"
        return Group(*self.below, *queues, Text(f"  {hint}", style="dim"))

    def _status_of(self, name: str, view: LocalView) -> RenderableType:
        seen = self._seen.get(name)
        if seen is None:
            return Text(f"  {name}: starting", style="dim")
        if not seen.alive and not seen.wanted and self._ending is None:
            return Text(f"☾ {visible(name)}: asleep, no jobs", style="dim")
        parts = [f"{visible(name)}: {count(seen.alive, 'worker')}"]
        if seen.wanted > seen.ready:
            parts.append(f"{seen.wanted - seen.ready} starting")
        if isinstance(seen.signals, Signals):
            parts += [f"{seen.signals.running:,} running", f"{seen.signals.ready:,} waiting"]
            if seen.signals.lag > timedelta(seconds=1):
                parts.append(f"oldest {span(seen.signals.lag)}")
            if seen.signals.due_soon:
                parts.append(f"{seen.signals.due_soon:,} due soon")
        spinner = self._spinners.setdefault(name, Spinner("dots", style="cyan"))
        spinner.update(text=Text(" · ".join(parts)))
        return spinner

    async def _refresh(self, live: Live) -> None:
        while True:
            with self._surviving():
                live.refresh()
            await asyncio.sleep(REFRESH.total_seconds())

    @contextlib.contextmanager
    def _surviving(self) -> Iterator[None]:
        """Go on without a terminal: stopping in order matters more than showing it."""
        try:
            yield
        except OSError:
            self.console.on_broken_pipe()


class _Shown(logging.Handler):
    """Prints warnings and errors as lines."""

    def __init__(self, screen: Screen) -> None:
        super().__init__(logging.WARNING)
        self.setFormatter(TextFormatter())
        self._screen = screen

    def emit(self, record: logging.LogRecord) -> None:
        """Print a record."""
        self._screen.say(self.format(record), "yellow")


def _is_known(signals: Signals | Unknown) -> bool:
    return isinstance(signals, Signals)


def _in_words(name: str) -> str:
    """Return a CamelCase reason as words."""
    return "".join(f" {c.lower()}" if c.isupper() else c for c in name).strip()
