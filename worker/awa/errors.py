"""Everything Awa raises.

AwaError
├── ValidationError (also a ValueError)      an argument is outside its limits
├── SerializationError (also a ValueError)   no JSON form, or JSON that does not fit its type
│   └── ValueTooLarge                        the JSON text is longer than its limit
├── UniqueConflict                           another job holds the unique key
├── UnknownJobKind                           no handler is registered for the kind
├── JobNotFound
├── CallbackNotFound
├── TerminalError                            raised by a handler: do not run this job again
│   └── OutputError                          an output could not be recorded
│       ├── OutputInvalid                    also OutputError.Invalid
│       ├── OutputTooLarge                   also OutputError.TooLarge
│       └── OutputSealed                     also OutputError.Sealed
├── SchemaNotMigrated                        the schema is missing or older than this version needs
│   └── SchemaTooNew                         the schema is newer than this version knows
└── DatabaseError                            PostgreSQL answered with an error, or did not answer
    ├── DatabaseUnreachable
    ├── DatabaseTooOld
    ├── PermissionMissing
    ├── LanePoolExhausted
    └── IsolationUnsupported

Messages say what happened and what to do next. They never contain a value: no args, no output, no
connection string.
"""

from typing import ClassVar


class AwaError(Exception):
    """The root of every error that Awa raises. Errors survive pickling, fields included."""

    def __reduce__(self) -> tuple[object, ...]:
        return _rebuild, (type(self), self.args, self.__dict__)


def _rebuild(cls: type[AwaError], args: tuple[object, ...], fields: dict[str, object]) -> AwaError:
    error = cls.__new__(cls, *args)
    error.__dict__.update(fields)
    return error


class ValidationError(AwaError, ValueError):
    """An argument is outside its limits; nothing was written.

    The message names the argument and what it accepts.
    """


class SerializationError(AwaError, ValueError):
    """A value has no JSON form, or stored JSON does not fit its type; nothing was written.

    The message gives the position and the type's name, as in `args.items[3].price: a set has no
    JSON form`.
    """


class ValueTooLarge(SerializationError):
    """The JSON text of a value is longer than its limit.

    Store the data elsewhere and pass a reference to it.
    """

    def __init__(self, what: str, size_bytes: int, limit_bytes: int) -> None:
        super().__init__(
            f"{what} takes {size_bytes} bytes of JSON text and the limit is {limit_bytes}; "
            "store the data elsewhere and pass a reference to it"
        )
        self.what = what
        self.size_bytes = size_bytes
        self.limit_bytes = limit_bytes


class UniqueConflict(AwaError):
    """Another job holds the unique key, so this job was not enqueued or did not change its state.

    `holder_id` is the id of the job that holds the key, when it is known.
    """

    def __init__(self, holder_id: int | None = None) -> None:
        holder = "another job" if holder_id is None else f"job {holder_id}"
        super().__init__(
            f"the unique key is held by {holder}; it is free again when that job leaves the states "
            "of its unique options, or is pruned"
        )
        self.holder_id = holder_id


class UnknownJobKind(AwaError):
    """No handler is registered for a job's kind. Register one, or run a worker that has it."""

    def __init__(self, kind: str) -> None:
        super().__init__(
            f"no handler is registered for the job kind {kind!r}; register one with @client.task"
        )
        self.kind = kind


class JobNotFound(AwaError):
    """No job has this id.

    It never existed, its enqueue was rolled back, or its retention has ended.
    """

    def __init__(self, job_id: int) -> None:
        super().__init__(f"job not found: {job_id}")
        self.job_id = job_id


class CallbackNotFound(AwaError):
    """No job waits for this callback.

    It was resolved, timed out, replaced by a newer one, or never existed.
    """

    def __init__(self, callback_id: str) -> None:
        super().__init__(f"callback not found: {callback_id}")
        self.callback_id = callback_id


