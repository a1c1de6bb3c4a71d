"""One connection, with everything that can go wrong with it said in our own words."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import timedelta
from urllib.parse import urlsplit

import asyncpg
import asyncpg.pool

from awa_migrations.errors import (
    DatabaseUnavailable,
    InvalidDatabaseUrl,
    PoolerUnsupported,
    ServerTooOld,
)
from awa_migrations.faults import connect_error

type Connection = (
    asyncpg.Connection[asyncpg.Record] | asyncpg.pool.PoolConnectionProxy[asyncpg.Record]
)

OLDEST_SERVER = 15
APPLICATION_NAME = "awa_migrations"

# What the driver raises when a server, a network or a statement fails.
DRIVER_ERRORS = (
    asyncpg.PostgresError,
    asyncpg.InterfaceError,
    asyncpg.InternalClientError,
    OSError,
    EOFError,
)


@dataclass(frozen=True, slots=True)
class Limits:
    """How long each part may take.

    `lock` bounds every single wait for a lock; None keeps the session's own lock_timeout and means
    2 s when it has none. A lock that is not granted is asked for `lock_attempts` times in all, with
    a pause as long as the wait, in which everybody who queued behind it goes on. `statement` bounds
    one statement, `other_migrator` the wait for another migrator of the same schema.
    """

    lock: timedelta | None = None
    lock_attempts: int = 3
    statement: timedelta = timedelta(hours=1)
    connect: timedelta = timedelta(seconds=10)
    other_migrator: timedelta = timedelta(seconds=60)


DEFAULT_LIMITS = Limits()


@contextlib.asynccontextmanager
async def connected(dsn: str, connect_limit: timedelta) -> AsyncIterator[Connection]:
    """Open a connection to a supported server, and close it whatever happens.

    Works through a pooler too: nothing is prepared by name and nothing is set for the session.
    """
    connection = await _connect(dsn, connect_limit)
    try:
        require_supported(connection)
        yield connection
        # What was to be done is done; a good-bye that fails changes nothing.
        with contextlib.suppress(*DRIVER_ERRORS):
            await connection.close(timeout=connect_limit.total_seconds())
    except DatabaseUnavailable:
        if await _hangs_up_on_begin(dsn, connect_limit):
            raise PoolerUnsupported from None
        raise
    finally:
        if not connection.is_closed():
            connection.terminate()


def require_supported(connection: Connection) -> None:
    """Raise ServerTooOld when the server is older than the oldest supported PostgreSQL."""
    version = connection.get_server_version()
    if version.major < OLDEST_SERVER:
        # Since version 10 the first number alone names a release.
        name = f"{version.major}" if version.major >= 10 else f"{version.major}.{version.minor}"
        raise ServerTooOld(name, OLDEST_SERVER)


async def _hangs_up_on_begin(dsn: str, connect_limit: timedelta) -> bool:
    """Whether this is a pooler in statement mode.

    It closes the connection right after its error, so the driver reports a lost connection. A new
    one that answers a statement and is lost again at BEGIN tells the two apart.
    """
    with contextlib.suppress(DatabaseUnavailable, *DRIVER_ERRORS):
        async with asyncio.timeout(connect_limit.total_seconds()):
            connection = await _connect(dsn, connect_limit)
            try:
                await connection.execute("select 1")
                with contextlib.suppress(*DRIVER_ERRORS):
                    await connection.execute("begin")
                return connection.is_closed()
            finally:
                connection.terminate()
    return False


async def _connect(dsn: str, limit: timedelta) -> Connection:
    _require_url(dsn)
    failure: Exception
    try:
        return await asyncpg.connect(
            dsn,
            timeout=limit.total_seconds(),
            statement_cache_size=0,
            server_settings={"application_name": APPLICATION_NAME},
        )
    except (*DRIVER_ERRORS, ValueError) as error:
        failure = connect_error(error)
    # Raised out here, so that no driver error that quotes the URL is chained to it.
    raise failure


def _require_url(dsn: str) -> None:
    try:
        scheme = urlsplit(dsn).scheme
    except ValueError:
        scheme = ""
    if scheme not in {"postgresql", "postgres"}:
        raise InvalidDatabaseUrl("it does not start with postgresql://")
