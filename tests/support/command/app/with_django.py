"""Plain functions that use Django's connection, with what Django knows about its queries."""

import os
import threading
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import django
from django.conf import settings
from django.db import connection

from awa import AsyncClient, Job
from support.soak.journal import Journal

address = urlsplit(os.environ["AWA_DATABASE_URL"])
settings.configure(
    DEBUG=True,
    USE_TZ=True,
    DATABASES={
        "default": {
            "ENGINE": "django.db.backends.postgresql", "NAME": address.path.strip("/"),
            "HOST": address.hostname, "PORT": str(address.port), "USER": address.username,
            "CONN_MAX_AGE": int(os.environ["TEST_CONN_MAX_AGE"]),
            "OPTIONS": {"application_name": "django"},
        }
    },
)  # fmt: skip
django.setup()
client = AsyncClient()
SESSIONS = (
    "select count(*) from pg_stat_activity where application_name = 'django'"
    " and datname = current_database()"
)
journal = Journal(Path(os.environ["TEST_FOLDER"]), "runs")


@client.task(dict, kind="query")
def query(job: Job[Any]) -> None:
    """Ask for something, long enough for other threads to do the same."""
    with connection.cursor() as cursor:
        cursor.execute(SESSIONS)
        (before,) = cursor.fetchone()
        cursor.execute(f"select ({SESSIONS}) from pg_sleep(0.05)")  # noqa: S608 - our own
        # One that is closing is seen for a moment only.
        sessions = min(before, *cursor.fetchone())
    thread = str(threading.get_ident())
    journal.note(("ran", job.args["key"], str(sessions), thread, str(len(connection.queries_log))))
