"""The one place where what PostgreSQL or its driver reports becomes one of our errors. No I/O.

PostgreSQL errors are recognised by their SQLSTATE, the driver's own by the lack of one.
"""

import ssl
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta

from awa_migrations.blocker import Blocker
from awa_migrations.errors import (
    AccessRefused,
    ConfigurationError,
    DatabaseMissing,
    DatabaseReadOnly,
    DatabaseUnavailable,
    DeadlockDetected,
    InvalidDatabaseUrl,
    LockTimeout,
    MigrationFailed,
    MigrationsError,
    RightMissing,
    StatementTimeout,
)

# Classes of SQLSTATE that say "not now": connection, resources, operator intervention, system.
_UNAVAILABLE = ("08", "53", "57", "58")
# Messages about data quote values.
_QUOTES_VALUES = ("22", "23")
_LINE_LENGTH = 120


@dataclass(frozen=True, slots=True)
class Doing:
    """What was being done when a fault came: the words for the message."""

    what: str
    version: int | None = None
    sql: str = ""
    waited: timedelta = timedelta(0)
    lock_error: type[LockTimeout] = LockTimeout


def connect_error(error: Exception) -> MigrationsError:
    """Translate what came instead of a connection."""
    state = getattr(error, "sqlstate", None)
    if isinstance(error, ssl.SSLError) or "rejected SSL" in str(error):
        return ConfigurationError("TLS with the server failed: check sslmode and certificates")
    if isinstance(error, OSError):
        return DatabaseUnavailable(_os_reason(error))
    if state is None:
        # The driver's text may quote the URL, so it is not passed on.
        return InvalidDatabaseUrl("it is malformed or names an option that cannot be used")
    if state.startswith("28"):
        return AccessRefused(_primary(error))
    if state == "3D000":
        return DatabaseMissing(_primary(error))
    if state == "42501":
        return RightMissing(_primary(error))
    if state.startswith(_UNAVAILABLE):
        return DatabaseUnavailable(_primary(error))
    return ConfigurationError(f"the server refused the connection: {_primary(error)}")


def statement_error(
    error: Exception, doing: Doing, blockers: tuple[Blocker, ...]
) -> MigrationsError:
    """Translate what a statement ended in."""
    state = getattr(error, "sqlstate", None)
    if state is None:
        return DatabaseUnavailable("the connection was lost")
    if state == "55P03":
        return doing.lock_error(doing.what, doing.waited, blockers)
    if make := _BY_STATE.get(state):
        return make(error, doing)
    if state.startswith(_UNAVAILABLE) or state == "25P03":
        return DatabaseUnavailable(_primary(error))
    return MigrationFailed(_sql_problem(error, state, doing), state, doing.version)


def quotes_values(error: Exception) -> bool:
    """Whether the driver's error text may hold values of rows, so must not be chained."""
    return str(getattr(error, "sqlstate", "")).startswith(_QUOTES_VALUES)


_BY_STATE: dict[str, Callable[[Exception, Doing], MigrationsError]] = {
    "40P01": lambda _, doing: DeadlockDetected(doing.what),
    "57014": lambda _, doing: StatementTimeout(doing.what),
    "25006": lambda _error, _doing: DatabaseReadOnly(),
    "42501": lambda error, doing: RightMissing(f"{doing.what}: {_primary(error)}"),
}


def _sql_problem(error: Exception, state: str, doing: Doing) -> str:
    text = _primary(error)
    if quotes_values(error):
        about = getattr(error, "constraint_name", None) or getattr(error, "table_name", None)
        text = f"data does not fit ({about})" if about else "data does not fit"
    if line := _line_at(doing.sql, getattr(error, "position", None)):
        text = f"{text}, in the line {line!r}"
    return f"{doing.what} failed with SQLSTATE {state}: {text}"


def _line_at(sql: str, position: str | None) -> str:
    """Return the line of the file that PostgreSQL points at; it counts characters from 1."""
    if not position or not position.isdigit():
        return ""
    before, after = sql[: int(position) - 1], sql[int(position) - 1 :]
    return (before.rpartition("\n")[2] + after.partition("\n")[0]).strip()[:_LINE_LENGTH]


def _primary(error: Exception) -> str:
    """PostgreSQL's primary message: without detail, hint and context, which may hold values."""
    return str(getattr(error, "message", None) or type(error).__name__).splitlines()[0]


def _os_reason(error: OSError) -> str:
    if isinstance(error, TimeoutError):
        return "it did not answer in time"
    return (error.strerror or "the connection was refused or closed").splitlines()[0]
