"""Being woken instead of asking.

Before a worker sleeps it takes a shared advisory lock of each of its queues in this session, and
looks once more: producers notify only a queue on which somebody sleeps, so a busy queue sends
nothing. The maintenance leader sleeps in the same way, as queue 0.

The session proves itself first: what another session notifies must arrive. Where it does
not (a pooler in transaction mode) the worker says so once, holds no session for it, and polls; it
tries again every now and then. Sent from the same session it would prove nothing: a pooler hands on
what arrives while the sender still has the server's session.

A server whose connections are nearly all in use gets this one back, and the worker polls.

The session is asked for an answer every `CHECK_SECONDS`, so that one whose other end is gone is
replaced before anybody relies on it for long. Its successor ends what is left of it on the server,
which would go on holding the locks.
"""

import asyncio
import json
import logging
import secrets
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from typing import Any

from awa._runtime.service import Service
from awa._store.database import Database, Session, step
from awa._store.faults import DRIVER_ERRORS, translated
from awa._store.room import (
    FREE_TO_KEEP,
    FREE_TO_OPEN,
    RETRY_SECONDS,
    SERVER_FULL,
    has_room,
    jittered,
)
from awa._store.sessions import PEER_SECONDS
from awa.errors import AwaError, DatabaseUnreachable

log = logging.getLogger("awa.listener")

ANSWER_LIMIT = timedelta(seconds=5)
"""How long this session waits for an answer: everything in it takes no time at all."""
PROBE_SECONDS = 3.0
CHECK_SECONDS = 5.0
DEAF_RETRY_SECONDS = 60.0
SHARED_RETRY_SECONDS = 600.0
"""Rarely, because each try may leave a LISTEN behind in a session of the pooler's."""
_LEADER = 0
"""Stands for no queue."""


