"""Connections of other libraries to the test's own database."""

from collections.abc import Iterator

import asyncpg
import pytest
from django.db.backends.base.base import BaseDatabaseWrapper

from support.django_database import django_wrapper
from support.postgres import Connect, Database


@pytest.fixture
async def session(connect: Connect, database: Database) -> asyncpg.Connection:
    """A session that sees what has been committed."""
    return await connect(database.dsn)


@pytest.fixture
def django_connection(database: Database) -> Iterator[BaseDatabaseWrapper]:
    """Django's connection, without a project."""
    connection = django_wrapper(database)
    yield connection
    connection.close()
