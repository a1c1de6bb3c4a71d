"""What one transaction of the migrator consists of, said to PostgreSQL."""

import contextlib
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from datetime import timedelta

from awa_migrations.catalog import Migration
from awa_migrations.connection import DRIVER_ERRORS, Connection, Limits
from awa_migrations.errors import HistoryChanged, MigratorBusy, RightMissing
from awa_migrations.faults import Doing, quotes_values, statement_error
from awa_migrations.history import Applied, Found, History
from awa_migrations.script import Scripts
from awa_migrations.watch import BlockerWatch

_READING = Doing("reading the schema's version")


@dataclass(frozen=True, slots=True)
class Place:
    """What is migrated and within which limits."""

    dsn: str
    limits: Limits
    scripts: Scripts


async def find(connection: Connection, scripts: Scripts) -> Found:
    """Look what there is of the schema. Raises RightMissing when it may not be read."""
    with _translated(_READING):
        return await _find(connection, scripts)


@contextlib.asynccontextmanager
async def step_transaction(
    connection: Connection, place: Place
) -> AsyncIterator["StepTransaction"]:
    """Open a transaction with the limits set; committed at the end, rolled back on an error."""
    with _translated(Doing("the migration")):
        async with connection.transaction(isolation="read_committed"):
            (row,) = await connection.fetch(
                place.scripts.queries["open_step"],
                None if place.limits.lock is None else _milliseconds(place.limits.lock),
                str(_milliseconds(place.limits.other_migrator)),
                str(_milliseconds(place.limits.statement)),
            )
            lock_wait = timedelta(milliseconds=row["lock_ms"])
            yield StepTransaction(connection, place, row["pid"], lock_wait)


@dataclass(frozen=True, slots=True)
class StepTransaction:
    """An open transaction: the server session it has, and how long it waits for a lock."""

    connection: Connection
    place: Place
    pid: int
    lock_wait: timedelta

    async def exclude_others(self) -> None:
        """Become the only migrator of this schema until the transaction ends.

        Raises MigratorBusy, naming the other one.
        """
        wait = self.place.limits.other_migrator
        doing = Doing("waiting for another migrator", waited=wait, lock_error=MigratorBusy)
        queries = self.place.scripts.queries
        async with self._watched(doing):
            await self.connection.execute(
                queries["exclude_others"], self.place.scripts.schema.lock_key
            )
        await self.connection.execute(queries["limit_locks"], str(_milliseconds(self.lock_wait)))

    async def apply(self, migration: Migration, found: Found) -> None:
        """Run the file and record it. Raises LockTimeout, naming who holds the lock."""
        sql = self.place.scripts.step(
            migration,
            is_first=not found.table_exists,
            creates_schema=not found.schema_exists,
        )
        what = f"migration {migration.file_name}"
        async with self._watched(Doing(what, migration.version, sql, self.lock_wait)):
            await self.connection.execute(sql)

    @contextlib.asynccontextmanager
    async def _watched(self, doing: Doing) -> AsyncIterator[None]:
        query = self.place.scripts.queries["blockers"]
        watch = BlockerWatch(self.place.dsn, query, self.pid, doing.waited)
        with _translated(doing, watch):
            async with watch:
                yield


async def _find(connection: Connection, scripts: Scripts) -> Found:
    schema = scripts.schema
    (row,) = await connection.fetch(scripts.queries["look"], schema.value)
    if row["table_exists"] and not row["may_read"]:
        raise RightMissing(
            f'role "{row["role_name"]}" lacks SELECT on {schema.quoted}.schema_version or USAGE on'
            f" schema {schema.quoted}"
        )
    if row["table_exists"] and not row["is_ours"]:
        raise HistoryChanged(schema.value, "its table schema_version belongs to other software")
    applied = await connection.fetch(scripts.queries["read_history"]) if row["table_exists"] else []
    return Found(
        history=History(schema, tuple(Applied.of(dict(row)) for row in applied)),
        role=row["role_name"],
        database=row["database_name"],
        schema_exists=row["schema_exists"],
        table_exists=row["table_exists"],
        may_create_schema=row["may_create_schema"],
        may_create_objects=row["may_create_objects"],
        is_owner=row["is_owner"],
        read_only=row["read_only"],
    )


@contextlib.contextmanager
def _translated(doing: Doing, watch: BlockerWatch | None = None) -> Iterator[None]:
    try:
        yield
    except DRIVER_ERRORS as error:
        failure = statement_error(error, doing, watch.blockers if watch else ())
        raise failure from (None if quotes_values(error) else error)


def _milliseconds(limit: timedelta) -> int:
    return max(1, round(limit / timedelta(milliseconds=1)))
