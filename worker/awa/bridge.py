"""Enqueue in a transaction that is open on somebody else's connection.

The job exists when that transaction commits, and never when it rolls back. Works with asyncpg,
psycopg 3, SQLAlchemy (asyncpg or psycopg below) and Django; the connection is used for one
statement and neither committed nor closed. After an error of the database the transaction can only
be rolled back, which is the caller's to do.
"""

import functools
import sys
from datetime import UTC, datetime
from typing import Any, Unpack

from awa._store.database import load_statements
from awa._store.faults import DRIVER_ERRORS, for_sqlstate, translate
from awa._store.jobs import enqueue_arguments
from awa._store.rows import inserted_row
from awa.errors import AwaError
from awa.job import Job
from awa.options import InsertOptions, JobOptions, NewJob, checked_names, parse_new_job

# The statement of `enqueue` with the types that the drivers cannot guess. JSON goes as text, so
# that a JSON codec which the caller has set on the connection does not encode it once more.
_CASTS = (
    "text", "smallint", "text[]", "text[]::jsonb[]", "timestamptz[]", "smallint[]",
    "text[]::jsonb[]", "bytea[]", "smallint[]", "boolean",
)  # fmt: skip


async def insert_job(
    connection: Any,
    args: object,
    *,
    kind: str | None = None,
    schema: str = "awa",
    **options: Unpack[JobOptions],
) -> Job[Any]:
    """Enqueue a job through an asynchronous connection and return it.

    `connection` is an asyncpg connection, a psycopg AsyncConnection, or a SQLAlchemy
    AsyncConnection or AsyncSession. Options are those of `InsertOptions`.
    Raises TypeError for another kind of connection, and our errors for what the database refuses.
    """
    new = _new_job(args, kind, options)
    family = _family(connection)
    if family == "asyncpg" and hasattr(connection, "fetchval"):
        try:
            ids = await connection.fetchval(_statement(schema, "$"), *_values(new))
        except DRIVER_ERRORS as error:
            raise translate(error) from error
    elif family == "psycopg" and hasattr(connection, "__aenter__"):
        ids = await _through_psycopg(connection, schema, new)
    elif family == "sqlalchemy" and hasattr(connection, "run_sync"):
        ids = await connection.run_sync(lambda sync: _through_sqlalchemy(sync, schema, new))
    else:
        raise TypeError(
            f"insert_job takes an asynchronous connection, not {_named(connection)}; "
            "use insert_job_sync for blocking ones"
        )
    return _inserted(ids, new)


def insert_job_sync(
    connection: Any,
    args: object,
    *,
    kind: str | None = None,
    schema: str = "awa",
    **options: Unpack[JobOptions],
) -> Job[Any]:
    """Enqueue a job through a blocking connection and return it.

    `connection` is a psycopg Connection, a SQLAlchemy Connection or Session, or a Django database
    connection. Otherwise like `insert_job`.
    """
    new = _new_job(args, kind, options)
    family = _family(connection)
    if hasattr(connection, "__aenter__") or hasattr(connection, "run_sync"):
        family = "asynchronous"
    if family in {"psycopg", "django"} and hasattr(connection, "cursor"):
        ids = _through_cursor(connection, family, schema, new)
    elif family == "sqlalchemy" and hasattr(connection, "in_transaction"):
        ids = _through_sqlalchemy(connection, schema, new)
    else:
        raise TypeError(
            f"insert_job_sync takes a blocking connection, not {_named(connection)}; "
            "use insert_job for asynchronous ones"
        )
    return _inserted(ids, new)


async def _through_psycopg(connection: Any, schema: str, new: NewJob) -> Any:
    driver = sys.modules["psycopg"]
    # Not the connection's own cursors: their rows and placeholders are as its owner wants them.
    cursor = driver.AsyncCursor(connection, row_factory=driver.rows.tuple_row)
    try:
        await cursor.execute(_statement(schema, "%s"), _values(new))
        return (await cursor.fetchone())[0]
    except driver.Error as error:
        raise _translated(error) from error


def _through_cursor(connection: Any, family: str, schema: str, new: NewJob) -> Any:
    driver = sys.modules["psycopg"] if family == "psycopg" else sys.modules["django.db"]
    if family == "django":
        if connection.vendor != "postgresql":
            raise TypeError(f"the connection goes to {connection.vendor}, not to PostgreSQL")
        cursor = connection.cursor()
    else:
        cursor = driver.Cursor(connection, row_factory=driver.rows.tuple_row)
    try:
        with cursor:
            cursor.execute(_statement(schema, "%s"), _values(new))
            return cursor.fetchone()[0]
    except driver.Error as error:
        raise _translated(error) from error


def _through_sqlalchemy(connection: Any, schema: str, new: NewJob) -> Any:
    inner = connection.connection() if hasattr(connection, "get_bind") else connection
    driver = str(inner.dialect.driver)
    if driver != "asyncpg" and not driver.startswith("psycopg"):
        raise TypeError(f"the connection uses {driver}; use postgresql+psycopg or +asyncpg")
    mark = "$" if driver == "asyncpg" else "%s"
    try:
        row = inner.exec_driver_sql(_statement(schema, mark), tuple(_values(new))).fetchone()
    except sys.modules["sqlalchemy.exc"].SQLAlchemyError as error:
        raise _translated(error) from error
    return row[0]


def _new_job(args: object, kind: str | None, options: JobOptions) -> NewJob:
    return parse_new_job(args, InsertOptions(**checked_names(options)), kind=kind)


def _values(job: NewJob) -> list[Any]:
    return enqueue_arguments((job.queue, job.priority), [job], skip=False)


def _inserted(ids: Any, job: NewJob) -> Job[Any]:
    return Job(inserted_row(int(ids[0]), job, datetime.now(UTC)))


@functools.cache
def _statement(schema: str, mark: str) -> str:
    places = ", ".join(
        f"{mark if mark == '%s' else f'${position}'}::{cast}"
        for position, cast in enumerate(_CASTS, start=1)
    )
    # The name was checked when the statements were loaded; the rest is constant.
    name = load_statements(schema)["enqueue"].split("enqueue_v1", 1)[0]
    return f"{name}enqueue_v1({places})"


def _family(connection: Any) -> str:
    for cls in type(connection).__mro__:
        root = cls.__module__.partition(".")[0]
        if root in {"asyncpg", "psycopg", "sqlalchemy", "django"}:
            return root
    return ""


def _named(connection: Any) -> str:
    return f"{type(connection).__module__}.{type(connection).__qualname__}"


def _translated(error: Exception) -> Exception:
    """Return our error for a driver's; wrappers say less than what they wrap, so the innermost."""
    innermost, seen = None, error
    for _ in range(5):
        code = getattr(seen, "sqlstate", None) or getattr(seen, "pgcode", None)
        if isinstance(code, str):
            innermost = seen
        wrapped = getattr(seen, "orig", None) or seen.__cause__
        if not isinstance(wrapped, Exception):
            break
        seen = wrapped
    return error if innermost is None else _ours(innermost)


def _ours(error: Any) -> AwaError:
    said = getattr(error, "diag", None)
    return for_sqlstate(
        getattr(error, "sqlstate", None) or error.pgcode,
        message=str(
            getattr(said, "message_primary", None)
            or getattr(error, "message", None)
            or type(error).__name__
        ),
        constraint=getattr(said or error, "constraint_name", None),
        detail=getattr(said, "message_detail", None) or getattr(error, "detail", None),
    )
