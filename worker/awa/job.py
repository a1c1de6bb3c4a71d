"""Jobs as users see them.

Users know one class, `Job`: what the client reads, and what a handler gets (there it is the
subclass of `awa.running`). JSON columns are decoded when they are first looked at, so a job costs
no more than its fields. Times are aware datetimes. A job's text form names it and never shows args,
metadata or output.
"""

import enum
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Self

from awa.decoding import decoder_for
from awa.encoding import decode
from awa.errors import SerializationError, ValidationError
from awa.output import OutputSlot


class JobState(enum.Enum):
    """The state of a job. `str()` gives the name used in SQL and JSON, such as `available`.

    The value is the state's bit in the mask of unique options.
    """

    Scheduled = 0
    Available = 1
    Running = 2
    Completed = 3
    Retryable = 4
    Failed = 5
    Cancelled = 6
    WaitingExternal = 7

    @classmethod
    def parse(cls, text: str) -> Self:
        """Return the state named `text`. Raises `ValidationError` when there is none."""
        state = _STATES.get(text)
        if state is None:
            raise ValidationError(f"a job state is one of {', '.join(_STATES)}")
        return state

    @property
    def is_terminal(self) -> bool:
        """Whether the job has ended: completed, failed or cancelled."""
        return self in _TERMINAL

    def __int__(self) -> int:
        return int(self.value)

    def __str__(self) -> str:
        return _NAMES[self]

    def __repr__(self) -> str:
        return f"JobState.{self.name}"


_NAMES = {
    JobState.Scheduled: "scheduled",
    JobState.Available: "available",
    JobState.Running: "running",
    JobState.Completed: "completed",
    JobState.Retryable: "retryable",
    JobState.Failed: "failed",
    JobState.Cancelled: "cancelled",
    JobState.WaitingExternal: "waiting_external",
}
_STATES = {name: state for state, name in _NAMES.items()}
_TERMINAL = frozenset({JobState.Completed, JobState.Failed, JobState.Cancelled})


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class JobRow:
    """A job's columns as the database holds them; JSON columns are texts that are not decoded yet.

    `payload_json` is an object that may have the keys `metadata`, `tags`, `errors` and `progress`;
    None when all of them are empty. `output_json` is None where it was not recorded or not read.
    """

    id: int
    kind: str
    queue: str
    state: JobState
    priority: int
    attempt: int
    max_attempts: int
    run_at: datetime
    created_at: datetime
    attempted_at: datetime | None = None
    finalized_at: datetime | None = None
    deadline: datetime | None = None
    args_json: str = "{}"
    payload_json: str | None = None
    output_json: str | None = None


