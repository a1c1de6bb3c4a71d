"""Connections: one pool for short calls, and single sessions with a purpose.

A process uses the pool (client calls and maintenance) and, when it works, three sessions of its
own: claims, finishes, and the listener. Claims commit without waiting for the disk: a claim that a
server crash takes back never happened, and its token turns away whoever still runs it. Every
statement has a limit here and on the server, so that nothing outlives a client that has given up.
How sessions are opened, and what a pooler changes, is in `sessions`.
"""

import asyncio
import functools
import logging
import os
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from datetime import timedelta
from typing import Any

import asyncpg

from awa._store.faults import DRIVER_ERRORS, NEEDED_VERSION, translated
from awa._store.room import (
    FREE_TO_KEEP,
    FREE_TO_OPEN,
    LOOK_SECONDS,
    RETRY_SECONDS,
    has_room,
    jittered,
)
from awa._store.sessions import (
    CLIENT_MARGIN_SECONDS,
    GOODBYE_SECONDS,
    Session,
    SessionMaker,
    step,
)
from awa.errors import (
    AwaError,
    DatabaseUnreachable,
    SchemaNotMigrated,
    SchemaTooNew,
    ValidationError,
)
from awa.settings import DatabaseSettings
from awa_migrations import InvalidSchemaName, SchemaName, load_queries, packaged_catalog

log = logging.getLogger("awa.database")

NO_ROOM = "the server has no room for one more"
IDLE_SECONDS = 35.0
"""How long a pooled session may be idle; a heartbeat's, every 30 s by default, is not."""
_SQL_FILES = ("jobs", "liveness", "maintenance", "admin")


