"""Find out who blocks a session while it waits: afterwards nobody can tell any more."""

import asyncio
import contextlib
from datetime import timedelta
from types import TracebackType
from typing import Self

from awa_migrations.blocker import Blocker
from awa_migrations.connection import DRIVER_ERRORS, connected
from awa_migrations.errors import MigrationsError


class BlockerWatch:
    """While entered, look from a second connection who blocks the session `pid`.

    The connection is opened only once the first quarter of `wait` has passed, so work that is not
    blocked never opens it. What was seen last stays in `blockers`. When the second connection
    cannot be had, nothing is seen and the work is not disturbed.
    """

    def __init__(self, dsn: str, query: str, pid: int, wait: timedelta) -> None:
        self.blockers: tuple[Blocker, ...] = ()
        self._dsn = dsn
        self._query = query
        self._pid = pid
        self._interval = min(max(wait / 4, timedelta(milliseconds=20)), timedelta(seconds=0.5))
        self._task: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        self._task = asyncio.create_task(self._run(), name="awa_migrations blocker watch")
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])

    async def _run(self) -> None:
        pause = self._interval.total_seconds()
        await asyncio.sleep(pause)
        with contextlib.suppress(MigrationsError, *DRIVER_ERRORS):
            async with connected(self._dsn, timedelta(seconds=10)) as connection:
                while True:
                    rows = await connection.fetch(self._query, self._pid)
                    if rows:
                        self.blockers = tuple(Blocker.of(dict(row)) for row in rows)
                    await asyncio.sleep(pause)
