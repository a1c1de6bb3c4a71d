"""Fixtures of the output tests."""

import pytest

import awa_migrations
from support.engine import Engine
from support.postgres import Connect, Database


@pytest.fixture
async def engine(database: Database, connect: Connect) -> Engine:
    """The engine of this test's own database, driven by hand."""
    return await Engine(database, connect).open()


@pytest.fixture
async def old_database(empty_database: Database) -> Database:
    """A database at the version before outputs."""
    await awa_migrations.migrate(empty_database.dsn, to=51)
    return empty_database
