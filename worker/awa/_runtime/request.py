"""What a web framework does around a request, done around a plain function's attempt.

Django keeps a connection for each thread and looks after them at the beginning and the end of
requests: those that are too old or broken are closed, and the log of queries is emptied. Without it
the connections of a worker's threads would pile up, or stay broken after the database was
restarted. Whoever does not use Django pays a look into a dict.
"""

import logging
import sys
from collections.abc import Callable
from typing import Any

log = logging.getLogger("awa.executor")


def like_a_request(function: Callable[[Any], Any], job: Any) -> Any:
    """Call a handler in its thread, between what Django does before and after a request."""
    _look_after_connections()
    try:
        return function(job)
    finally:
        _look_after_connections()


def _look_after_connections() -> None:
    database, conf = sys.modules.get("django.db"), sys.modules.get("django.conf")
    if database is None or conf is None or not conf.settings.configured:
        return
    try:
        database.reset_queries()
        database.close_old_connections()
    except Exception as error:  # noqa: BLE001 - whatever it is, the job goes on
        # The type alone: its text may tell an address.
        log.warning(
            "connections of Django could not be looked after",
            extra={"error": type(error).__name__},
        )