class Database:
    """The database of one client or worker. Opens at first use, and again in a forked child."""

    def __init__(self, settings: DatabaseSettings, *, pool_size: int | None = None) -> None:
        self.settings = settings
        self.sql = load_statements(settings.schema)
        self._pool_size = pool_size or settings.max_connections
        self._sessions = self._listening = SessionMaker(settings.database_url, settings)
        if settings.listen_url is not None:
            self._listening = SessionMaker(settings.listen_url, settings)
        self._pool: asyncpg.Pool[asyncpg.Record] | None = None
        self._opening = asyncio.Lock()
        self._growing = asyncio.Lock()
        self._grows_at = self._looks_at = 0.0
        self._owner: tuple[int, asyncio.AbstractEventLoop] | None = None

    async def pool(self) -> "asyncpg.Pool[asyncpg.Record]":
        """Return the open pool; raise our errors when it cannot be opened.

        A pool belongs to one process and one event loop. In a forked child, or when its loop has
        ended, the client starts afresh; what it had is left alone, as it may be the parent's.
        """
        owner = (os.getpid(), asyncio.get_running_loop())
        if self._owner != owner:
            self._let_go(owner)
        async with self._opening:
            if self._pool is None:
                with translated():
                    self._pool = await asyncpg.create_pool(
                        connect=self._pooled,
                        connection_class=Session,
                        min_size=0,
                        max_size=self._pool_size,
                        max_inactive_connection_lifetime=IDLE_SECONDS,
                        reset=_keep,
                    )
            return self._pool

    async def _pooled(self, *_: object, **driver: Any) -> Session:
        """Open one more session for the pool, unless that has one and others have none.

        One after the other, so that calls which come at the same moment do not all open one.
        """
        async with self._growing:
            now = asyncio.get_running_loop().time()
            if self._has_one and now < self._grows_at:
                raise asyncpg.TooManyConnectionsError(NO_ROOM)
            limit = self.settings.statement_timeout
            session = await self._sessions.open("awa", limit, {}, **driver)
            try:
                if self._has_one and not await has_room(session, self.sql, FREE_TO_OPEN):
                    self._grows_at = now + jittered(RETRY_SECONDS)
                    raise asyncpg.TooManyConnectionsError(NO_ROOM)
            except BaseException:
                session.terminate()
                raise
            return session

    @property
    def _has_one(self) -> bool:
        pool = self._pool
        return pool is not None and pool.get_size() > 0

    def _let_go(self, owner: tuple[int, asyncio.AbstractEventLoop]) -> None:
        if self._pool is not None and self._owner is not None:
            process, loop = self._owner
            if process == owner[0] and not loop.is_closed():
                raise ValidationError(
                    "this client is in use in another event loop; make one client for each loop"
                )
            if process != owner[0]:
                leave_to_parent(self._pool)
        self._pool, self._owner = None, owner
        self._opening, self._growing = asyncio.Lock(), asyncio.Lock()

    @asynccontextmanager
    async def lend(self) -> AsyncIterator[Any]:
        """Lend a pooled session; what the block raises leaves it as it is."""
        pool = await self.pool()
        limit = self.settings.statement_timeout.total_seconds()
        with translated():
            try:
                session = await _acquired(pool, limit)
            except TimeoutError as error:
                if pool.get_size() < self._pool_size or pool.get_idle_size():
                    raise
                raise DatabaseUnreachable(
                    f"none of the client's {self._pool_size} connections came free within "
                    f"{limit:g} s; raise max_connections, or end transactions sooner"
                ) from error
        try:
            yield session
            await self._close_if_needed_elsewhere(pool, session)
        except (DatabaseUnreachable, asyncio.CancelledError, *DRIVER_ERRORS):
            # The driver may go on thinking that a statement runs, for ever: nobody gets it again.
            with suppress(*DRIVER_ERRORS):
                session.terminate()
            raise
        finally:
            with suppress(*DRIVER_ERRORS):  # one that cannot be released is closed by the pool
                await pool.release(session)

    async def _close_if_needed_elsewhere(self, pool: "asyncpg.Pool[Any]", session: Any) -> None:
        """Close a session that was lent when others need it more; the last one is kept."""
        now = asyncio.get_running_loop().time()
        if pool.get_size() < 2 or now < self._looks_at:
            return
        self._looks_at = now + jittered(LOOK_SECONDS)
        try:
            async with asyncio.timeout(GOODBYE_SECONDS):
                if await has_room(session, self.sql, FREE_TO_KEEP):
                    return
                self._looks_at, self._grows_at = now, now + jittered(RETRY_SECONDS)
                await session.close()
        except (AwaError, *DRIVER_ERRORS):  # what it was lent for went well all the same
            with suppress(*DRIVER_ERRORS):
                session.terminate()

    @asynccontextmanager
    async def session(self, limit: timedelta | None = None, **settings: str) -> AsyncIterator[Any]:
        """Lend a pooled session for statements of ours; the driver's errors become ours.

        With a `limit` they are one transaction, which the server ends after it, and so do we;
        `settings` hold in it.
        """
        seconds = None
        if limit is not None:
            limit = min(limit, self.settings.statement_timeout)
            seconds = limit.total_seconds() + CLIENT_MARGIN_SECONDS
        try:
            with translated():
                async with asyncio.timeout(seconds), self.lend() as session:
                    with translated():
                        async with step(session, limit, **settings):
                            yield session
        except SchemaNotMigrated as error:
            if error.found is None:
                await self._name_version()
            raise

    async def _name_version(self) -> None:
        """Raise what is wrong with the schema more exactly, if that can be told."""
        async with self.lend() as session:
            with suppress(asyncpg.PostgresError):
                async with step(session):
                    await self._required(session)

    async def fetch(
        self, query: str, *values: object, limit: timedelta | None = None
    ) -> list[asyncpg.Record]:
        """Run a named query on a pooled session."""
        async with self.session(limit) as session:
            rows: list[asyncpg.Record] = await session.fetch(self.sql[query], *values)
            return rows

    async def value(self, query: str, *values: object) -> Any:
        """Run a named query that answers one value."""
        async with self.session() as session:
            return await session.fetchval(self.sql[query], *values)

    async def dedicated(
        self, purpose: str, limit: timedelta | None = None, **server_settings: str
    ) -> Session:
        """Open a session of the caller's own, named after its purpose in pg_stat_activity.

        Statements go inside a `step`: the session may be a shared one.
        """
        limit = min(limit or self.settings.statement_timeout, self.settings.statement_timeout)
        with translated():
            return await self._sessions.open(f"awa {purpose}", limit, server_settings)

    async def listening(self, limit: timedelta) -> Session:
        """Open a session to listen in: at the address for that, if there is one."""
        with translated():
            return await self._listening.open("awa listen", limit, {})

    async def require_schema(self) -> int:
        """Return the schema's version; raise when it is missing, too old or too new.

        A newer schema that only added to what this release knows is not too new.
        """
        async with self.lend() as session:
            with translated():
                async with step(session):
                    return await self._required(session)

    async def _required(self, session: Session) -> int:
        table = f"{self.settings.schema}.schema_version"
        if not await session.fetchval("select to_regclass($1) is not null", table):
            raise SchemaNotMigrated(None, NEEDED_VERSION)
        row: Any = await session.fetchrow(self.sql["schema_version"], newest_version())
        found = row["version"]
        if found is None or found < NEEDED_VERSION:
            raise SchemaNotMigrated(found, NEEDED_VERSION)
        if row["took_away"]:
            raise SchemaTooNew(found, newest_version())
        return int(found)

    async def arrive(self) -> None:
        """Settle the tables if they came from another cluster; until then claims are refused."""
        async with self.session() as session:
            found = await session.fetchrow(self.sql["arrive"])
        if found["moved"]:
            log.warning(
                "the database is another cluster or timeline than before; settled in it",
                extra={
                    "incarnation": found["incarnation"],
                    "sequences_raised": found["raised"],
                    "missing_numbers": found["holes"],
                },
            )

    async def engine(self) -> str:
        """Return which engine this is, as a file name: another one for each schema ever made."""
        found = await self.value("engine")
        if found is None:
            raise SchemaNotMigrated(None, NEEDED_VERSION)
        return str(found)

    async def answers(self, limit: timedelta) -> bool:
        """Whether the database answers within a limit."""
        try:
            async with asyncio.timeout(limit.total_seconds()), self.session() as session:
                await session.execute("select")
        except (AwaError, TimeoutError):
            return False
        return True

    async def close(self) -> None:
        """Close the pool; the next use opens a new one."""
        owner = (os.getpid(), asyncio.get_running_loop())
        if self._owner != owner:
            self._let_go(owner)
        pool, self._pool = self._pool, None
        if pool is not None:
            try:
                async with asyncio.timeout(5):
                    await pool.close()
            except DRIVER_ERRORS:  # the server is gone, and nobody is left to say goodbye to
                pool.terminate()


