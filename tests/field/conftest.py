"""Fixtures of the field cases: fleets of workers whose runs are counted outside of the database.

Some have real pods: these call a switchboard of the test, or have a database server of their own.
"""

import secrets
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import pytest

import awa
from cluster.databases import KubeDatabase, OwnServer, settings_for, start_for_pods
from cluster.handle import Cluster
from support.engine import Engine
from support.fleet.fleet import Fleet
from support.holding import Switchboard, switchboard
from support.pooler import Pool
from support.postgres import Connect, Database, Server
from support.run import Run

type MakeFleet = Callable[[Database], Fleet]
type MakePool = Callable[..., Pool]


@pytest.fixture
async def make_fleet(tmp_path: Path) -> AsyncIterator[MakeFleet]:
    """Make the fleet of a database; its workers end with the test."""
    made: list[Fleet] = []

    def make(database: Database) -> Fleet:
        folder = tmp_path / f"fleet{len(made)}"
        folder.mkdir()
        made.append(Fleet(database.dsn, folder))
        return made[-1]

    yield make
    for fleet in made:
        await fleet.close()


@pytest.fixture
async def fleet(database: Database, make_fleet: MakeFleet) -> Fleet:
    """The fleet of this test's own database on the shared server."""
    return make_fleet(database)


@pytest.fixture
async def engine(database: Database, connect: Connect) -> Engine:
    """The engine of this test's own database, driven by hand."""
    return await Engine(database, connect).open()


@pytest.fixture
async def quiet_engine(quiet_database: Database, connect: Connect) -> Engine:
    """The same on a server where nothing else runs."""
    return await Engine(quiet_database, connect).open()


@pytest.fixture
def make_pool(test_run: Run) -> Iterator[MakePool]:
    """Put a PgBouncer before a server: `make_pool(server, "transaction", size)`."""
    pools: list[Pool] = []

    def make(server: Server, mode: str, size: int, ignored: str = "") -> Pool:
        pools.append(Pool(test_run.new_path("pgbouncer"), server, mode, size, ignored))
        return pools[-1]

    yield make
    for pool in pools:
        pool.stop()


@pytest.fixture
async def board(cluster: Cluster) -> AsyncIterator[Switchboard]:
    """Where handlers in pods call."""
    async with switchboard(cluster.host_address) as made:
        yield made


@pytest.fixture
async def pod_client(kube_database: KubeDatabase) -> AsyncIterator[awa.AsyncClient]:
    """A client of the database that pods use."""
    async with awa.AsyncClient(kube_database.dsn) as made:
        yield made


@pytest.fixture
def own_server(test_run: Run, postgres_binaries: Path) -> Iterator[OwnServer]:
    """Start a server for a cluster's pods that a test may stop; return a database of it."""
    made: list[Server] = []

    def start(cluster: Cluster) -> KubeDatabase:
        password = secrets.token_hex(8)
        made.append(Server(test_run.new_path("for-pods"), postgres_binaries, settings_for(cluster)))
        start_for_pods(test_run, made[-1], password)
        return KubeDatabase(made[-1].create_database(), cluster.host_address, password)

    yield start
    for server in made:
        server.destroy()
