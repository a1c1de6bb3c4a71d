"""`awa demo`: a few hundred real images, from nothing to their outputs."""

import asyncio
import contextlib
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, TextIO

import typer
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from awa._demo.errand import Ends, Errand
from awa._demo.example import MANIFEST, find_example
from awa._demo.findings import Finding
from awa._demo.pictures import Picture, damaged_of, make_pictures
from awa._fleet.events import Event, LineWritten
from awa._fleet.home import hold
from awa._fleet.run import LocalRun, Order
from awa._fleet.stop import Stop, Stopped
from awa._local.postgres import DEFAULT_FOLDER
from awa.cli.demo_report import print_report
from awa.cli.exits import CommandError, ExitCode, told
from awa.cli.invocation import for_folder, own_command
from awa.cli.screen import Screen
from awa.cli.signals import catch_stop_signals, deliver_stop_signals
from awa.cli.text import count
from awa.cli.up import RunFolder
from awa.client import AsyncClient
from awa.errors import AwaError
from awa.manifest import load_queue

DEFAULT_JOBS = 300
MAX_JOBS = 10_000

Jobs = Annotated[int, typer.Option(min=1, max=MAX_JOBS, help="How many images, one job each.")]
KeepRunning = Annotated[
    bool, typer.Option("--keep-running", help="Leave the workers running until Ctrl-C.")
]


def demo(
    jobs: Jobs = DEFAULT_JOBS, folder: RunFolder = DEFAULT_FOLDER, keep_running: KeepRunning = False
) -> None:
    """Make thumbnails of a few hundred images, some damaged, and show what came of each.

    Starts a PostgreSQL of its own, migrates it, and runs the workers of examples/thumbnails as
    awa up does. Everything is stopped at the end; the data stay.
    """
    catch_stop_signals()
    with told():
        example = find_example()
        with hold(folder, "awa demo"):
            code = asyncio.run(_Demo(example, folder, jobs, keep_running).run())
    raise typer.Exit(code)


class _Demo:
    """One run of the demo."""

    def __init__(self, example: Path, folder: Path, jobs: int, keep_running: bool) -> None:
        self._example = example
        self._folder = folder
        self._jobs = jobs
        self._keep_running = keep_running
        self._screen = Screen(shows_workers=False)
        self._progress = Progress(
            TextColumn("  {task.description}"), BarColumn(), MofNCompleteColumn(),
            TimeElapsedColumn(), console=self._screen.console,
        )  # fmt: skip
        self._screen.below.append(self._progress)
        self._queue = load_queue(example / MANIFEST)
        self._ends: Ends | None = None

    async def run(self) -> ExitCode:
        """Run it and stop everything, whatever happens."""
        stop = Stop()
        deliver_stop_signals(asyncio.get_running_loop(), stop.ask)
        self._screen.take_logs()
        order = Order(
            queues=[self._queue], manifest_folder=self._example, folder=self._folder,
            database_url=None,
        )  # fmt: skip
        with _open_log(self._log) as log:
            run = LocalRun(order, lambda event: self._tell(log, event), stop)
            try:
                async with self._screen.shown():
                    try:
                        await self._work(run, stop)
                    finally:
                        await run.end()
            except Stopped:
                pass
            except AwaError as error:
                error.add_note(f"What the workers said is in {self._log}.")
                raise
        return self._finish()

    @property
    def _log(self) -> Path:
        return self._folder / "demo" / "workers.log"

    async def _work(self, run: LocalRun, stop: Stop) -> None:
        pictures = await stop.unless_asked(self._prepare(run))
        await run.wait(self._send(run, pictures))
        if self._ends is not None and self._keep_running and not stop.drain.is_set():
            self._report(self._ends)
            self._screen.say("The workers go on; Ctrl-C stops them.", "bold")
            await run.wait()

    async def _prepare(self, run: LocalRun) -> list[Picture]:
        """Start the server and make the images at the same time."""
        folder = self._folder / "demo" / "images"
        progress = self._tracked("making images", self._jobs)
        starting = asyncio.create_task(run.start())
        try:
            pictures = await make_pictures(self._example, folder, self._jobs, progress)
            await starting
        finally:
            starting.cancel()
            await asyncio.wait((starting,))
        damaged = count(damaged_of(self._jobs), "damaged one")
        self._screen.done(f"{count(self._jobs, 'image')} in {folder}, {damaged} among them")
        return pictures

    async def _send(self, run: LocalRun, pictures: list[Picture]) -> None:
        async with AsyncClient(run.database_url, schema=self._queue.spec.database.schema_name) as (
            client
        ):
            errand = Errand(
                client, self._queue.queue_name, self._folder / "demo" / "thumbnails",
                lambda ended: progress(ended),
            )  # fmt: skip
            left = await errand.look_for_leftovers()
            if left:
                self._screen.say(f"{count(left, 'job')} of an earlier run are done on the way.")
            progress = self._tracked("running jobs", left + len(pictures))
            self._ends = await errand.run(pictures)
        self._screen.done(f"{count(len(pictures), 'job')} enqueued, run and ended")

    def _finish(self) -> ExitCode:
        if self._ends is None:
            self._screen.say(
                f"Interrupted. Jobs that have not run wait in {self._folder}: "
                f"`{own_command()} demo{for_folder(self._folder)}` runs them too."
            )
            return ExitCode.INTERRUPTED
        if not self._keep_running:
            self._report(self._ends)
        wrong = [one for one in self._ends.all if one.wrong is not None]
        if wrong:
            raise CommandError(_complaint(wrong))
        return ExitCode.DONE

    def _report(self, ends: Ends) -> None:
        example = self._example
        with contextlib.suppress(ValueError):  # it is elsewhere, so its whole path is needed
            example = example.relative_to(Path.cwd())
        print_report(self._screen, ends, own_command(), example, for_folder(self._folder))

    def _tracked(self, what: str, total: int) -> Callable[[int], None]:
        """Return what moves a new progress bar; without a terminal, quarters are lines."""
        for task in self._progress.task_ids:
            self._progress.update(task, visible=False)
        task = self._progress.add_task(what, total=total)
        said = 0

        def move(done: int) -> None:
            nonlocal said
            self._progress.update(task, completed=done)
            quarter = 4 * done // total
            if quarter > said and not self._screen.console.is_terminal:
                said = quarter
                self._screen.say(f"  {what}: {done} of {total}")

        return move

    def _tell(self, log: TextIO, event: Event) -> None:
        if isinstance(event, LineWritten):
            log.write(f"{event.queue}-{event.number} {event.line}\n")
        self._screen.tell(event)


def _open_log(file: Path) -> contextlib.closing[TextIO]:
    file.parent.mkdir(parents=True, exist_ok=True)
    return contextlib.closing(file.open("w", encoding="utf-8", errors="replace", buffering=1))


def _complaint(wrong: list[Finding]) -> str:
    lines = [f"  {one.picture.name}: job {one.job.id} {one.wrong}" for one in wrong[:10]]
    return "\n".join([f"{count(len(wrong), 'job')} did not end as they must:", *lines])
