"""The output of one attempt: recorded by the handler, sealed when it returns.

Parties: the handler and every task or thread that holds the slot record; the executor seals once;
the finisher owns the sealed text and sends the same text however often it has to.

What holds: values are encoded and checked before the lock is taken, so nothing that can fail
reaches the finalizing transition, and a slow value does not hold up others. Calls take effect in
the order in which they reach the lock; the last to finish wins, whether it recorded, cleared or
failed. A failed call leaves the slot empty: an older value would look like the current one. After
the seal nothing changes any more.
"""

import threading
from typing import Any

from awa.encoding import decode, encode
from awa.errors import (
    OutputInvalid,
    OutputSealed,
    OutputTooLarge,
    SerializationError,
    ValueTooLarge,
)

MAX_OUTPUT_BYTES = 4 * 1024
"""Limit of an output in bytes of JSON text; a text of exactly this size is accepted."""


class OutputSlot:
    """Where an attempt's output is recorded. Safe to share between tasks and threads."""

    __slots__ = ("_declared", "_lock", "_sealed", "_text")

    def __init__(self, declared: Any = None) -> None:
        """Make an empty slot; `declared` is the output type of the kind, None for any."""
        self._declared = declared
        self._lock = threading.Lock()
        self._sealed = False
        self._text: str | None = None

    def set(self, output: object) -> None:
        """Record `output`, replacing any earlier one; None clears the slot.

        Raises `OutputInvalid`, `OutputTooLarge` (both leave the slot empty) or `OutputSealed`. The
        attempt may go on after either.
        """
        try:
            text = None if output is None else encode_output(output, self._declared)
        except Exception:
            self._replace(None)
            raise
        self._replace(text)

    def clear(self) -> None:
        """Empty the slot. Does nothing after the seal."""
        with self._lock:
            if not self._sealed:
                self._text = None

    def get(self) -> Any:
        """Return the output recorded so far as plain JSON values, None when there is none."""
        text = self._text
        return None if text is None else decode(text)

    def seal(self) -> str | None:
        """Close the slot for good and return the recorded JSON text; safe to repeat."""
        with self._lock:
            self._sealed = True
            return self._text

    @property
    def is_sealed(self) -> bool:
        """Whether the handler has returned."""
        return self._sealed

    def _replace(self, text: str | None) -> None:
        with self._lock:
            if self._sealed:
                raise OutputSealed
            self._text = text


def encode_output(output: object, declared: Any = None) -> str:
    """Return the JSON text of an output that is not None, within `MAX_OUTPUT_BYTES`.

    Raises `OutputInvalid`, also for an instance of another class than `declared`, or
    `OutputTooLarge`. A declared type that isinstance cannot check, such as `list[int]` or a
    TypedDict, is not enforced.
    """
    if declared is not None and not _is_instance(output, declared):
        raise OutputInvalid(
            f"output: a {type(output).__name__} was recorded and the kind declares "
            f"{getattr(declared, '__name__', declared)}; record that type or change the declaration"
        )
    try:
        return encode(output, "output", MAX_OUTPUT_BYTES)
    except ValueTooLarge as error:
        raise OutputTooLarge(error.size_bytes, error.limit_bytes) from None
    except SerializationError as error:
        raise OutputInvalid(str(error)) from None


def _is_instance(output: object, declared: Any) -> bool:
    try:
        return isinstance(output, declared)
    except TypeError:  # list[int], a TypedDict and the like
        return True
