"""Awa: a PostgreSQL-native job queue."""

from awa._store.counts import QueueCounts
from awa.client import AsyncClient, Transaction
from awa.environment import release
from awa.errors import (
    AwaError,
    CallbackNotFound,
    DatabaseError,
    DatabaseTooOld,
    DatabaseUnreachable,
    IsolationUnsupported,
    JobNotFound,
    LanePoolExhausted,
    OutputError,
    OutputInvalid,
    OutputSealed,
    OutputTooLarge,
    PermissionMissing,
    SchemaNotMigrated,
    SchemaTooNew,
    SerializationError,
    TerminalError,
    UniqueConflict,
    UnknownJobKind,
    ValidationError,
    ValueTooLarge,
)
from awa.job import Job, JobState
from awa.kind import derive_kind
from awa.options import InsertOptions, UniqueOptions
from awa.outcome import Cancel, RetryAfter, Snooze
from awa.output import MAX_OUTPUT_BYTES, OutputSlot
from awa.queue_settings import QueueSettings, RateLimit
from awa.settings import WorkerSettings
from awa.sync import Client, SyncTransaction
from awa.unique import period_bucket

__version__ = release()

__all__ = [
    "MAX_OUTPUT_BYTES",
    "AsyncClient",
    "AwaError",
    "CallbackNotFound",
    "Cancel",
    "Client",
    "DatabaseError",
    "DatabaseTooOld",
    "DatabaseUnreachable",
    "InsertOptions",
    "IsolationUnsupported",
    "Job",
    "JobNotFound",
    "JobState",
    "LanePoolExhausted",
    "OutputError",
    "OutputInvalid",
    "OutputSealed",
    "OutputSlot",
    "OutputTooLarge",
    "PermissionMissing",
    "QueueCounts",
    "QueueSettings",
    "RateLimit",
    "RetryAfter",
    "SchemaNotMigrated",
    "SchemaTooNew",
    "SerializationError",
    "Snooze",
    "SyncTransaction",
    "TerminalError",
    "Transaction",
    "UniqueConflict",
    "UniqueOptions",
    "UnknownJobKind",
    "ValidationError",
    "ValueTooLarge",
    "WorkerSettings",
    "__version__",
    "derive_kind",
    "period_bucket",
]
