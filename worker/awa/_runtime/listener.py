"""Being woken instead of asking.

Before a worker sleeps it takes a shared advisory lock of each of its queues in this session, and
looks once more: producers notify only a queue on which somebody sleeps, so a busy queue sends
nothing. The maintenance leader sleeps in the same way, as queue 0. The session proves itself first:
a notification to itself must arrive, else (a pooler in transaction mode) the worker says so once
and polls.
"""

import asyncio
import json
import logging
import secrets
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from awa._runtime.service import Service
from awa._store.database import Database, Session
from awa._store.faults import DRIVER_ERRORS, translated

log = logging.getLogger("awa.listener")

PROBE_SECONDS = 3.0
CHECK_SECONDS = 15.0
_LEADER = 0
"""Stands for no queue."""


class Listener(Service):
    """One session that waits for notifications."""

    name = "listener"

    def __init__(
        self, database: Database, queues: tuple[str, ...], on_cancel: Callable[[int, int], None]
    ) -> None:
        super().__init__()
        self._database = database
        self._queues = queues
        self._on_cancel = on_cancel
        self._session: Session | None = None
        self._queue_ids: list[int] = []
        self._lost = asyncio.Event()
        self._busy = asyncio.Lock()
        self._leader_asleep_since: int | None = None
        self.wake = asyncio.Event()
        self.due = asyncio.Event()
        """Set for the maintenance leader: something may be due soon."""
        self.election = asyncio.Event()
        """Set for those who could lead: nobody does."""
        self.works = False
        self.asleep = False
        self.longest_pause = CHECK_SECONDS

    async def run(self) -> None:
        """Listen until the session breaks; the supervisor calls again."""
        self._lost.clear()
        self._session = session = await self._database.dedicated("listen", statement_timeout="0")
        try:
            with translated():
                await self._listen(session)
                while not self._lost.is_set():
                    self.progressed()
                    with suppress(TimeoutError):
                        async with asyncio.timeout(CHECK_SECONDS):
                            await self._lost.wait()
                            break
                    async with self._busy:
                        await session.fetchval("select 1", timeout=CHECK_SECONDS)
        finally:
            self.works = self.asleep = False
            self._leader_asleep_since = None
            self.wake.set()
            self.due.set()
            self._session = None
            session.terminate()
        raise ConnectionError("the listening session ended")

    async def sleep(self) -> bool:
        """Ask producers to notify; False when that cannot be had and the worker must poll."""
        if self.works and not self.asleep:
            await self._lock("sleep_lock", self._queue_ids)
            self.asleep = self.works
        return self.asleep

    async def awake(self) -> None:
        """Tell producers that nobody needs to be notified."""
        if self.asleep:
            self.asleep = False
            await self._lock("sleep_unlock", self._queue_ids)

    async def leader_sleeps(self) -> int | None:
        """Ask to be notified of what is due soon; None when that cannot be had.

        Return a number above those of all transactions that may not have seen that.
        """
        if self.works and self._leader_asleep_since is None:
            await self._lock("sleep_lock", [_LEADER])
            self._leader_asleep_since = await self._ask("own_transaction")
        return self._leader_asleep_since

    async def leader_awake(self) -> None:
        """Tell everybody that the leader needs not to be notified."""
        if self._leader_asleep_since is not None:
            self._leader_asleep_since = None
            await self._lock("sleep_unlock", [_LEADER])

    async def _lock(self, query: str, ids: list[int]) -> None:
        await self._ask(query, f"'{{{','.join(map(str, ids))}}}'")

    async def _ask(self, query: str, array: str = "") -> Any:
        session = self._session
        if session is None:
            return None
        try:
            with translated():
                async with self._busy:
                    return await session.fetchval(self._database.sql[query].replace("$1", array))
        except Exception as error:  # noqa: BLE001 - polling goes on without the lock
            log.warning("listener session lost", extra={"error": type(error).__name__})
            self.works = self.asleep = False
            self._leader_asleep_since = None
            self._lost.set()
            return None

    async def _listen(self, session: Session) -> None:
        schema = self._database.settings.schema
        rows = await session.fetch(self._database.sql["queue_ids"], list(self._queues))
        self._queue_ids = [row["queue_id"] for row in rows]
        session.add_termination_listener(lambda _: self._lost.set())
        for queue_id in self._queue_ids:
            await session.add_listener(f"{schema}:{queue_id}", self._notified)
        await session.add_listener(f"{schema}:cancel", self._cancelled)
        await session.add_listener(f"{schema}:{_LEADER}", self._told_as_leader)
        self.works = await self._proves_itself(session, schema)
        if not self.works:
            log.warning(
                "notifications do not arrive: the database address leads through a pooler in "
                "transaction mode; the worker polls. Give it a direct address to start jobs at once"
            )

    async def _proves_itself(self, session: Session, schema: str) -> bool:
        arrived = asyncio.Event()
        channel = f"{schema}:probe:{secrets.token_hex(8)}"
        await session.add_listener(channel, lambda *_: arrived.set())
        try:
            await session.execute(f"notify {_quoted(channel)}")
            async with asyncio.timeout(PROBE_SECONDS):
                await arrived.wait()
        except TimeoutError:
            return False
        finally:
            with suppress(*DRIVER_ERRORS):
                await session.execute(f"unlisten {_quoted(channel)}")
        return True

    def _notified(self, *_: Any) -> None:
        self.wake.set()

    def _told_as_leader(self, _session: Any, _pid: int, _channel: str, payload: Any) -> None:
        (self.election if payload == "lead" else self.due).set()

    def _cancelled(self, _session: Any, _pid: int, _channel: str, payload: Any) -> None:
        with suppress(ValueError, KeyError, TypeError):
            said = json.loads(payload)
            self._on_cancel(int(said["job_id"]), int(said["run_lease"]))


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
