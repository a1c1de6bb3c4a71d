"""Every public name of awa, and where it is defined."""

from ._store.counts import QueueCounts
from .client import AsyncClient, Transaction
from .errors import (
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
from .job import Job, JobState
from .kind import derive_kind
from .options import InsertOptions, UniqueOptions
from .outcome import Cancel, RetryAfter, Snooze
from .output import MAX_OUTPUT_BYTES, OutputSlot
from .queue_settings import QueueSettings, RateLimit
from .settings import WorkerSettings
from .sync import Client, SyncTransaction
from .unique import period_bucket

__version__: str

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
