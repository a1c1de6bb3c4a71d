"""The progress of one attempt, buffered in memory until the next heartbeat or transition.

A handler reports as often as it likes; each report is checked and encoded at once and costs no
round trip. The generation tells whether something has changed since it was last written: the
runtime takes a snapshot, writes it, and acknowledges that snapshot's generation, so a report that
came in meanwhile stays due.
"""

import threading
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

from awa.encoding import MAX_PROGRESS_BYTES, decode, encode
from awa.errors import ValidationError


@dataclass(frozen=True, slots=True)
class ProgressSnapshot:
    """The JSON text of a progress and the generation it belongs to."""

    generation: int
    text: str


class Progress:
    """A progress buffer: percent, message and metadata. Safe to share between threads."""

    __slots__ = ("_generation", "_lock", "_text", "_value", "_written")

    def __init__(self, stored: dict[str, Any] | None = None) -> None:
        """Start from what an earlier attempt left behind, None for nothing."""
        self._lock = threading.Lock()
        self._value: dict[str, Any] = dict(stored) if stored else {}
        self._text: str | None = None
        self._generation = self._written = 0

    def set(self, percent: float, message: str | None = None) -> None:
        """Report the percentage done, brought into 0 to 100, and a message; keep the metadata.

        Raises `ValidationError` for something else than a number, `SerializationError` for a
        message that cannot be stored. The buffer is then as it was.
        """
        fields: dict[str, Any] = {"percent": _percent(percent)}
        if message is not None:
            fields["message"] = message
        with self._lock:
            if "metadata" in self._value:
                fields["metadata"] = self._value["metadata"]
            self._replace(fields)

    def update_metadata(self, changes: dict[str, Any]) -> None:
        """Merge `changes` into the metadata, one level deep.

        Raises `SerializationError` when they have no JSON form or the progress would exceed 64 KiB
        of JSON text. The buffer is then as it was.
        """
        if not isinstance(changes, dict):
            raise ValidationError(f"metadata is a dict, not a {type(changes).__name__}")
        with self._lock:
            merged = {**(self._value.get("metadata") or {}), **changes}
            self._replace({"percent": 0, **self._value, "metadata": merged})

    def get(self) -> dict[str, Any] | None:
        """Return the progress as plain JSON values, None when there is none; a copy."""
        with self._lock:
            return deepcopy(self._value) or None

    def unwritten(self) -> ProgressSnapshot | None:
        """Return what is to be written, None when everything has been."""
        with self._lock:
            if self._text is None or self._generation == self._written:
                return None
            return ProgressSnapshot(self._generation, self._text)

    def acknowledge(self, snapshot: ProgressSnapshot) -> None:
        """Note that `snapshot` has been written; reports made since then stay due."""
        with self._lock:
            self._written = max(self._written, snapshot.generation)

    def _replace(self, value: dict[str, Any]) -> None:
        text = encode(value, "progress", MAX_PROGRESS_BYTES)
        self._value, self._text = decode(text), text  # the caller may go on changing its own
        self._generation += 1


def _percent(percent: float) -> int:
    if isinstance(percent, bool) or not isinstance(percent, int | float) or percent != percent:
        raise ValidationError("percent is a number from 0 to 100")
    return int(min(max(percent, 0), 100))