class TerminalError(AwaError):
    """Raised by a handler when running the job again cannot help: the job fails at once.

    Raise it, or a subclass of your own.
    """


class OutputError(TerminalError):
    """An output could not be recorded. The slot is empty now; the attempt may go on and complete.

    A `TerminalError`: not caught, it fails the job for good instead of repeating its side effects.
    Record an output whose size depends on data before the side effects, or catch this error.
    """

    Invalid: ClassVar[type["OutputInvalid"]]
    TooLarge: ClassVar[type["OutputTooLarge"]]
    Sealed: ClassVar[type["OutputSealed"]]


class OutputInvalid(OutputError):
    """The output has no JSON form, or is not of the type declared for the kind."""


class OutputTooLarge(OutputError):
    """The output's JSON text is longer than the limit.

    Store the data elsewhere and record a reference to it.
    """

    def __init__(self, size_bytes: int, limit_bytes: int) -> None:
        super().__init__(
            f"the output takes {size_bytes} bytes of JSON text and the limit is {limit_bytes}; "
            "store the data elsewhere and record a reference to it"
        )
        self.size_bytes = size_bytes
        self.limit_bytes = limit_bytes


class OutputSealed(OutputError):
    """The handler has returned, so its attempt takes no output any more.

    Await tasks that record before returning.
    """

    def __init__(self) -> None:
        super().__init__(
            "the handler has returned and its output is sealed; "
            "await every task that records before returning"
        )


OutputError.Invalid = OutputInvalid
OutputError.TooLarge = OutputTooLarge
OutputError.Sealed = OutputSealed


class SchemaNotMigrated(AwaError):
    """The database schema is missing or older than this version of Awa needs. Run `awa migrate`.

    `found` is the version in the database, None when there is no schema; `needed` is the least
    version that works.
    """

    def __init__(self, found: int | None, needed: int) -> None:
        super().__init__(self._explain(found, needed))
        self.found = found
        self.needed = needed

    def _explain(self, found: int | None, needed: int) -> str:
        if found is None:
            return (
                f"the database has no Awa schema and version {needed} is needed; run `awa migrate`"
            )
        return (
            f"the database schema has version {found} and version {needed} is needed; "
            "run `awa migrate`"
        )


class SchemaTooNew(SchemaNotMigrated):
    """The database schema is newer than this version of Awa knows.

    Upgrade Awa; the schema is never moved back.

    `found` is the version in the database, `needed` the newest version that this release knows.
    """

    def _explain(self, found: int | None, needed: int) -> str:
        return (
            f"the database schema has version {found} and this release knows versions "
            f"up to {needed}; upgrade Awa in this process"
        )


class DatabaseError(AwaError):
    """PostgreSQL answered with an error or did not answer.

    `sqlstate` is its five-character code, when there is one.
    """

    def __init__(self, message: str, *, sqlstate: str | None = None) -> None:
        super().__init__(message)
        self.sqlstate = sqlstate


class DatabaseUnreachable(DatabaseError):
    """No connection could be made, it broke off, or the server can write nothing now.

    Whether the last statement took effect may be unknown.
    """


class DatabaseTooOld(DatabaseError):
    """The server is too old a PostgreSQL. `found` and `needed` are major versions."""

    def __init__(self, found: int, needed: int) -> None:
        super().__init__(
            f"the server is PostgreSQL {found} and Awa needs {needed} or newer; "
            "upgrade the server or use another one"
        )
        self.found = found
        self.needed = needed


class PermissionMissing(DatabaseError):
    """The database role lacks a right that the call needs.

    The message names the right and how to grant it.
    """


class LanePoolExhausted(DatabaseError):
    """No lane is left for a new queue.

    Raise the number of lanes in the schema, or use fewer queues.
    """


class IsolationUnsupported(DatabaseError):
    """Claim and finish were called inside a REPEATABLE READ or SERIALIZABLE transaction.

    Both need a new snapshot for each statement. Call them outside a transaction or under READ
    COMMITTED.
    """
