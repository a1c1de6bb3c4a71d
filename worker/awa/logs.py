"""Structured logs of the processes that `awa` starts: one line for each event, on standard error.

`AWA_LOG_FORMAT` is `json` (the default unless standard error is a terminal) or `text`;
`AWA_LOG_LEVEL` is a level's name, `info` by default. The fields of `extra` are part of a line. Our
own loggers never say what a job was given, recorded or failed with: of an exception that is not one
of ours they log the type and where it was raised, not its message, which the job's errors keep.
"""

import asyncio
import json
import logging
import sys
import traceback
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any, TextIO

from awa.errors import AwaError, DatabaseError, TerminalError, ValidationError

LEVELS = ("debug", "info", "warning", "error")
FORMATS = ("json", "text")
LONGEST_TEXT = 2000
"""Characters of one field that are logged."""

_STANDARD = frozenset(logging.makeLogRecord({}).__dict__) | {"message", "asctime", "taskName"}


def configure(environ: Mapping[str, str], stream: TextIO | None = None) -> None:
    """Send every log record to `stream`, standard error when there is none.

    Raises `ValidationError` for a format or a level that does not exist.
    """
    stream = sys.stderr if stream is None else stream
    wanted = environ.get("AWA_LOG_FORMAT", "").strip().lower()
    level = environ.get("AWA_LOG_LEVEL", "").strip().lower() or "info"
    if wanted not in {"", *FORMATS}:
        raise ValidationError(f"AWA_LOG_FORMAT takes {' or '.join(FORMATS)}")
    if level not in LEVELS:
        raise ValidationError(f"AWA_LOG_LEVEL takes {', '.join(LEVELS)}")
    as_text = wanted == "text" or (not wanted and stream.isatty())
    handler = logging.StreamHandler(stream)
    handler.setFormatter(TextFormatter() if as_text else JsonFormatter())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())


def note_task_errors(loop: asyncio.AbstractEventLoop) -> None:
    """Log errors that nobody awaits without the values that asyncio would print."""

    def note(_: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        error = context.get("exception")
        logging.getLogger("awa.loop").error("an error that nobody awaited", exc_info=error)

    loop.set_exception_handler(note)


class JsonFormatter(logging.Formatter):
    """One JSON object a line: time, level, logger, process, message, the fields, the error."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line of a record."""
        line: dict[str, Any] = {
            "time": _time(record),
            "level": record.levelname.lower(),
            "logger": record.name,
            "process": record.process,
            "message": record.getMessage(),
        }
        for name, value in _fields(record):
            line[f"{name}_" if name in line else name] = _plain(value)
        if record.exc_info:
            line["exception"] = "\n".join(_trace(record))
        return json.dumps(line, ensure_ascii=False)


class TextFormatter(logging.Formatter):
    """A line for people: time, level, logger, message, then the fields as name=value."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line of a record, and the lines of its error."""
        fields = "".join(f" {name}={_shown(_plain(value))}" for name, value in _fields(record))
        head = f"{_time(record)[11:23]} {record.levelname.lower():<7} {record.name}"
        lines = [f"{head}: {_shown(record.getMessage())}{fields}"]
        if record.exc_info:
            lines += [f"    {_shown(line)}" for line in _trace(record)]
        return "\n".join(lines)


def _time(record: logging.LogRecord) -> str:
    return datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")


def _fields(record: logging.LogRecord) -> Iterator[tuple[str, Any]]:
    for name, value in record.__dict__.items():
        if name not in _STANDARD and not name.startswith("_"):
            yield name, value


def _plain(value: Any) -> Any:
    """Return what a field shows: plain values as they are, others by their type alone."""
    if value is None or isinstance(value, bool | int):
        return value
    if isinstance(value, float):
        return value if value == value and abs(value) != float("inf") else str(value)
    if isinstance(value, str):
        return value if len(value) <= LONGEST_TEXT else value[:LONGEST_TEXT] + "…"
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value[:100]]
    return type(value).__name__


def _shown(value: Any) -> str:
    """Return a value as a terminal may show it: no control characters."""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return "".join(
        character if character.isprintable() else character.encode("unicode_escape").decode()
        for character in text
    )


def _trace(record: logging.LogRecord) -> list[str]:
    """Return the lines of a record's error."""
    error = record.exc_info[1] if record.exc_info else None
    if error is None:
        return []
    if record.name.partition(".")[0] != "awa":
        lines = traceback.format_exception(error)
        return "".join(lines).rstrip().splitlines()
    return list(_places(error, frozenset()))


def _places(error: BaseException, seen: frozenset[int]) -> Iterator[str]:
    """Yield the types of an error and its causes with where they were raised, no values."""
    cause = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    if cause is not None and id(cause) not in seen:
        yield from _places(cause, seen | {id(error)})
        yield "which led to"
    for frame in traceback.extract_tb(error.__traceback__):
        yield f"{frame.filename}:{frame.lineno} in {frame.name}"
    name, text = type(error).__name__, text_without_values(error)
    yield name if text is None else f"{name}: {text}"


def text_without_values(error: BaseException) -> str | None:
    """Return a message of ours; None for those that handlers and PostgreSQL write."""
    kind = type(error)
    ours = isinstance(error, AwaError) and kind.__module__.partition(".")[0] == "awa"
    return str(error) if ours and kind not in {TerminalError, DatabaseError} else None
