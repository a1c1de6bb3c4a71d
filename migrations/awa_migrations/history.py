"""What the database says was applied, compared with what this package would apply. No I/O."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Self

from awa_migrations.catalog import Catalog, Kind, Migration
from awa_migrations.errors import DatabaseReadOnly, HistoryChanged, RightMissing, SchemaTooNew
from awa_migrations.schema_name import SchemaName


@dataclass(frozen=True, slots=True)
class Applied:
    """One row of `schema_version`."""

    version: int
    name: str
    kind: str
    checksum: str

    @classmethod
    def of(cls, row: Mapping[str, object]) -> Self:
        """Read a row of the query `read_history`."""
        version = int(str(row["version"]))
        return cls(version, str(row["name"]), str(row["kind"]), str(row["checksum"]))


@dataclass(frozen=True, slots=True)
class History:
    """The applied migrations of one schema, oldest first; empty before the first one."""

    schema: SchemaName
    applied: tuple[Applied, ...] = ()

    @property
    def current(self) -> int:
        """The schema's version; 0 before the first migration."""
        return self.applied[-1].version if self.applied else 0

    def ahead_of(self, catalog: Catalog) -> tuple[Applied, ...]:
        """Return what a later release applied."""
        return tuple(row for row in self.applied if row.version > catalog.latest)

    def require_known(self, catalog: Catalog) -> None:
        """Raise SchemaTooNew or HistoryChanged unless the catalog made this history."""
        if self.ahead_of(catalog):
            raise SchemaTooNew(self.schema.value, self.current, catalog.latest)
        if problem := self._difference(catalog.after(0, to=self.current)):
            raise HistoryChanged(self.schema.value, problem)

    def require_usable(self, catalog: Catalog) -> None:
        """Raise SchemaTooNew when a later release took something away.

        What a later release only added leaves this release working: that is what `expand`
        promises. An unknown kind counts as taking away.
        """
        if any(row.kind != Kind.EXPAND for row in self.ahead_of(catalog)):
            raise SchemaTooNew(self.schema.value, self.current, catalog.latest)

    def _difference(self, expected: Sequence[Migration]) -> str | None:
        rows = {row.version: row for row in self.applied}
        for migration in expected:
            row = rows.pop(migration.version, None)
            if row is None:
                return f"it has no record of {migration.file_name}"
            if row.checksum != migration.checksum:
                return f"{migration.file_name} has another checksum than the file that was applied"
        for row in rows.values():
            return f"it records {row.version:04d}_{row.name}, which this package does not have"
        return None


@dataclass(frozen=True, slots=True)
class Found:
    """What there is in the database, and what this role may do there."""

    history: History
    role: str
    database: str
    schema_exists: bool
    table_exists: bool
    may_create_schema: bool
    may_create_objects: bool
    is_owner: bool
    read_only: bool

    def require_writable(self) -> None:
        """Raise DatabaseReadOnly, or RightMissing with the name of the right."""
        schema = self.history.schema.value
        if self.read_only:
            raise DatabaseReadOnly
        if not self.schema_exists and not self.may_create_schema:
            raise RightMissing(
                f'role "{self.role}" may not create schema "{schema}": it lacks CREATE on database'
                f' "{self.database}"'
            )
        if self.schema_exists and not self.may_create_objects:
            raise RightMissing(f'role "{self.role}" lacks CREATE or USAGE on schema "{schema}"')
        if not self.is_owner:
            raise RightMissing(f'role "{self.role}" does not own the tables of schema "{schema}"')
