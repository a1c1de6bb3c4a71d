"""Clients of the test's own database, and servers that are none."""

import asyncio
from collections.abc import AsyncIterator, Iterator

import asyncpg
import psycopg
import pytest

from awa import AsyncClient
from support.clients import MakeClient
from support.impostor import Answer, Serve
from support.postgres import Connect, Database


@pytest.fixture
async def make_client(database: Database) -> AsyncIterator[MakeClient]:
    """Make clients: `make_client(max_connections=1)`, closed after the test."""
    made: list[AsyncClient] = []

    def make(dsn: str | None = None, max_connections: int = 4, **options: str) -> AsyncClient:
        made.append(AsyncClient(dsn or database.dsn, max_connections, **options))
        return made[-1]

    yield make
    for client in made:
        await client.close()


@pytest.fixture
def client(make_client: MakeClient) -> AsyncClient:
    """A client of the test's own database."""
    return make_client()


@pytest.fixture
async def session(connect: Connect, database: Database) -> asyncpg.Connection:
    """A session beside the client's."""
    return await connect(database.dsn)


@pytest.fixture
async def serve() -> AsyncIterator[Serve]:
    """Listen in place of PostgreSQL; returns the address, whose password is `s3cret`."""
    servers: list[asyncio.Server] = []

    async def start(answer: Answer) -> str:
        servers.append(await asyncio.start_server(answer, "127.0.0.1", 0))
        port = servers[-1].sockets[0].getsockname()[1]
        return f"postgresql://app:s3cret@127.0.0.1:{port}/app?sslmode=disable"

    yield start
    for server in servers:
        server.close()
        await server.wait_closed()


@pytest.fixture
def app(database: Database) -> Iterator[str]:
    """The address of a role that may use the schema, and nothing in it beyond its functions."""
    name = f"app_{database.name}"
    with psycopg.connect(database.dsn, autocommit=True) as admin:
        admin.execute(f"create role {name} login")
        admin.execute(f"grant usage on schema awa to {name}")
        admin.execute(f"grant execute on all functions in schema awa to {name}")
    yield database.server.dsn(database.name, user=name)
    with psycopg.connect(database.dsn, autocommit=True) as admin:
        admin.execute(f"drop owned by {name} cascade")
        admin.execute(f"drop role {name}")