class Listener(Service):
    """One session that waits for notifications."""

    name = "listener"

    def __init__(
        self,
        database: Database,
        queues: tuple[str, ...],
        on_cancel: Callable[[int, int], None],
        patience: timedelta,
    ) -> None:
        super().__init__()
        self._patience = patience
        self._database = database
        self._queues = queues
        self._on_cancel = on_cancel
        self._session: Session | None = None
        self._queue_ids: list[int] = []
        self._lost = asyncio.Event()
        self._busy = asyncio.Lock()
        self._leader_asleep_since: int | None = None
        self._is_leader_locked = False
        self.wake = asyncio.Event()
        self.due = asyncio.Event()
        """Set for the maintenance leader: something may be due soon."""
        self.election = asyncio.Event()
        """Set for those who could lead: nobody does."""
        self.works = False
        self.asleep = False
        self.longest_pause = CHECK_SECONDS
        self._has_said = False
        self._backend: tuple[object, ...] | None = None
        """The server's process of the last session that worked."""

    async def run(self) -> None:
        """Listen until the session breaks; the supervisor calls again."""
        while True:
            pause = await self._listen()
            until = asyncio.get_running_loop().time() + pause
            while asyncio.get_running_loop().time() < until:
                self.progressed()
                await asyncio.sleep(CHECK_SECONDS)

    async def _listen(self) -> float:
        """Listen for as long as it works; return when to try again where nothing arrives."""
        self._lost.clear()
        rows = await self._database.fetch("queue_ids", list(self._queues), limit=ANSWER_LIMIT)
        self._queue_ids = [row["queue_id"] for row in rows]
        try:
            session = await self._database.listening(ANSWER_LIMIT)
        except DatabaseUnreachable as error:
            if error.sqlstate != SERVER_FULL:
                raise
            return jittered(RETRY_SECONDS)
        session.add_termination_listener(lambda _: self._lost.set())
        try:
            with translated():
                await self._end_former()
                if not session.is_shared:
                    # At once, so that as few cancels as can be are missed.
                    await self._subscribe(session)
                if not await has_room(session, self._database.sql, FREE_TO_OPEN):
                    return jittered(RETRY_SECONDS)
                if not await self._proves_itself(session):
                    self._say_it_polls()
                    return SHARED_RETRY_SECONDS if session.is_shared else DEAF_RETRY_SECONDS
                if session.is_shared:
                    await self._subscribe(session)
                self._session, self.works, self._has_said = session, True, False
                self.wake.set()  # who polls until now may go to sleep
                if not await self._stays(session):
                    return jittered(RETRY_SECONDS)
        finally:
            self.works = self.asleep = self._is_leader_locked = False
            self._leader_asleep_since = None
            self.wake.set()
            self.due.set()
            self._session = None
            session.terminate()
        raise ConnectionError("the listening session ended")

    async def _stays(self, session: Session) -> bool:
        """Ask for an answer every so often; False when others need the connection more."""
        while not self._lost.is_set():
            self.progressed()
            with suppress(TimeoutError):
                async with asyncio.timeout(CHECK_SECONDS):
                    await self._lost.wait()
                    return True
            async with self._busy, step(session):
                if not await has_room(session, self._database.sql, FREE_TO_KEEP):
                    return False
                await session.execute("select")
        return True

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
            self._is_leader_locked = True  # before it is: who is interrupted may have got it
            await self._lock("sleep_lock", [_LEADER])
            self._leader_asleep_since = await self._ask("own_transaction")
        return self._leader_asleep_since

    async def leader_awake(self) -> None:
        """Tell everybody that the leader needs not to be notified."""
        self._leader_asleep_since = None
        if self._is_leader_locked:
            await self._lock("sleep_unlock", [_LEADER])
            self._is_leader_locked = False

    async def _lock(self, query: str, ids: list[int]) -> None:
        await self._ask(query, f"'{{{','.join(map(str, ids))}}}'")

    async def _ask(self, query: str, array: str = "") -> Any:
        session = self._session
        if session is None:
            return None
        try:
            with translated():
                async with self._busy:
                    # All rows: a function of the rows that are not asked for is not called.
                    rows = await session.fetch(self._database.sql[query].replace("$1", array))
                    return rows[0][0] if rows else None
        except Exception as error:  # noqa: BLE001 - polling goes on without the lock
            log.warning("listener session lost", extra={"error": type(error).__name__})
            self.works = self.asleep = False
            self._leader_asleep_since = None
            self._lost.set()
            return None

    async def _subscribe(self, session: Session) -> None:
        schema = self._database.settings.schema
        async with step(session):
            for queue_id in self._queue_ids:
                await session.add_listener(f"{schema}:{queue_id}", self._notified)
            await session.add_listener(f"{schema}:cancel", self._cancelled)
            await session.add_listener(f"{schema}:{_LEADER}", self._told_as_leader)
            own = await session.fetchrow(self._database.sql["own_backend"])
            self._backend = None if own is None else tuple(own)
            # A process that is suspended reads nothing, and the server would wait for it in the
            # middle of a transaction that keeps vacuum out, for ever. Half the time after which
            # the process counts as dead, as the system looks at growing intervals: up to twice.
            seconds = min(self._patience.total_seconds() / 2, PEER_SECONDS)
            limit = str(int(seconds * 1000))
            await session.fetchval(self._database.sql["give_up_after"], limit)

    async def _end_former(self) -> None:
        former, self._backend = self._backend, None
        if former is not None:
            with suppress(AwaError):
                await self._database.fetch("end_backend", *former, limit=ANSWER_LIMIT)

    async def _proves_itself(self, session: Session) -> bool:
        arrived = asyncio.Event()
        channel = f"{self._database.settings.schema}:probe:{secrets.token_hex(8)}"
        async with step(session):
            await session.add_listener(channel, lambda *_: arrived.set())
        await self._database.fetch("notify", channel, limit=ANSWER_LIMIT)
        with suppress(TimeoutError):
            async with asyncio.timeout(PROBE_SECONDS):
                await arrived.wait()
        with suppress(*DRIVER_ERRORS):
            await session.execute(f'unlisten "{channel}"')
        return arrived.is_set()

    def _say_it_polls(self) -> None:
        if not self._has_said:
            self._has_said = True
            log.warning(
                "notifications do not arrive: the database address leads through a pooler in "
                "transaction mode; the worker polls. To start jobs at once, give it the server's "
                "own address in AWA_LISTEN_URL"
            )

    def _notified(self, *_: Any) -> None:
        self.wake.set()

    def _told_as_leader(self, _session: Any, _pid: int, _channel: str, payload: Any) -> None:
        (self.election if payload == "lead" else self.due).set()

    def _cancelled(self, _session: Any, _pid: int, _channel: str, payload: Any) -> None:
        with suppress(ValueError, KeyError, TypeError):
            said = json.loads(payload)
            self._on_cancel(int(said["job_id"]), int(said["run_lease"]))
