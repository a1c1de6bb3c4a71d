"""A run of local workers: server, schema, fleets, in this order; and their end in the other one.

The end: nothing scales any more → the workers of every queue drain → what a killed one has left is
handed back → the database's sessions close → the embedded server stops. A second request to stop
cuts the drain short. The end is never given up half way.
"""

import asyncio
import contextlib
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import awa_migrations
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
from awa._fleet.fleet import Ended, Fleet
from awa._fleet.home import state_of_queue, states_left
from awa._fleet.launch import Launch
from awa._fleet.pages import Pages
from awa._fleet.pilot import Pilot
from awa._fleet.replica import Replica
from awa._fleet.stop import Stop
from awa._local.errors import ServerAlreadyRunning, ServerFailed
from awa._local.postgres import EmbeddedPostgres
from awa._runtime.settler import Settler
from awa._store.database import Database
from awa.manifest import LocalView, Queue, local_view
from awa.metrics import SupervisorMetrics
from awa.settings import DatabaseSettings, load_database_settings
from awa_migrations.errors import HistoryChanged

PATIENCE_WITH_OTHERS = timedelta(seconds=15)
"""How long to wait for a short command that has started the server for itself."""
_LOOK_SECONDS = 0.2
_SETTLE_SECONDS = 5.0
_POOL_SIZE = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """What to run. `database_url` is None for the embedded server of the folder."""

    queues: Sequence[Queue]
    manifest_folder: Path
    folder: Path
    database_url: str | None
    pages: str | None = None
    """Where to serve metrics and health, as host:port; None for nowhere."""


@dataclass(frozen=True, slots=True)
class _Crew:
    view: LocalView
    fleet: Fleet
    pilot: Pilot