@functools.cache
def newest_version() -> int:
    """Return the schema version that this release's migrations lead to."""
    return packaged_catalog().latest


async def _acquired(pool: "asyncpg.Pool[asyncpg.Record]", limit: float) -> Any:
    """Take a session; when the server has no room for one more, wait for one that the pool has."""
    loop = asyncio.get_running_loop()
    until = loop.time() + limit
    while True:
        try:
            return await pool.acquire(timeout=max(until - loop.time(), 0.001))
        except asyncpg.TooManyConnectionsError:
            if not pool.get_size() or loop.time() > until:
                raise
            await asyncio.sleep(random.uniform(0.01, 0.05))  # noqa: S311 - so that others get one


async def _keep(session: object) -> None:
    """Leave a released session as it is: our statements change nothing that outlives them.

    A round trip saved for every call. Who ran statements of others resets the session itself.
    """


_abandoned: list[object] = []


def leave_to_parent(connections: object) -> None:
    """Keep, in a forked child, what the parent goes on using: nothing is collected and closed."""
    _abandoned.append(connections)


@functools.cache
def load_statements(schema: str) -> dict[str, str]:
    """Return every named query of the store, ready for `schema`; shared, so not to be changed.

    Raises `ValidationError` for a name that no schema can have.
    """
    try:
        SchemaName(schema)
    except InvalidSchemaName as error:
        raise ValidationError(str(error)) from error
    found: dict[str, str] = {}
    for name in _SQL_FILES:
        found |= load_queries("awa._store", f"sql/{name}.sql", schema)
    return found


def backoff_seconds(failures: int, limit: float = 5.0) -> float:
    """Return how long to wait before the next try after `failures` in a row; jittered."""
    return min(limit, 0.05 * 2.0 ** min(failures, 10)) * random.uniform(0.5, 1.0)  # noqa: S311


__all__ = ["Database", "Session", "backoff_seconds", "load_statements", "step"]
