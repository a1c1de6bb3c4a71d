"""Driver errors become ours here and nowhere else; messages never carry values or addresses."""

import re
from collections.abc import Iterator
from contextlib import contextmanager

import asyncpg

from awa.errors import (
    AwaError,
    DatabaseError,
    DatabaseUnreachable,
    IsolationUnsupported,
    LanePoolExhausted,
    PermissionMissing,
    SchemaNotMigrated,
    UniqueConflict,
    ValidationError,
)

UNIQUE_CONSTRAINT = "idx_awa_jobs_unique"
NEEDED_VERSION = 51
"""The oldest schema version that this release works with; outputs are stored from 52 on."""

DRIVER_ERRORS = (
    asyncpg.PostgresError,
    asyncpg.InterfaceError,
    asyncpg.InternalClientError,
    OSError,
    TimeoutError,
)

_UNREACHABLE_CLASSES = ("08", "53", "57", "58")
READ_ONLY = "25006"
_MISSING = {"3F000", "42P01", "42883", "42704", "42703"}


class WorkerDeclaredDead(DatabaseError):
    """This worker was declared dead: its claims are no longer its own. It registers again."""


class ClusterUnknown(DatabaseError):
    """The tables came from another cluster, and no worker has settled them here yet."""


@contextmanager
def translated(*, foreign: bool = False) -> Iterator[None]:
    """Raise our errors for the driver's; `foreign` says that the statement is not one of ours."""
    try:
        yield
    except DRIVER_ERRORS as error:
        raise translate(error, foreign=foreign) from error


def translate(error: BaseException, *, foreign: bool = False) -> AwaError:
    """Return what a driver error means."""
    if not isinstance(error, asyncpg.PostgresError):
        return _without_answer(error)
    if isinstance(error, asyncpg.DataError) and getattr(error, "severity", None) is None:
        # The driver's own word, before anything was sent; it repeats the value.
        return ValidationError(
            "a value has another type than its parameter in the statement, or is out of its range"
        )
    if foreign and not _is_about_the_session(error.sqlstate or ""):
        return _plain(error.sqlstate or "XX000", str(error.message or type(error).__name__))
    return for_sqlstate(
        error.sqlstate or "XX000",
        message=str(getattr(error, "message", "") or type(error).__name__),
        constraint=getattr(error, "constraint_name", None),
        detail=getattr(error, "detail", None),
    )


def _without_answer(error: BaseException) -> AwaError:
    """Return what an error of the driver's own means, or one of the network."""
    if isinstance(error, asyncpg.exceptions.ClientConfigurationError):
        return ValidationError(
            "the database address cannot be read; AWA_DATABASE_URL looks like "
            "postgresql://user@host:5432/database"
        )
    return DatabaseUnreachable(
        f"the database did not answer ({type(error).__name__}); check that it runs and that "
        "the address in AWA_DATABASE_URL is right"
    )


def refuses_settings(error: asyncpg.PostgresError) -> bool:
    """Whether this is the word of a pooler that takes no settings at the start of a session."""
    return error.sqlstate == "08P01" and "startup parameter" in str(error.message)


def _is_about_the_session(sqlstate: str) -> bool:
    return sqlstate[:2] in _UNREACHABLE_CLASSES or sqlstate[:2] == "28" or sqlstate == "3D000"


def for_sqlstate(  # noqa: C901 - a table in the form of code
    sqlstate: str, *, message: str, constraint: str | None = None, detail: str | None = None
) -> AwaError:
    """Return the error that a server's answer stands for, whichever driver brought it."""
    if sqlstate == "23505" and constraint == UNIQUE_CONSTRAINT:
        return UniqueConflict(_holder(detail))
    if sqlstate == "AWA02":
        return ClusterUnknown(message, sqlstate=sqlstate)
    if sqlstate == "AWA01":
        return WorkerDeclaredDead(message, sqlstate=sqlstate)
    if sqlstate == "22023":
        return ValidationError(message)
    if sqlstate == "53400":
        return LanePoolExhausted(
            f"{message}; `awa migrate --lane-pool N` adds lanes, up to 1023, or use fewer queues",
            sqlstate=sqlstate,
        )
    if sqlstate == "25001":
        return IsolationUnsupported(message, sqlstate=sqlstate)
    if sqlstate == "42501":
        return PermissionMissing(
            f"the database role lacks a right: {message}; have the owner of the schema run "
            "`awa migrate --grant ROLE`, or connect as another role",
            sqlstate=sqlstate,
        )
    if sqlstate in _MISSING:
        return SchemaNotMigrated(None, NEEDED_VERSION)
    if sqlstate == "08P01" and "startup parameter" in message:
        return DatabaseUnreachable(
            "the database address leads to a connection pooler that refuses the name of the "
            "application; list application_name in its ignore_startup_parameters, or set "
            "AWA_DATABASE_URL to the server's own address",
            sqlstate=sqlstate,
        )
    if sqlstate == READ_ONLY:
        # A session that stayed with a server that is no longer the primary would get no further.
        return DatabaseUnreachable(
            "the server takes no writes: it is a standby, or read-only; have AWA_DATABASE_URL lead "
            "to the primary",
            sqlstate=sqlstate,
        )
    if sqlstate in {"28000", "28P01"}:
        return DatabaseUnreachable(
            "the database refused the role or its password; check AWA_DATABASE_URL",
            sqlstate=sqlstate,
        )
    if sqlstate == "3D000":
        return DatabaseUnreachable(
            "the database that AWA_DATABASE_URL names does not exist; create it", sqlstate=sqlstate
        )
    if sqlstate == "53300":
        return DatabaseUnreachable(
            "the server has no free connection (max_connections); close some or raise the limit",
            sqlstate=sqlstate,
        )
    if sqlstate[:2] in _UNREACHABLE_CLASSES:
        return DatabaseUnreachable(
            f"the database ended the statement (SQLSTATE {sqlstate}); it may be restarting",
            sqlstate=sqlstate,
        )
    if sqlstate in {"22P05", "22021"}:
        return ValidationError("a text holds a NUL character, which PostgreSQL cannot store")
    return _plain(sqlstate, message)


def _plain(sqlstate: str, message: str) -> DatabaseError:
    if sqlstate == "25P02":
        message = (
            "a statement of this transaction has failed, so all of it can only be rolled back; "
            "let the error leave the transaction's block"
        )
    return DatabaseError(f"PostgreSQL: {message}", sqlstate=sqlstate)


def conflict_position(error: BaseException) -> int | None:
    """Return which job of a batch for one lane met a unique conflict, None for another error."""
    found = re.search(r"position=(\d+)", str(getattr(error, "detail", None) or ""))
    is_conflict = getattr(error, "constraint_name", None) == UNIQUE_CONSTRAINT
    return int(found[1]) if found and is_conflict else None


def _holder(detail: str | None) -> int | None:
    found = re.search(r"holder=(\d+)", detail or "")
    return int(found[1]) if found else None
