"""Move a schema forward, say where it is, and insist on a version.

One file is one transaction. It begins with the schema's advisory lock, taken for the transaction
only, and with another look at the version; it ends with the row in `schema_version`. So whatever
happens in between (kill, cancellation, lost connection, a second migrator, a pooler that hands
every transaction to another session), the next run finds whole files applied and no lock left.
Invariant: version N is recorded exactly when the whole of file N, and of every file before it, is
committed.
"""

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta

from awa_migrations.catalog import Catalog, Migration, packaged_catalog
from awa_migrations.connection import (
    DEFAULT_LIMITS,
    Connection,
    Limits,
    connected,
    require_supported,
)
from awa_migrations.errors import (
    DeadlockDetected,
    LockTimeout,
    MigratorBusy,
    SchemaMissing,
    SchemaTooOld,
)
from awa_migrations.history import Found
from awa_migrations.schema_name import SchemaName
from awa_migrations.script import Scripts
from awa_migrations.step import Place, find, step_transaction


@dataclass(frozen=True, slots=True)
class Report:
    """What `migrate` did: versions before and after (0: no schema), and the files it applied.

    `to_version` counts what another migrator applied in the meantime, `applied` does not.
    """

    from_version: int
    to_version: int
    applied: tuple[int, ...]
    duration: timedelta


@dataclass(frozen=True, slots=True)
class Status:
    """Where a schema is.

    `current` is 0 before the first migration. `latest` is the newest version known here, `pending`
    what is still to be applied, `ahead` what a later release applied.
    """

    current: int
    latest: int
    pending: tuple[int, ...]
    ahead: tuple[int, ...]


async def migrate(
    dsn: str,
    *,
    schema: str = "awa",
    to: int | None = None,
    limits: Limits = DEFAULT_LIMITS,
    catalog: Catalog | None = None,
    on_applied: Callable[[Migration, timedelta], None] | None = None,
) -> Report:
    """Apply every pending migration, or those up to and including version `to`.

    A schema that is there already is left alone: calling this again is cheap and takes no lock, and
    nothing is ever moved down. `on_applied` is called after each file is committed, with its
    duration.

    Raises only errors of `awa_migrations.errors`; files applied before the error stay applied.
    """
    catalog = catalog or packaged_catalog()
    place = Place(dsn, limits, Scripts.load(SchemaName(schema)))
    migrator = _Migrator(place, catalog, catalog.checked_version(to))
    return await migrator.run(on_applied or (lambda _migration, _duration: None))


async def status(
    dsn: str,
    schema: str = "awa",
    *,
    limits: Limits = DEFAULT_LIMITS,
    catalog: Catalog | None = None,
) -> Status:
    """Say where the schema is, without changing or locking anything."""
    catalog = catalog or packaged_catalog()
    scripts = Scripts.load(SchemaName(schema))
    async with connected(dsn, limits.connect) as connection:
        history = (await find(connection, scripts)).history
    return Status(
        current=history.current,
        latest=catalog.latest,
        pending=tuple(m.version for m in catalog.after(history.current, catalog.latest)),
        ahead=tuple(row.version for row in history.ahead_of(catalog)),
    )


async def require(
    source: Connection | str,
    schema: str = "awa",
    *,
    minimum: int | None = None,
    catalog: Catalog | None = None,
) -> int:
    """Return the schema's version when this release can run on it.

    `source` is an open connection (left as it is) or a connection string. `minimum` is the oldest
    version that will do, by default the newest known here. A schema that a later release has moved
    on is accepted as long as that release only added (kind `expand`).

    Raises SchemaMissing, SchemaTooOld, SchemaTooNew, ServerTooOld, RightMissing, and what a
    connection can raise.
    """
    if isinstance(source, str):
        async with connected(source, DEFAULT_LIMITS.connect) as connection:
            return await require(connection, schema, minimum=minimum, catalog=catalog)
    catalog = catalog or packaged_catalog()
    floor = catalog.latest if minimum is None else minimum
    require_supported(source)
    history = (await find(source, Scripts.load(SchemaName(schema)))).history
    if not history.applied:
        raise SchemaMissing(schema)
    if history.current < floor:
        raise SchemaTooOld(schema, history.current, floor)
    history.require_usable(catalog)
    return history.current


class _Migrator:
    """One call of `migrate`."""

    def __init__(self, place: Place, catalog: Catalog, target: int) -> None:
        self._place = place
        self._catalog = catalog
        self._target = target

    async def run(self, on_applied: Callable[[Migration, timedelta], None]) -> Report:
        began = time.monotonic()
        applied: list[int] = []
        async with connected(self._place.dsn, self._place.limits.connect) as connection:
            found = await find(connection, self._place.scripts)
            first = current = found.history.current
            is_done = self._next(found) is None
            while not is_done:
                started = time.monotonic()
                current, migration = await self._patient_step(connection)
                if migration is not None:
                    applied.append(migration.version)
                    on_applied(migration, timedelta(seconds=time.monotonic() - started))
                is_done = current >= self._target
        return Report(first, current, tuple(applied), timedelta(seconds=time.monotonic() - began))

    def _next(self, found: Found) -> Migration | None:
        """Return the file to apply, if any, having made sure that it may be applied."""
        found.history.require_known(self._catalog)
        pending = self._catalog.after(found.history.current, self._target)
        if not pending:
            return None
        found.require_writable()
        return pending[0]

    async def _patient_step(self, connection: Connection) -> tuple[int, Migration | None]:
        """Take a step, and take it again, as a whole, when a lock was not to be had."""
        for _ in range(self._place.limits.lock_attempts - 1):
            began = time.monotonic()
            try:
                return await self._step(connection)
            except MigratorBusy:
                raise
            except (LockTimeout, DeadlockDetected):
                # Whoever queued behind us goes first, for as long as we held them up.
                await asyncio.sleep(time.monotonic() - began)
        return await self._step(connection)

    async def _step(self, connection: Connection) -> tuple[int, Migration | None]:
        """Apply the next file; return the version then, and the file if there was one left."""
        async with step_transaction(connection, self._place) as step:
            await step.exclude_others()
            found = await find(connection, self._place.scripts)
            migration = self._next(found)
            if migration is None:
                return found.history.current, None
            await step.apply(migration, found)
        return migration.version, migration
