"""Fixtures of the field cases: fleets of workers whose runs are counted outside of the database."""

from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from support.engine import Engine
from support.fleet.fleet import Fleet
from support.postgres import Connect, Database

type MakeFleet = Callable[[Database], Fleet]


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
