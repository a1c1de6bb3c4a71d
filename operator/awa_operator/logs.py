"""Structured logs: one JSON object a line on standard error, with the reconcile that it is about.

Whatever looks like a connection string, a password or a token is taken out of every line, also out
of what libraries log. Long texts are cut.
"""

import asyncio
import json
import logging
import re
import sys
import time
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import UTC, datetime
from typing import Any, TextIO

LONGEST_TEXT = 4000
"""Characters of one text that are logged."""
REPEAT_SECONDS = 60.0
"""How long the same complaint of a library is kept quiet."""

_STANDARD = frozenset(logging.makeLogRecord({}).__dict__) | {"message", "asctime", "taskName"}
_SECRETS = (
    (re.compile(r"\b(postgres(?:ql)?)://\S+", re.IGNORECASE), r"\1://[redacted]"),
    (
        re.compile(
            r"\b(password|passwd|pgpassword)(['\"]?\s*[=:]\s*)('[^']*'|\"[^\"]*\"|\S+)", re.I
        ),
        r"\1\2[redacted]",
    ),
    (re.compile(r"\b(bearer|basic)\s+[A-Za-z0-9._~+/=-]{8,}", re.IGNORECASE), r"\1 [redacted]"),
    (re.compile(r"\beyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]*"), "[redacted]"),
)
_about: ContextVar[dict[str, str]] = ContextVar("awa_operator_log_context")


def redacted(text: str) -> str:
    """Return `text` without connection strings, passwords and tokens."""
    for pattern, shown in _SECRETS:
        text = pattern.sub(shown, text)
    return text


@contextmanager
def about(**fields: str) -> Iterator[None]:
    """Add `fields` to every line that is logged inside of the block, also by tasks made there."""
    token = _about.set({**_about.get({}), **fields})
    try:
        yield
    finally:
        _about.reset(token)


def configure(level: str, stream: TextIO | None = None) -> None:
    """Send every record of at least `level` to `stream`, standard error if there is none."""
    handler = logging.StreamHandler(sys.stderr if stream is None else stream)
    handler.setFormatter(JsonFormatter())
    handler.addFilter(Repeats())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
    # Libraries tell about each single event at these levels.
    logging.getLogger("kopf").setLevel(logging.WARNING)
    logging.getLogger("asyncio").setLevel(logging.WARNING)
    logging.captureWarnings(True)


def note_task_errors(loop: asyncio.AbstractEventLoop) -> None:
    """Log errors that nobody awaits as lines like all others."""

    def note(_: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        logging.getLogger("awa_operator.loop").error(
            "an error that nobody awaited: %s",
            context.get("message", ""),
            exc_info=context.get("exception"),
        )

    loop.set_exception_handler(note)


class Repeats(logging.Filter):
    """Lets the same complaint of a library pass once a minute; ours always pass."""

    def __init__(self) -> None:
        super().__init__()
        self._seen: dict[tuple[str, str], float] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        """Return whether the record is logged."""
        if record.name.partition(".")[0] == "awa_operator":
            return True
        if record.name.startswith("kopf") and record.getMessage().startswith("OS signals are"):
            return False  # They are handled in the main thread, where kopf is not.
        now = time.monotonic()
        complaint = record.name, re.sub(r"#?\d+", "#", record.getMessage())[:120]
        if now - self._seen.get(complaint, -REPEAT_SECONDS) < REPEAT_SECONDS:
            return False
        if len(self._seen) > 256:
            self._seen.clear()
        self._seen[complaint] = now
        return True


class JsonFormatter(logging.Formatter):
    """One JSON object a line: time, level, logger, message, the fields, the error."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line of a record."""
        line: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": _text(record.getMessage()),
            **_about.get({}),
        }
        for name, value in record.__dict__.items():
            if name not in _STANDARD and not name.startswith("_"):
                line[f"{name}_" if name in line else name] = _plain(value)
        if record.exc_info and record.exc_info[1] is not None:
            line["exception"] = _text("".join(traceback.format_exception(record.exc_info[1])))
        return json.dumps(line, ensure_ascii=False)


def _text(value: str) -> str:
    shown = redacted(value)
    return shown if len(shown) <= LONGEST_TEXT else shown[:LONGEST_TEXT] + "…"


def _plain(value: Any) -> Any:
    """Return what a field shows: plain values as they are, others by their type alone."""
    if value is None or isinstance(value, bool | int | float):
        return value
    if isinstance(value, str):
        return _text(value)
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value[:100]]
    return type(value).__name__
