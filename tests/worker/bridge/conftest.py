"""Connections of other libraries to the test's own database."""

from collections.abc import Iterator

import asyncpg
import django
import pytest
from django.conf import settings
from django.db.backends.base.base import BaseDatabaseWrapper
from django.utils.module_loading import import_string

from support.postgres import Connect, Database

if not settings.configured:
    settings.configure(DATABASES={}, USE_TZ=True)
    django.setup()


@pytest.fixture
async def session(connect: Connect, database: Database) -> asyncpg.Connection:
    """A session that sees what has been committed."""
    return await connect(database.dsn)


@pytest.fixture
def django_connection(database: Database) -> Iterator[BaseDatabaseWrapper]:
    """Django's connection, without a project."""
    wrapper = import_string("django.db.backends.postgresql.base.DatabaseWrapper")
    connection = wrapper(
        {
            "ENGINE": "django.db.backends.postgresql", "NAME": database.name,
            "HOST": database.server.host, "PORT": str(database.server.port), "USER": "postgres",
            "PASSWORD": "", "OPTIONS": {}, "TIME_ZONE": None, "CONN_MAX_AGE": 0,
            "CONN_HEALTH_CHECKS": False, "AUTOCOMMIT": True, "ATOMIC_REQUESTS": False,
            "DISABLE_SERVER_SIDE_CURSORS": False, "TEST": {},
        }
    )  # fmt: skip
    yield connection
    connection.close()
