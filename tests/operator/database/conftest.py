"""Fixtures of the operator's side of the database."""

from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import pytest

from awa import AsyncClient
from support.command.command import Commands
from support.engine import Engine
from support.pooler import Pool
from support.postgres import Connect, Database, Server
from support.run import Run
from support.watched import Watched, watching

type MakePool = Callable[[Server, str], Pool]


@pytest.fixture
async def engine(database: Database, connect: Connect) -> Engine:
    """The engine of this test's own database, driven by hand."""
    return await Engine(database, connect).open()


@pytest.fixture
async def watched() -> AsyncIterator[Watched]:
    """The operator's poller."""
    async with watching() as found:
        yield found


@pytest.fixture
def role(database: Database) -> Iterator[str]:
    """A role that may log in and nothing else, dropped after the test."""
    name = f"monitor_{database.name}"
    with database.server.admin() as admin:
        admin.execute(f"create role {name} login connection limit 2")
    yield name
    with database.server.admin() as admin:
        database.server.drop_database(database)
        admin.execute(f"drop role {name}")


@pytest.fixture
def make_pool(test_run: Run) -> Iterator[MakePool]:
    """Put a PgBouncer before a server: `make_pool(server, "transaction")`."""
    pools: list[Pool] = []

    def make(server: Server, mode: str) -> Pool:
        pools.append(Pool(test_run.new_path("pgbouncer"), server, mode, 3))
        return pools[-1]

    yield make
    for pool in pools:
        pool.stop()


@pytest.fixture
def make_commands(tmp_path: Path) -> Iterator[Callable[[str], Commands]]:
    """Start `awa worker` on a database address: `make_commands(dsn)`; each has a folder."""
    made: list[Commands] = []

    def make(database_url: str) -> Commands:
        folder = tmp_path / f"commands{len(made)}"
        folder.mkdir()
        made.append(Commands(database_url, folder))
        return made[-1]

    yield make
    for commands in made:
        commands.close()


@pytest.fixture
async def client(database: Database) -> AsyncIterator[AsyncClient]:
    """A client of this test's own database."""
    async with AsyncClient(database.dsn, 4) as opened:
        yield opened
