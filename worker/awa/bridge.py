"""Enqueue in a transaction that is open on somebody else's connection.

The job exists when that transaction commits, and never when it rolls back. Works with asyncpg,
psycopg 3, SQLAlchemy (asyncpg or psycopg below) and Django; the connection is used for one
statement and neither committed nor closed.
"""

from typing import Any

from awa._store.database import load_statements
from awa._store.faults import DRIVER_ERRORS, for_sqlstate, translate
from awa._store.jobs import enqueue_arguments
from awa.errors import AwaError
from awa.options import InsertOptions, NewJob, parse_new_job

# The statement of `enqueue` with the types that the drivers cannot guess.
_CASTS = (
    "text", "smallint", "text[]", "jsonb[]", "timestamptz[]", "smallint[]", "jsonb[]", "bytea[]",
    "smallint[]", "boolean",
)  # fmt: skip


async def insert_job(
    connection: Any,
    args: object,
    *,
    kind: str | None = None,
    schema: str = "awa",
    **options: Any,
) -> int:
    """Enqueue a job through an asynchronous connection and return its id.

    `connection` is an asyncpg connection, a psycopg AsyncConnection, or a SQLAlchemy
    AsyncConnection or AsyncSession. Options are those of `InsertOptions`.
    Raises TypeError for another kind of connection, and our errors for what the database refuses.
    """
    values = _values(parse_new_job(args, InsertOptions(**options), kind=kind))
    match _family(connection):
        case "asyncpg":
            try:
                ids = await connection.fetchval(load_statements(schema)["enqueue"], *values)
            except DRIVER_ERRORS as error:
                raise translate(error) from error
            return int(ids[0])
        case "psycopg" if hasattr(connection, "__aenter__"):
            try:
                cursor = await connection.execute(_statement(schema, "%s"), values)
                row = await cursor.fetchone()
            except Exception as error:
                raise _translated(error) from error
            return int(_first(row)[0])
        case "sqlalchemy" if hasattr(connection, "run_sync"):
            id_: int = await connection.run_sync(
                lambda sync: _through_sqlalchemy(sync, schema, values)
            )
            return id_
        case _:
            raise TypeError(
                f"insert_job takes an asynchronous connection, not {_named(connection)}; "
                "use insert_job_sync for blocking ones"
            )


def insert_job_sync(
    connection: Any,
    args: object,
    *,
    kind: str | None = None,
    schema: str = "awa",
    **options: Any,
) -> int:
    """Enqueue a job through a blocking connection and return its id.

    `connection` is a psycopg Connection, a SQLAlchemy Connection or Session, or a Django database
    connection. Otherwise like `insert_job`.
    """
    values = _values(parse_new_job(args, InsertOptions(**options), kind=kind))
    family = _family(connection)
    if hasattr(connection, "__aenter__") or hasattr(connection, "run_sync"):
        family = "asynchronous"
    match family:
        case "psycopg" | "django":
            try:
                with connection.cursor() as cursor:
                    cursor.execute(_statement(schema, "%s"), values)
                    return int(_first(cursor.fetchone())[0])
            except Exception as error:
                raise _translated(error) from error
        case "sqlalchemy":
            return _through_sqlalchemy(connection, schema, values)
        case _:
            raise TypeError(
                f"insert_job_sync takes a blocking connection, not {_named(connection)}; "
                "use insert_job for asynchronous ones"
            )


def _through_sqlalchemy(connection: Any, schema: str, values: list[Any]) -> int:
    inner = connection.connection() if hasattr(connection, "get_bind") else connection
    try:
        if inner.dialect.driver == "asyncpg":
            row = inner.exec_driver_sql(_statement(schema, "$"), tuple(values)).fetchone()
        else:
            row = inner.exec_driver_sql(_statement(schema, "%s"), tuple(values)).fetchone()
    except Exception as error:
        raise _translated(error) from error
    return int(_first(row)[0])


def _values(job: NewJob) -> list[Any]:
    return enqueue_arguments((job.queue, job.priority), [job], skip=False)


def _statement(schema: str, mark: str) -> str:
    places = ", ".join(
        f"{mark if mark == '%s' else f'${position}'}::{cast}"
        for position, cast in enumerate(_CASTS, start=1)
    )
    # The name was checked when the statements were loaded; the rest is constant.
    name = load_statements(schema)["enqueue"].split("enqueue_v1", 1)[0]
    return f"{name}enqueue_v1({places})"


def _first(row: Any) -> Any:
    value = next(iter(row.values())) if isinstance(row, dict) else row[0]
    return value


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
