"""The PostgreSQL schema of the Awa job queue, and how to move it.

    from awa_migrations import migrate

    report = await migrate("postgresql://localhost/app")

`python -m awa_migrations` does the same from a command line.
"""

from awa_migrations.catalog import Catalog, Kind, Migration, packaged_catalog
from awa_migrations.connection import Limits
from awa_migrations.errors import (
    AccessRefused,
    CatalogInvalid,
    ConfigurationError,
    DatabaseMissing,
    DatabaseReadOnly,
    DatabaseUnavailable,
    DeadlockDetected,
    ExitCode,
    HistoryChanged,
    InvalidDatabaseUrl,
    InvalidSchemaName,
    LockTimeout,
    MigrationFailed,
    MigrationsError,
    MigratorBusy,
    PermanentError,
    PoolerUnsupported,
    QueriesInvalid,
    RightMissing,
    SchemaError,
    SchemaMissing,
    SchemaTooNew,
    SchemaTooOld,
    ServerTooOld,
    StatementTimeout,
    TryAgainError,
    UnknownVersion,
    UsageError,
)
from awa_migrations.queries import load_queries
from awa_migrations.runner import Report, Status, migrate, require, status
from awa_migrations.schema_name import SchemaName

__all__ = [
    "AccessRefused",
    "Catalog",
    "CatalogInvalid",
    "ConfigurationError",
    "DatabaseMissing",
    "DatabaseReadOnly",
    "DatabaseUnavailable",
    "DeadlockDetected",
    "ExitCode",
    "HistoryChanged",
    "InvalidDatabaseUrl",
    "InvalidSchemaName",
    "Kind",
    "Limits",
    "LockTimeout",
    "Migration",
    "MigrationFailed",
    "MigrationsError",
    "MigratorBusy",
    "PermanentError",
    "PoolerUnsupported",
    "QueriesInvalid",
    "Report",
    "RightMissing",
    "SchemaError",
    "SchemaMissing",
    "SchemaName",
    "SchemaTooNew",
    "SchemaTooOld",
    "ServerTooOld",
    "StatementTimeout",
    "Status",
    "TryAgainError",
    "UnknownVersion",
    "UsageError",
    "load_queries",
    "migrate",
    "packaged_catalog",
    "require",
    "status",
]
