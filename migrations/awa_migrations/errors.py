"""Every error this package raises on purpose, with the exit code a Job reports for it.

    MigrationsError
    ├── UsageError             64  the call is wrong
    │   ├── InvalidSchemaName
    │   └── UnknownVersion
    ├── PermanentError         65  trying again changes nothing
    │   ├── CatalogInvalid
    │   ├── QueriesInvalid
    │   ├── HistoryChanged
    │   ├── MigrationFailed
    │   └── SchemaError
    │       ├── SchemaMissing
    │       ├── SchemaTooOld
    │       └── SchemaTooNew
    ├── TryAgainError          75  the same call may succeed later
    │   ├── DatabaseUnavailable
    │   ├── DatabaseReadOnly
    │   ├── DeadlockDetected
    │   ├── StatementTimeout
    │   └── LockTimeout
    │       └── MigratorBusy
    └── ConfigurationError     78  somebody has to change a setting or a right
        ├── AccessRefused
        ├── DatabaseMissing
        ├── InvalidDatabaseUrl
        ├── PoolerUnsupported
        ├── RightMissing
        └── ServerTooOld

Messages say what happened and what to do next. None of them holds a connection string, a password
or a row's value.
"""

from collections.abc import Sequence
from datetime import timedelta
from enum import IntEnum
from typing import ClassVar

from awa_migrations.blocker import Blocker


class ExitCode(IntEnum):
    """What `python -m awa_migrations` exits with; the numbers are those of sysexits.h."""

    DONE = 0
    USAGE = 64
    PERMANENT = 65
    TRY_AGAIN = 75
    CONFIGURATION = 78


class MigrationsError(Exception):
    """Root of everything this package raises on purpose. `exit_code` classifies it."""

    exit_code: ClassVar[ExitCode] = ExitCode.PERMANENT


class UsageError(MigrationsError):
    """The arguments make no sense, whatever the database holds."""

    exit_code = ExitCode.USAGE


class InvalidSchemaName(UsageError):
    """The schema name cannot be used. Choose one that follows the rule in the message."""

    def __init__(self, name: str) -> None:
        super().__init__(
            f"{name[:60]!r} cannot be a schema name: use a lower-case letter or underscore followed"
            " by at most 47 lower-case letters, digits or underscores; not pg_… and not"
            " information_schema"
        )


class UnknownVersion(UsageError):
    """The version asked for is not one of the catalog's. Ask for one within its bounds."""

    def __init__(self, version: int, first: int, latest: int) -> None:
        super().__init__(
            f"version {version} is not known here: this package has {first} to {latest}"
        )
        self.version = version


class PermanentError(MigrationsError):
    """Trying again changes nothing: somebody has to look."""


class CatalogInvalid(PermanentError):
    """A migration file is missing, misnamed or incomplete. Correct the file that is named."""


class QueriesInvalid(PermanentError):
    """A file of named queries breaks the rules. Correct the line that is named."""


class HistoryChanged(PermanentError):
    """The database records another history than this package's. Install the right release."""

    def __init__(self, schema: str, problem: str) -> None:
        super().__init__(
            f'schema "{schema}" was not migrated by this package\'s files: {problem}. Applied'
            " migrations never change: install the release that made this schema, or a later one"
        )


class MigrationFailed(PermanentError):
    """The server refused a statement. The file's transaction was rolled back as a whole.

    `version` is the migration (None outside of one), `sqlstate` PostgreSQL's code.
    """

    def __init__(self, what: str, sqlstate: str | None, version: int | None = None) -> None:
        super().__init__(f"{what}. Nothing of it was kept; earlier migrations stay applied")
        self.sqlstate = sqlstate
        self.version = version


class SchemaError(PermanentError):
    """The schema is not one that this software can run on."""


class SchemaMissing(SchemaError):
    """There is no migrated schema of that name. Run the migrations first."""

    def __init__(self, schema: str) -> None:
        super().__init__(
            f'the database has no schema "{schema}" made by awa: run `awa migrate` (or'
            " `python -m awa_migrations up`) against it, or correct the schema name"
        )


