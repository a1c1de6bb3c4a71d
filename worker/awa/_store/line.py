"""The session of one purpose: its own when the server has room for it, else one of the pool's.

A process can work with one connection, over which claims, outcomes and heartbeats take turns.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from datetime import timedelta
from typing import Any

from awa._store.database import Database
from awa._store.room import (
    FREE_TO_KEEP,
    FREE_TO_OPEN,
    LOOK_SECONDS,
    RETRY_SECONDS,
    SERVER_FULL,
    has_room,
    jittered,
)
from awa._store.sessions import GOODBYE_SECONDS, Session, step
from awa.errors import DatabaseUnreachable


class Line:
    """Steps of one purpose, one after the other, over a session that is replaced when it breaks."""

    def __init__(self, database: Database, purpose: str, limit: timedelta, **settings: str) -> None:
        self._database = database
        self._purpose = purpose
        self._limit = limit
        self._settings = settings
        self._session: Session | None = None
        self._again_at = 0.0
        self._look_at = 0.0

    @property
    def session(self) -> Session | None:
        """The session of its own, if it has one."""
        return self._session

    @asynccontextmanager
    async def step(self) -> AsyncIterator[Any]:
        """Lend a session for statements that belong together."""
        session = await self._own()
        if session is None:
            async with self._database.session(self._limit, **self._settings) as pooled:
                yield pooled
        else:
            async with step(session):
                yield session

    def terminate(self) -> None:
        """Never use the session again."""
        session, self._session = self._session, None
        if session is not None:
            session.terminate()

    async def close(self) -> None:
        """Close the session."""
        session, self._session = self._session, None
        if session is not None:
            with suppress(Exception):
                await session.close(timeout=GOODBYE_SECONDS)

    async def _own(self) -> Session | None:
        now = asyncio.get_running_loop().time()
        needed = FREE_TO_KEEP
        if self._session is None or self._session.is_closed():
            if now < self._again_at:
                return None
            needed = FREE_TO_OPEN
            try:
                self._session = await self._database.dedicated(
                    self._purpose, self._limit, **self._settings
                )
            except DatabaseUnreachable as error:
                if error.sqlstate != SERVER_FULL:
                    raise
                self._session = None
                self._again_at = now + jittered(RETRY_SECONDS)
                return None
        elif now < self._look_at:
            return self._session
        self._look_at = now + jittered(LOOK_SECONDS)
        if await has_room(self._session, self._database.sql, needed):
            return self._session
        self._again_at = now + jittered(RETRY_SECONDS)
        await self.close()
        return None
