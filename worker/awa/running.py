"""The job of one attempt, as its handler sees it.

One is made for every attempt, so it is made of what the claim already has: a tuple per job, shared
values per claim. The output slot and the progress buffer come into being when first used; sealing
an attempt that never recorded anything touches neither.
"""

import threading
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Protocol

from awa.encoding import decode, encode
from awa.job import Job, JobState
from awa.output import OutputSlot
from awa.progress import Progress

type ClaimedItem = tuple[int, str, datetime, datetime, int, int, str | None]
"""id, kind, created_at, run_at, attempts before this one, max_attempts, payload JSON."""


@dataclass(frozen=True, slots=True)
class ClaimHead:
    """What the jobs of one claim have in common. `priority` is the effective one."""

    queue: str
    priority: int
    claimed_at: datetime
    deadline: datetime | None


class AttemptPort(Protocol):
    """What a running job asks of the worker that runs it."""

    async def flush_progress(self, job: "RunningJob[Any]") -> None:
        """Write the job's unwritten progress; returns when it is stored."""


class RunningJob[T](Job[T]):
    """The `Job` that a handler is given, and what the runtime needs of it."""

    __slots__ = ("_cancelled", "_declared", "_port", "_progress", "_slot")

    def __init__(
        self,
        head: ClaimHead,
        item: ClaimedItem,
        args: T,
        declared: Any = None,
        port: AttemptPort | None = None,
    ) -> None:
        """Make the job of one attempt; `declared` is the output type of the kind, None for any."""
        (
            self._id,
            self._kind,
            self._created_at,
            self._run_at,
            before,
            self._max_attempts,
            self._payload_json,
        ) = item
        self._attempt = before + 1
        self._queue = head.queue
        self._priority = head.priority
        self._attempted_at = head.claimed_at
        self._deadline = head.deadline
        self._args = args
        self._args_json = None
        self._payload = None
        self._declared = declared
        self._port = port
        self._cancelled = False
        self._slot: OutputSlot | None = None
        self._progress: Progress | None = None

    @property
    def state(self) -> JobState:
        """Always running."""
        return JobState.Running

    @property
    def finalized_at(self) -> datetime | None:
        """Always None."""
        return None

    @property
    def errors(self) -> list[dict[str, Any]]:
        """The failures so far, oldest first, without outputs: those are no checkpoints."""
        return [
            {key: value for key, value in entry.items() if key != "output"}
            for entry in self._extras().get("errors") or ()
        ]

    @property
    def progress(self) -> dict[str, Any] | None:
        """What was reported so far, by this attempt or, before its first report, an earlier one."""
        progress = self._progress
        return self._extras().get("progress") if progress is None else progress.get()

    @property
    def output(self) -> Any:
        """What this attempt has recorded so far as plain JSON values, None for nothing."""
        slot = self._slot
        return None if slot is None else slot.get()

    def is_cancelled(self) -> bool:
        """Whether this attempt should stop: it was cancelled, or its worker is shutting down."""
        return self._cancelled

    def set_output(self, output: object) -> None:
        """Record what this attempt produced; see `Job.set_output`."""
        self.output_slot().set(output)

    def clear_output(self) -> None:
        """Drop what this attempt has recorded; does nothing after the handler has returned."""
        slot = self._slot
        if slot is not None:
            slot.clear()

    def output_slot(self) -> OutputSlot:
        """Return the slot behind `set_output`, for tasks and threads that need nothing else."""
        slot = self._slot
        if slot is None:
            with _first_use:
                slot = self._slot
                if slot is None:
                    slot = self._slot = OutputSlot(self._declared)
        return slot

    def set_progress(self, percent: float, message: str | None = None) -> None:
        """Report the percentage done, brought into 0 to 100, and a message; costs no round trip."""
        self._buffer().set(percent, message)

    def update_metadata(self, changes: dict[str, Any]) -> None:
        """Merge `changes` into the progress's metadata, which the next attempt sees too."""
        self._buffer().update_metadata(changes)

    async def flush_progress(self) -> None:
        """Write the progress now instead of at the next heartbeat."""
        if self._port is None:
            raise RuntimeError("flush_progress needs a worker; this attempt runs without one")
        await self._port.flush_progress(self)

    def cancel(self) -> None:
        """Ask the handler to stop. For the runtime; to cancel a job, use the client."""
        self._cancelled = True

    def seal(self) -> str | None:
        """Close the output and return its JSON text. For the runtime, once the handler is done."""
        with _first_use:
            slot = self._slot
            if slot is None:
                self._slot = _SEALED
                return None
        return slot.seal()

    @property
    def progress_buffer(self) -> Progress | None:
        """The buffer to write from, None when nothing was reported. For the runtime."""
        return self._progress

    def _buffer(self) -> Progress:
        progress = self._progress
        if progress is None:
            with _first_use:
                progress = self._progress
                if progress is None:
                    progress = self._progress = Progress(self._extras().get("progress"))
        return progress

    def _plain_args(self) -> Any:
        return decode(encode(self._args, "args"))

    def __eq__(self, other: object) -> bool:
        return self is other

    def __hash__(self) -> int:
        return hash(self._id)


# One lock for all jobs: it is held for an assignment only, and only around a job's first use.
_first_use = threading.Lock()

_SEALED = OutputSlot()
_SEALED.seal()
