"""The SQL of a migration as one text: what the runner sends, and what a DBA can run by hand."""

from collections.abc import Mapping
from dataclasses import dataclass

from awa_migrations.catalog import Catalog, Migration
from awa_migrations.queries import load_queries
from awa_migrations.schema_name import SchemaName


@dataclass(frozen=True, slots=True)
class Scripts:
    """The migrator's own statements, rendered for one schema."""

    schema: SchemaName
    queries: Mapping[str, str]

    @classmethod
    def load(cls, schema: SchemaName) -> "Scripts":
        """Read the packaged statements."""
        return cls(schema, load_queries("awa_migrations", "statements.sql", schema.value))

    def step(self, migration: Migration, *, is_first: bool, creates_schema: bool) -> str:
        """Return what applies one file and records it, to be sent in an open transaction.

        One message to the server, so that a migrator that dies or stands still in between leaves no
        half that waits for the other.
        """
        parts = [self.queries["create_schema"]] if creates_schema else []
        if is_first:
            parts.append(self.queries["create_history"])
        return _joined([*parts, self.queries["start_clock"], self._body(migration)])

    def by_hand(self, catalog: Catalog, after: int, to: int) -> str:
        """Return a psql script that brings a schema from `after` exactly to `to`.

        Every file is a transaction of its own that checks the version it starts from.
        """
        pending = catalog.after(after, to)
        head = f'-- schema "{self.schema.value}", versions {after} to {to}; run it with psql'
        blocks = [self._by_hand_step(migration, catalog) for migration in pending]
        return "\n\n".join([head, r"\set ON_ERROR_STOP on", *blocks]) + "\n"

    def _by_hand_step(self, migration: Migration, catalog: Catalog) -> str:
        is_first = migration.version == catalog.first
        before = 0 if is_first else migration.version - 1
        parts = [
            "begin",
            _filled(self.queries["script_open"], self.schema.lock_key),
            _filled(self.queries["script_guard"], before),
        ]
        if is_first:
            parts += [self.queries["script_create_schema"], self.queries["create_history"]]
        parts += [self.queries["start_clock"], self._body(migration), "commit"]
        return f"-- {migration.file_name}\n\n{_joined(parts)}"

    def _body(self, migration: Migration) -> str:
        record = _filled(
            self.queries["record"],
            migration.version,
            migration.name,
            migration.kind.value,
            migration.checksum,
        )
        return _joined([migration.render(self.schema).rstrip().removesuffix(";"), record])


def _joined(statements: list[str]) -> str:
    # On a line of its own, because a file may end in a comment.
    return "\n".join(f"{statement.rstrip().removesuffix(';')}\n;" for statement in statements)


def _filled(statement: str, *values: int | str) -> str:
    """Write values of ours (numbers, checked names, hexadecimal digits) in place of parameters."""
    for number, value in reversed(list(enumerate(values, start=1))):
        literal = str(value) if isinstance(value, int) else f"'{value}'"
        statement = statement.replace(f"${number}", literal)
    return statement