class Job[T]:
    """A job. `T` is the type of its args.

    Read from the database: args are plain JSON values, `output` is what the completed attempt
    recorded (None on list reads), and the methods of a running attempt raise RuntimeError.

    Handed to a handler: args are of the type that the handler was registered for, `output` and
    `progress` are what this attempt has recorded so far, entries of `errors` come without outputs,
    and everything else is the job as it was claimed.

    Made by the client and the worker; applications do not construct one.
    """

    __slots__ = (
        "_args",
        "_args_json",
        "_attempt",
        "_attempted_at",
        "_created_at",
        "_deadline",
        "_finalized_at",
        "_id",
        "_kind",
        "_max_attempts",
        "_output_json",
        "_payload",
        "_payload_json",
        "_priority",
        "_queue",
        "_run_at",
        "_state",
    )

    _args: Any
    _payload: dict[str, Any] | None

    def __init__(self, row: JobRow) -> None:
        self._id = row.id
        self._kind = row.kind
        self._queue = row.queue
        self._state = row.state
        self._priority = row.priority
        self._attempt = row.attempt
        self._max_attempts = row.max_attempts
        self._run_at = row.run_at
        self._created_at = row.created_at
        self._attempted_at = row.attempted_at
        self._finalized_at = row.finalized_at
        self._deadline = row.deadline
        self._args_json: str | None = row.args_json
        self._payload_json = row.payload_json
        self._payload = None
        self._output_json = row.output_json

    @property
    def id(self) -> int:
        """The job's number; it stays the same across retries and moves."""
        return self._id

    @property
    def kind(self) -> str:
        """The name that handlers are registered under, such as `send_email`."""
        return self._kind

    @property
    def queue(self) -> str:
        """The queue that the job is in."""
        return self._queue

    @property
    def state(self) -> JobState:
        """Where the job is in its life."""
        return self._state

    @property
    def priority(self) -> int:
        """From 1, the highest, to 4."""
        return self._priority

    @property
    def attempt(self) -> int:
        """How many attempts there have been, this one included; snoozed ones do not count."""
        return self._attempt

    @property
    def max_attempts(self) -> int:
        """After so many attempts a failing job fails for good."""
        return self._max_attempts

    @property
    def run_at(self) -> datetime:
        """When the job is or was due."""
        return self._run_at

    @property
    def created_at(self) -> datetime:
        """When the job was enqueued."""
        return self._created_at

    @property
    def attempted_at(self) -> datetime | None:
        """When the latest attempt was claimed, None when there was none."""
        return self._attempted_at

    @property
    def finalized_at(self) -> datetime | None:
        """When the job ended, or its latest failed attempt did; None before."""
        return self._finalized_at

    @property
    def deadline(self) -> datetime | None:
        """When the running attempt is given up, None for never."""
        return self._deadline

    @property
    def args(self) -> T:
        """What the job was enqueued with."""
        if self._args_json is not None:
            self._args = decode(self._args_json)
            self._args_json = None
        args: T = self._args
        return args

    @property
    def metadata(self) -> dict[str, Any]:
        """What the producer noted beside the args; keys with `awa:` and `_awa_` are Awa's own."""
        metadata: dict[str, Any] = self._extras().get("metadata") or {}
        return metadata

    @property
    def traceparent(self) -> str | None:
        """The W3C trace context of the producer, None when there was none."""
        return self.metadata.get("awa:traceparent")

    @property
    def tags(self) -> list[str]:
        """The labels that the producer gave the job."""
        return self._extras().get("tags") or []

    @property
    def errors(self) -> list[dict[str, Any]]:
        """The failures so far, oldest first: `error`, `attempt`, `at`, and at times more keys.

        `terminal` marks an error that ended the job; `output` is what that attempt had recorded.
        """
        return self._extras().get("errors") or []

    @property
    def progress(self) -> dict[str, Any] | None:
        """What the latest attempt reported: `percent`, and at times `message` and `metadata`."""
        return self._extras().get("progress")

    @property
    def output(self) -> Any:
        """The output as plain JSON values, None when there is none; see the class."""
        return None if self._output_json is None else decode(self._output_json)

    def output_as[O](self, output_type: type[O]) -> O | None:
        """Return the output decoded as `output_type`, None when there is none.

        Pydantic models validate it, dataclasses are constructed by keywords, other classes must be
        the value's own. Raises `SerializationError` when it does not fit.
        """
        return _decoded(self.output, output_type)

    def error_output_as[O](self, output_type: type[O]) -> O | None:
        """Return the output of the latest failed attempt that recorded one, like `output_as`."""
        outputs = [entry["output"] for entry in self.errors if "output" in entry]
        return _decoded(outputs[-1], output_type) if outputs else None

    def is_cancelled(self) -> bool:
        """Whether this attempt should stop: it was cancelled, or its worker is shutting down."""
        raise _not_running("is_cancelled")

    def set_output(self, output: object) -> None:
        """Record what this attempt produced, replacing any earlier value; None clears it.

        Raises `OutputError`, which leaves no output behind: `OutputInvalid` for a value without a
        JSON form or of another type than the kind declares, `OutputTooLarge` over 4 KiB of JSON
        text, `OutputSealed` after the handler has returned.
        """
        raise _not_running("set_output")

    def clear_output(self) -> None:
        """Drop what this attempt has recorded. Does nothing after the handler has returned."""
        raise _not_running("clear_output")

    def output_slot(self) -> OutputSlot:
        """Return the slot behind `set_output`, for tasks and threads that need nothing else."""
        raise _not_running("output_slot")

    def set_progress(self, percent: float, message: str | None = None) -> None:
        """Report the percentage done, brought into 0 to 100, and a message; costs no round trip."""
        raise _not_running("set_progress")

    def update_metadata(self, changes: dict[str, Any]) -> None:
        """Merge `changes` into the progress's metadata, which the next attempt sees too."""
        raise _not_running("update_metadata")

    async def flush_progress(self) -> None:
        """Write the progress now instead of at the next heartbeat."""
        raise _not_running("flush_progress")

    def to_dict(self) -> dict[str, Any]:
        """Return everything as JSON values, times in RFC 3339.

        Args that a foreign producer stored and that cannot be decoded are their text.
        """
        return {
            "id": self.id,
            "kind": self.kind,
            "queue": self.queue,
            "state": str(self.state),
            "priority": self.priority,
            "attempt": self.attempt,
            "max_attempts": self.max_attempts,
            "run_at": _rfc3339(self.run_at),
            "created_at": _rfc3339(self.created_at),
            "attempted_at": _rfc3339(self.attempted_at),
            "finalized_at": _rfc3339(self.finalized_at),
            "deadline": _rfc3339(self.deadline),
            "args": self._plain_args(),
            "metadata": self.metadata,
            "tags": self.tags,
            "errors": self.errors,
            "progress": self.progress,
            "output": self.output,
        }

    def _plain_args(self) -> Any:
        try:
            return self.args
        except SerializationError:
            return self._args_json

    def _extras(self) -> dict[str, Any]:
        extras = self._payload
        if extras is None:
            text = self._payload_json
            extras = self._payload = {} if text is None else decode(text)
        return extras

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Job):
            return NotImplemented
        return self.to_dict() == other.to_dict()

    def __hash__(self) -> int:
        return hash(self._id)

    def __repr__(self) -> str:
        return (
            f"<Job {self.id} {self.kind} in {self.queue}: {self.state}, "
            f"attempt {self.attempt} of {self.max_attempts}>"
        )


def _decoded[O](value: Any, output_type: type[O]) -> O | None:
    if value is None:
        return None
    decoded: O = decoder_for(output_type, "output").from_value(value)
    return decoded


def _rfc3339(at: datetime | None) -> str | None:
    if at is None:
        return None
    return at.astimezone(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")


def _not_running(method: str) -> RuntimeError:
    return RuntimeError(
        f"{method} belongs to a running attempt: call it on the job that a handler is given, "
        "not on one read from the database"
    )
