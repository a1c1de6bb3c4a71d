"""Fixtures that drive the engine by hand."""

import pytest

from support.engine import Engine
from support.postgres import Connect, Database


@pytest.fixture
async def engine(database: Database, connect: Connect) -> Engine:
    """The engine of this test's own database, with one registered worker and lane."""
    return await Engine(database, connect).open()


@pytest.fixture
async def quiet_engine(quiet_database: Database, connect: Connect) -> Engine:
    """The same on a server where nothing else runs, for tests about who is still writing."""
    return await Engine(quiet_database, connect).open()