class LocalRun:
    """One run. `start`, `wait` and `end`, in this order; `end` also after a `start` that failed.

    Raises ManifestError for a manifest that cannot be run here, before anything is started.
    """

    def __init__(self, order: Order, tell: Callable[[Event], None], stop: Stop) -> None:
        for queue in order.queues:
            local_view(queue, "")
        self._order = order
        self._tell = tell
        self._stop = stop
        self._server: EmbeddedPostgres | None = None
        self._database_url = order.database_url
        self._databases: dict[str, Database] = {}
        self._crews: list[_Crew] = []
        self._pilots: list[asyncio.Task[None]] = []
        self._pages = None if order.pages is None else Pages(order.pages)

    @property
    def database_url(self) -> str:
        """Where the queues are. May hold a password."""
        if self._database_url is None:
            raise RuntimeError("the run has no database yet; call start() first")
        return self._database_url

    @property
    def server(self) -> EmbeddedPostgres | None:
        """The embedded server, None where another database is used."""
        return self._server

    @property
    def fleets(self) -> list[Fleet]:
        """The workers, by queue."""
        return [crew.fleet for crew in self._crews]

    async def start(self) -> None:
        """Bring everything up. Raises our errors, and Stopped when a stop was asked for."""
        await self._stop.unless_asked(self._prepare())
        for queue in self._order.queues:
            self._start_crew(queue)
        if self._pages is not None:
            self._pages.watch(self.fleets)

    async def wait(self, work: Coroutine[Any, Any, None] | None = None) -> None:
        """Return when a stop was asked for, or when `work` is done where there is some.

        Raises WorkersFailed, ServerFailed when the server is gone, and what `work` raises.
        """
        waits: list[asyncio.Future[Any]] = [
            asyncio.ensure_future(self._stop.drain.wait()),
            *(crew.fleet.failed for crew in self._crews),
            *self._pilots,
        ]
        if self._server is not None:
            waits.append(asyncio.ensure_future(self._lost(self._server)))
        working = None if work is None else asyncio.ensure_future(work)
        everything = waits if working is None else [*waits, working]
        try:
            done, _ = await asyncio.wait(everything, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for one in {*everything} - {*self._pilots, *(c.fleet.failed for c in self._crews)}:
                await _given_up(one)
        for one in done:
            found = one.result()
            if isinstance(found, Exception):
                raise found

    async def end(self) -> None:
        """Drain and stop everything, whatever state it is in."""
        for pilot in self._pilots:
            await _given_up(pilot)
        if any(crew.fleet.alive for crew in self._crews):
            await self._drain()
        if self._pages is not None:
            await self._pages.close()
        await self._settle()
        for database in self._databases.values():
            await database.close()
        if self._server is not None:
            await self._server.stop()
        self._tell(AllStopped())

    # --- start ----------------------------------------------------------------------------------

    async def _prepare(self) -> None:
        if self._pages is not None:
            self._tell(PagesServed(await self._pages.start()))
        if self._database_url is None:
            self._server = EmbeddedPostgres(self._order.folder)
            await _start_as_owner(self._server)
            self._database_url = self._server.dsn
            self._tell(ServerStarted(self._server))
        for schema in dict.fromkeys(q.spec.database.schema_name for q in self._order.queues):
            settings = _settings(self._database_url, schema)
            report = await self._migrate(settings)
            self._databases[schema] = Database(settings, pool_size=_POOL_SIZE)
            self._tell(SchemaReady(schema, report.to_version, len(report.applied)))
        await self._settle()

    async def _migrate(self, settings: DatabaseSettings) -> awa_migrations.Report:
        try:
            return await awa_migrations.migrate(settings.database_url, schema=settings.schema)
        except HistoryChanged as error:
            if self._server is not None:
                error.add_note(f"To start anew without these data: rm -r {self._order.folder}")
            raise

    def _start_crew(self, queue: Queue) -> None:
        view = local_view(queue, self.database_url)
        name, tell = view.queue_name, self._tell
        state = state_of_queue(self._order.folder, name)
        fleet = Fleet(
            Launch.of(
                view, self._order.manifest_folder, state, serves_pages=self._pages is not None
            ),
            lambda number, line: tell(LineWritten(name, number, line)),
            lambda replica, ended: self._note_end(name, replica, ended),
        )
        database = self._databases[view.schema]
        pilot = Pilot(view, fleet, database, lambda seen: tell(QueueSeen(name, seen)))
        self._crews.append(_Crew(view, fleet, pilot))
        self._pilots.append(asyncio.create_task(pilot.run(), name=f"awa pilot {name}"))
        tell(QueueStarted(view))

    def _note_end(self, queue: str, replica: Replica, ended: Ended) -> None:
        if self._pages is not None:
            self._pages.retire(replica)
        self._tell(WorkerEnded(queue, ended))

    async def _settle(self) -> None:
        """Hand on what dead workers have left; what cannot be now, the next run hands on."""
        for database in self._databases.values():
            for state in states_left(self._order.folder):
                settler = Settler(
                    Database(database.settings, pool_size=1), state, SupervisorMetrics(0)
                )
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(_SETTLE_SECONDS):
                        await settler.settle_all()

    @staticmethod
    async def _lost(server: EmbeddedPostgres) -> ServerFailed:
        await server.wait()
        return ServerFailed("PostgreSQL has ended by itself", server.log)

    # --- end ------------------------------------------------------------------------------------

    async def _drain(self) -> None:
        longest = max(crew.view.drain_timeout for crew in self._crews)
        self._tell(Draining(sum(crew.fleet.alive for crew in self._crews), longest))
        drains = asyncio.gather(*(crew.fleet.drain() for crew in self._crews))
        at_once = asyncio.ensure_future(self._must_hurry())
        await asyncio.wait((drains, at_once), return_when=asyncio.FIRST_COMPLETED)
        if not drains.done():
            self._tell(StoppingAtOnce())
            for crew in self._crews:
                crew.fleet.hurry()
        await drains
        await _given_up(at_once)

    async def _must_hurry(self) -> None:
        """Return when the drain has to be cut short: asked for, or no database to write to."""
        lost = None if self._server is None else asyncio.ensure_future(self._server.wait())
        asked = asyncio.ensure_future(self._stop.at_once.wait())
        waits = {asked} if lost is None else {asked, lost}
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for one in waits:
                one.cancel()


async def _start_as_owner(server: EmbeddedPostgres) -> None:
    """Start the server; a short command that runs it for itself is waited for."""
    server.options = replace(server.options, reuse=False)
    give_up_at = asyncio.get_running_loop().time() + PATIENCE_WITH_OTHERS.total_seconds()
    while True:
        try:
            await server.start()
        except ServerAlreadyRunning:
            if asyncio.get_running_loop().time() > give_up_at:
                raise
            await asyncio.sleep(_LOOK_SECONDS)
        else:
            return


def _settings(database_url: str, schema: str) -> DatabaseSettings:
    return load_database_settings({"AWA_DATABASE_URL": database_url, "AWA_SCHEMA": schema})


async def _given_up(task: asyncio.Future[Any]) -> None:
    """Cancel a task and wait for its end; how it ends does not matter any more."""
    task.cancel()
    await asyncio.wait((task,))
    if not task.cancelled():
        task.exception()