class SchemaTooOld(SchemaError):
    """The schema lacks what this release needs. Run this release's migrations."""

    def __init__(self, schema: str, current: int, minimum: int) -> None:
        super().__init__(
            f'schema "{schema}" is at version {current}, this release needs {minimum}: run'
            " `awa migrate` of this release"
        )
        self.current = current
        self.minimum = minimum


class SchemaTooNew(SchemaError):
    """A later release migrated the schema. Use that release."""

    def __init__(self, schema: str, current: int, latest: int) -> None:
        super().__init__(
            f'schema "{schema}" is at version {current}, this release knows it up to {latest}:'
            " use the release that migrated it; a schema is never moved down"
        )
        self.current = current
        self.latest = latest


class TryAgainError(MigrationsError):
    """Nothing was kept of the attempt, and the same call may succeed later."""

    exit_code = ExitCode.TRY_AGAIN


class DatabaseUnavailable(TryAgainError):
    """The server cannot be reached, refuses for now, or went away. Try again when it is back."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"the database is not available: {reason}. Try again when it is back")


class DatabaseReadOnly(TryAgainError):
    """The server takes no writes: a standby, or a database set to read-only."""

    def __init__(self) -> None:
        super().__init__(
            "the database takes no writes now: connect to the primary, wait for the failover to"
            " end, or lift default_transaction_read_only, then try again"
        )


class DeadlockDetected(TryAgainError):
    """PostgreSQL ended a deadlock by cancelling the migration. Try again."""

    def __init__(self, what: str) -> None:
        super().__init__(f"{what} ran into a deadlock with another session and was rolled back")


class StatementTimeout(TryAgainError):
    """A statement ran longer than its limit, or somebody cancelled it."""

    def __init__(self, what: str) -> None:
        super().__init__(
            f"{what} was cancelled: it passed the statement limit, or somebody cancelled it. Try"
            " again, with a longer limit when it was too short"
        )


class LockTimeout(TryAgainError):
    """A lock was not granted in time. `blockers` are the sessions that held it, when known."""

    def __init__(self, what: str, waited: timedelta, blockers: Sequence[Blocker]) -> None:
        held = "; ".join(map(str, blockers)) or "unknown (gone before it could be looked up)"
        super().__init__(
            f"{what} gave up after waiting {waited.total_seconds():g} s for a lock and was rolled"
            f" back. Held by {held}. Let that session end, then try again"
        )
        self.blockers = tuple(blockers)


class MigratorBusy(LockTimeout):
    """Another migrator of the same schema did not finish in time."""


class ConfigurationError(MigrationsError):
    """Somebody has to change a setting, a right or the server before this can work."""

    exit_code = ExitCode.CONFIGURATION


class AccessRefused(ConfigurationError):
    """The server refused the role or its password. Correct the credentials."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"the server refused access: {reason}. Check role and password")


class DatabaseMissing(ConfigurationError):
    """The server has no database of that name. Create it, or correct the name."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"{reason}: create it, or correct the database name in the URL")


class InvalidDatabaseUrl(ConfigurationError):
    """The connection string cannot be used. The message does not repeat it."""

    def __init__(self, problem: str) -> None:
        super().__init__(
            f"the database URL cannot be used ({problem}): expected"
            " postgresql://user:password@host:port/database"
        )


class PoolerUnsupported(ConfigurationError):
    """A pooler in statement mode is in between. Connect to the server, or use another mode."""

    def __init__(self) -> None:
        super().__init__(
            "a connection pooler in statement mode is in front of the database and allows no"
            " transactions: connect to the server itself, or use transaction or session mode"
        )


class RightMissing(ConfigurationError):
    """The role lacks a right. The message names it."""

    def __init__(self, problem: str) -> None:
        super().__init__(f"{problem}; migrate as the schema's owner or grant the right")


class ServerTooOld(ConfigurationError):
    """The PostgreSQL server is older than the oldest supported one. Upgrade it."""

    def __init__(self, found: str, minimum: int) -> None:
        super().__init__(
            f"the server runs PostgreSQL {found}, awa needs {minimum} or newer: upgrade the server"
        )
