"""Sessions: how one is opened, what holds in it, and what is different behind a pooler.

A session of the server's own is told at its start what holds in it. A pooler in transaction mode
refuses that, or forgets it, and gives every transaction whichever server session is free: what was
prepared by name is not there, and what is set or locked stays with somebody else. It shows, because
the process that answers is not the one that the connection was greeted by. Such a session is
*shared*: nothing is prepared by name in it, and each `step` is a transaction that sets what it
needs for itself. A pooler in session mode looks the same and works the same.

Half-open connections: the server and this side both give up on a peer that is silent for
`PEER_SECONDS`, and every statement has a limit on both sides.
"""

import asyncio
import socket
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import asyncpg

from awa._store.faults import DRIVER_ERRORS, refuses_settings, translated
from awa.errors import DatabaseTooOld, DatabaseUnreachable
from awa.settings import DatabaseSettings

if TYPE_CHECKING:
    Connection = asyncpg.Connection[asyncpg.Record]
else:
    Connection = asyncpg.Connection

OLDEST_SERVER = 15
PEER_SECONDS = 20
"""How long the other end may leave data or a keepalive unacknowledged before it counts as gone."""
KEEPALIVE_IDLE_SECONDS = 10
KEEPALIVE_INTERVAL_SECONDS = 3
KEEPALIVE_COUNT = 3
CLIENT_MARGIN_SECONDS = 1.0
"""How much longer this side waits than the server: it has ended the statement by then."""
GOODBYE_SECONDS = 0.75

_PEER_SETTINGS = {
    "tcp_keepalives_idle": str(KEEPALIVE_IDLE_SECONDS),
    "tcp_keepalives_interval": str(KEEPALIVE_INTERVAL_SECONDS),
    "tcp_keepalives_count": str(KEEPALIVE_COUNT),
    "tcp_user_timeout": str(PEER_SECONDS * 1000),
}


class Session(Connection):
    """A connection that knows whether its server session is its own."""

    __slots__ = ("local", "socket")

    def __init__(self, protocol: Any, transport: Any, *rest: Any, **named: Any) -> None:
        super().__init__(protocol, transport, *rest, **named)
        self.socket = transport.get_extra_info("socket")
        self.local: dict[str, str] | None = None
        """What each transaction has to set when the session is shared, None when it is not."""
        _watch_peer(self.socket)

    @property
    def is_shared(self) -> bool:
        """Whether every transaction may meet another session of the server."""
        return self.local is not None


class SessionMaker:
    """Opens sessions of one address, and remembers when it leads to a pooler."""

    def __init__(self, address: str, settings: DatabaseSettings) -> None:
        self._address = address
        self._settings = settings
        self._is_shared = False

    async def open(
        self, name: str, limit: timedelta, server_settings: Mapping[str, str], **driver: Any
    ) -> Session:
        """Open a session whose statements the server ends after `limit`.

        Raises the driver's errors, and `DatabaseTooOld`.
        """
        settings = {
            "search_path": "",
            "jit": "off",
            "statement_timeout": _milliseconds(limit),
            "idle_in_transaction_session_timeout": "0",
            **server_settings,
        }
        if not self._is_shared:
            session = await self._open_own(name, limit, settings, driver)
            if session is not None:
                return session
            self._is_shared = True
        session = await self._connect(
            limit, {"application_name": name}, {**driver, "statement_cache_size": 0}
        )
        session.local = settings
        return session

    async def _open_own(
        self, name: str, limit: timedelta, settings: dict[str, str], driver: dict[str, Any]
    ) -> Session | None:
        """Open a session of the server's own; None when there is a pooler in between."""
        at_start = {"application_name": name, **settings, **_PEER_SETTINGS}
        try:
            session = await self._connect(limit, at_start, driver)
        except asyncpg.PostgresError as error:
            if refuses_settings(error):
                return None
            raise
        greeted_by = session.get_server_pid()
        try:
            # A simple statement: no pooler can take it apart. The answer tells how many rows.
            found = await session.execute(f"select where pg_backend_pid() = {greeted_by}")
        except BaseException:
            session.terminate()
            raise
        if found == "SELECT 1":
            return session
        with suppress(*DRIVER_ERRORS):
            await session.close(timeout=GOODBYE_SECONDS)
        return None

    async def _connect(
        self, limit: timedelta, at_start: dict[str, str], driver: dict[str, Any]
    ) -> Session:
        session: Session = await asyncpg.connect(
            dsn=self._address,
            timeout=self._settings.connect_timeout.total_seconds(),
            command_timeout=limit.total_seconds() + CLIENT_MARGIN_SECONDS,
            server_settings=at_start,
            **{**driver, "connection_class": Session},
        )
        found = session.get_server_version().major
        if found < OLDEST_SERVER:
            session.terminate()
            raise DatabaseTooOld(found, OLDEST_SERVER)
        return session


@asynccontextmanager
async def step(session: Any, limit: timedelta | None = None, **more: str) -> AsyncIterator[None]:
    """Run statements that belong together; a `limit` of their own holds on the server too.

    `more` is what else they set for themselves, with a limit.

    In a session of the server's own, and without a limit, this is nothing at all. In a shared one
    it is a transaction that sets what holds in it. A session that broke is ended, not asked to roll
    back.
    """
    local = session.local
    if local is None and limit is None:
        yield
        return
    given = {**(local or {}), **more}
    if limit is not None:
        given["statement_timeout"] = _milliseconds(limit)
    # Its statements follow one another at once. If they do not, this side is gone, and its locks
    # would keep the next try waiting.
    given["idle_in_transaction_session_timeout"] = given["statement_timeout"]
    transaction = session.transaction()
    with translated():
        await transaction.start()
    try:
        await set_local(session, given)
        yield
    except BaseException as error:
        with suppress(*DRIVER_ERRORS):
            if isinstance(error, (DatabaseUnreachable, asyncio.CancelledError, OSError)):
                session.terminate()
            else:
                await transaction.rollback()
        raise
    with translated():
        await transaction.commit()


async def set_local(session: Any, settings: Mapping[str, str] | None) -> None:
    """Set for the transaction that is open what it needs for itself."""
    if settings:
        parts = (f"set local {name} = '{value}'" for name, value in settings.items())
        with translated():
            await session.execute("; ".join(parts))


def _milliseconds(limit: timedelta) -> str:
    return str(int(limit.total_seconds() * 1000))


def _watch_peer(found: Any) -> None:
    """Have the kernel notice that the other end is gone, where the system can."""
    if found is None or found.family not in {socket.AF_INET, socket.AF_INET6}:
        return
    found.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    options = {
        "TCP_KEEPIDLE": KEEPALIVE_IDLE_SECONDS,
        "TCP_KEEPINTVL": KEEPALIVE_INTERVAL_SECONDS,
        "TCP_KEEPCNT": KEEPALIVE_COUNT,
        "TCP_USER_TIMEOUT": PEER_SECONDS * 1000,
    }
    for option, value in options.items():
        if hasattr(socket, option):
            with suppress(OSError):
                found.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), value)
