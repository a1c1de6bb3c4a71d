"""A worker process, started by its supervisor as `python -m awa._runtime.child`.

It imports the handlers, waits for the database as long as that takes, works, and ends when it is
told to: by its supervisor, or by a signal. It exits without waiting for threads that are stuck.
"""

import asyncio
import contextlib
import faulthandler
import json
import logging
import os
import signal
import socket
import sys
import threading
import traceback
from collections.abc import Sequence
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from typing import Any, NoReturn

import uvloop

from awa import logs
from awa._runtime.allocator import return_large_blocks
from awa._runtime.condition import Condition, Stage, held_up, look
from awa._runtime.exits import Exit
from awa._runtime.handlers import load_handlers
from awa._runtime.parent import die_with_parent, end_group
from awa._runtime.process import LONGEST_LINE
from awa._runtime.worker import Worker
from awa._store.database import Database, backoff_seconds
from awa.errors import AwaError, DatabaseTooOld, SchemaTooNew, ValidationError
from awa.metrics import families
from awa.queue_settings import parse_queues
from awa.registry import Registry
from awa.settings import WorkerSettings, load_database_settings, load_worker_settings

log = logging.getLogger("awa.process")

STOP_MARGIN_SECONDS = 3.0
"""How long after the drain timeout, or after being told to hurry, a stop may take."""
EXIT_SECONDS = 1.0
"""How long the interpreter may take to shut down, threads included."""
SCHEMA_CHECK_SECONDS = 30.0
REPEAT_SECONDS = 60.0
PERMANENT = (ValidationError, SchemaTooNew, DatabaseTooOld)


class Child:
    """The worker of this process, and the conversation with its supervisor."""

    def __init__(self, settings: WorkerSettings, database: Database, worker: Worker) -> None:
        self._settings = settings
        self._database = database
        self._worker = worker
        self._writer: asyncio.StreamWriter | None = None
        self._condition = Condition(stage=Stage.waiting, reason="not tried yet")
        self._working = False
        self._stop_asked = asyncio.Event()
        self._hurried = asyncio.Event()
        self._answers: set[asyncio.Task[None]] = set()

    async def run(self, end: socket.socket) -> Exit:
        """Work until told to stop."""
        loop = asyncio.get_running_loop()
        logs.note_task_errors(loop)
        # Whoever sends it, and however often: what is more urgent comes from the supervisor.
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._stop_asked.set)
        reader, self._writer = await asyncio.open_unix_connection(sock=end, limit=LONGEST_LINE)
        self._say(loaded=True)
        listening = asyncio.create_task(self._listen(reader), name="awa supervisor")
        try:
            return await self._work()
        except PERMANENT as error:
            self._say(problem=str(error))
            return Exit.CONFIGURATION
        finally:
            listening.cancel()
            self._say(metrics=self._counted())
            with contextlib.suppress(TimeoutError, ConnectionError):
                async with asyncio.timeout(1):
                    await self._writer.drain()
                    self._writer.close()
                    await self._writer.wait_closed()

    async def _work(self) -> Exit:
        starting = asyncio.create_task(self._start(), name="awa start")
        stop = asyncio.create_task(self._stop_asked.wait(), name="awa stop")
        await asyncio.wait((starting, stop), return_when="FIRST_COMPLETED")
        if not starting.done():
            starting.cancel()
            await asyncio.wait((starting,), timeout=STOP_MARGIN_SECONDS)
            return Exit.CLEAN
        await starting
        too_new = asyncio.create_task(self._watch_schema(), name="awa schema watch")
        await asyncio.wait((too_new, stop), return_when="FIRST_COMPLETED")
        if not await self._stop():
            return Exit.UNFINISHED
        if too_new.done():
            await too_new
        too_new.cancel()
        return Exit.CLEAN

    async def _start(self) -> None:
        """Start the worker, waiting for whatever can come by itself. Raises what cannot."""
        failures, said, said_at = 0, "", 0.0
        loop = asyncio.get_running_loop()
        while True:
            try:
                await self._worker.start()
            except PERMANENT:
                raise
            except AwaError as error:
                self._condition = held_up(error)
                failures += 1
                if str(error) != said or loop.time() - said_at > REPEAT_SECONDS:
                    said, said_at = str(error), loop.time()
                    log.error("cannot work yet, trying again", extra={"reason": said})
                await asyncio.sleep(backoff_seconds(failures))
            else:
                self._working = True
                return

    async def _watch_schema(self) -> None:
        """Return never; raise when the schema has become one that this release cannot serve."""
        while True:
            await asyncio.sleep(SCHEMA_CHECK_SECONDS)
            try:
                await self._database.require_schema()
            except SchemaTooNew:
                raise
            except AwaError:
                continue

    async def _stop(self) -> bool:
        """Stop the worker; False when something still runs, or is not written, at the limit."""
        stopping = asyncio.create_task(self._worker.stop(), name="awa worker stop")
        hurried = asyncio.create_task(self._hurried.wait(), name="awa hurry")
        limit = self._settings.drain_timeout.total_seconds() + STOP_MARGIN_SECONDS
        await asyncio.wait((stopping, hurried), timeout=limit, return_when="FIRST_COMPLETED")
        if hurried.done():
            self._worker.hurry()
            await asyncio.wait((stopping,), timeout=STOP_MARGIN_SECONDS)
        hurried.cancel()
        # Not awaited when it is late: what hangs in it may not let itself be cancelled either.
        return stopping.done() and await stopping

    # --- the supervisor -------------------------------------------------------------------------

    async def _listen(self, reader: asyncio.StreamReader) -> None:
        with contextlib.suppress(ConnectionError):
            async for line in reader:
                self._heard(json.loads(line))
        end_group()

    def _heard(self, message: dict[str, Any]) -> None:
        match message:
            case {"do": "drain"}:
                self._stop_asked.set()
            case {"do": "stop"}:
                self._stop_asked.set()
                self._hurried.set()
            case {"ask": "metrics", "id": number}:
                self._say(id=number, metrics=self._counted())
            case {"ask": "condition", "id": number, "at_database": at_database}:
                answer = asyncio.create_task(self._answer(number, at_database=at_database))
                self._answers.add(answer)
                answer.add_done_callback(self._answers.discard)
            case _:
                log.error("the supervisor said something that is not understood")

    async def _answer(self, number: int, *, at_database: bool) -> None:
        found = self._condition
        if self._working:
            found = await look(self._worker, self._database, at_database=at_database)
        self._say(id=number, condition=found.to_json())

    def _counted(self) -> list[Any]:
        return [family.to_json() for family in families(self._worker.metrics)]

    def _say(self, **message: object) -> None:
        if self._writer is not None:
            self._writer.write(json.dumps(message).encode() + b"\n")


