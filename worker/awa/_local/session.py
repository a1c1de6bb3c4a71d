"""The launcher's own sessions: they prove that one can log in, and make the database."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta

import asyncpg

from awa._local.cluster import DATABASE, SUPERUSER, Address, Cluster
from awa._local.errors import PasswordLost, ServerFailed

CONNECT_LIMIT = timedelta(seconds=30)


async def ensure_database(address: Address, ours: Cluster) -> None:
    """Make our database if it is missing. For the owner of the server.

    Raises PasswordLost or ServerFailed, as does `check_database`.
    """
    async with _session(address, ours, "postgres") as session:
        if not await session.fetch("select from pg_database where datname = $1", DATABASE):
            await session.execute(f"create database {DATABASE}")


async def check_database(address: Address, ours: Cluster) -> None:
    """Prove that one can log in to our database, which its owner may not have made yet."""
    async with _session(address, ours, DATABASE) as session:
        await session.execute("select")


@asynccontextmanager
async def _session(
    address: Address, ours: Cluster, database: str
) -> AsyncIterator[asyncpg.Connection]:
    try:
        async with asyncio.timeout(CONNECT_LIMIT.total_seconds()):
            session = await asyncpg.connect(
                host=str(address.socket_folder),
                port=address.port,
                user=SUPERUSER,
                password=address.password,
                database=database,
            )
            try:
                yield session
            finally:
                await session.close()
    except asyncpg.InvalidPasswordError as error:
        raise PasswordLost(ours.password_file) from error
    except (asyncpg.PostgresError, OSError, TimeoutError) as error:
        what = f"no connection to PostgreSQL ({type(error).__name__})"
        raise ServerFailed(what, ours.log) from error
