"""Django's connection to a test's database, without a project."""

import django
from django.conf import settings
from django.db.backends.base.base import BaseDatabaseWrapper
from django.utils.module_loading import import_string

from support.postgres import Database


def django_wrapper(database: Database) -> BaseDatabaseWrapper:
    """Return a connection as Django's `connections` hold them; the caller closes it."""
    if not settings.configured:
        settings.configure(DATABASES={}, USE_TZ=True)
        django.setup()
    wrapper = import_string("django.db.backends.postgresql.base.DatabaseWrapper")
    connection: BaseDatabaseWrapper = wrapper(
        {
            "ENGINE": "django.db.backends.postgresql", "NAME": database.name,
            "HOST": database.server.host, "PORT": str(database.server.port), "USER": "postgres",
            "PASSWORD": "", "OPTIONS": {}, "TIME_ZONE": None, "CONN_MAX_AGE": 0,
            "CONN_HEALTH_CHECKS": False, "AUTOCOMMIT": True, "ATOMIC_REQUESTS": False,
            "DISABLE_SERVER_SIDE_CURSORS": False, "TEST": {},
        }
    )  # fmt: skip
    return connection