def main() -> NoReturn:
    """Run the process; see `WorkerProcess.start` for its arguments."""
    fd, pipe, parent, number = (int(word) for word in sys.argv[1:5])
    for descriptor in (fd, pipe):
        os.set_inheritable(descriptor, False)
    die_with_parent(parent, pipe)
    return_large_blocks()
    end = socket.socket(fileno=fd)
    faulthandler.enable()
    try:
        logs.configure(os.environ)
        code = _run(_load(sys.argv[5:]), end, number)
    except AwaError as error:
        code = Exit.CONFIGURATION
        _say_problem(end, str(error))
    except ImportFailed as failed:
        code = Exit.CRASHED
        _say_problem(end, str(failed))
    _leave(code)


class ImportFailed(Exception):
    """A module of handlers raised something while it was imported."""


def _load(modules: Sequence[str]) -> Registry:
    sys.path.insert(0, os.getcwd())
    try:
        return load_handlers(modules)
    except AwaError:
        raise
    except BaseException as error:
        # Not a logger of ours, so with everything the error says: it is about code, not jobs.
        logging.getLogger("handlers").error("the handlers cannot be imported", exc_info=error)
        frame = traceback.extract_tb(error.__traceback__)[-1]
        raise ImportFailed(
            f"the handlers cannot be imported: {type(error).__name__} in {frame.filename}, "
            f"line {frame.lineno}"
        ) from error


def _run(registry: Registry, end: socket.socket, number: int) -> Exit:
    settings = _settings(registry)
    database_settings = load_database_settings(os.environ)
    loop = uvloop.new_event_loop()
    asyncio.set_event_loop(loop)

    async def work() -> Exit:
        database = Database(database_settings)
        worker = Worker(
            database, registry, settings, version=version("awa-worker"),
            name=f"{os.environ['AWA_WORKER_NAME']}/{number}",
            state_folder=Path(os.environ["AWA_STATE_FOLDER"]),
        )  # fmt: skip
        return await Child(settings, database, worker).run(end)

    # Neither by a runner nor closed: both would wait for tasks and threads that may never end.
    return loop.run_until_complete(work())


def _settings(registry: Registry) -> WorkerSettings:
    """Return the settings of the environment; without queues those that the handlers name."""
    settings = load_worker_settings(os.environ)
    if os.environ.get("AWA_QUEUES", "").strip():
        served = {queue.name for queue in settings.queues}
        if all(handler.queue not in {None, *served} for handler in registry):
            log.warning(
                "every handler expects its jobs in a queue that is not served here",
                extra={"served": sorted(served), "expected": sorted(registry.queues)},
            )
        return settings
    if not registry.queues:
        return settings
    return replace(
        settings, queues=parse_queues({"name": name} for name in sorted(registry.queues))
    )


def _say_problem(end: socket.socket, text: str) -> None:
    """Tell the supervisor, which says it once for all processes."""
    with contextlib.suppress(OSError):
        end.setblocking(True)
        end.sendall(json.dumps({"problem": text}).encode() + b"\n")


def _leave(code: Exit) -> NoReturn:
    """Exit; at once when something still runs, else giving the interpreter a moment."""
    logging.shutdown()
    with contextlib.suppress(OSError, ValueError):
        sys.stdout.flush()
        sys.stderr.flush()
    if code is Exit.CLEAN:
        late = threading.Timer(EXIT_SECONDS, os._exit, (int(code),))
        late.daemon = True
        late.start()
        sys.exit(code)
    os._exit(code)


if __name__ == "__main__":
    main()
