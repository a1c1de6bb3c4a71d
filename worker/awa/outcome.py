"""What a handler may return, what becomes of it, and the one mapping between the two.

A handler ends in one of these ways; `classify` is the only place that says what each means:

    returned None or anything else      Completed
    returned RetryAfter(…)              RetryRequested   counts the attempt
    returned Snooze(…)                  Snoozed          does not count the attempt
    returned Cancel(…)                  Cancelled
    raised an exception                 Failed           retried with backoff
    raised TerminalError                Failed           terminal: not retried

Whether a retry is still possible is decided where the outcome is written, by the job's own counts.
"""

import linecache
import types
from dataclasses import dataclass
from datetime import timedelta

from awa.errors import TerminalError, ValidationError

MAX_ERROR_BYTES = 8 * 1024
"""Limit of a stored error text in UTF-8 bytes; longer texts lose their middle."""
MAX_DELAY = timedelta(days=3650)
"""The longest delay that RetryAfter and Snooze take."""
TRACEBACK_LINES = 10
"""How many lines of the traceback's end an error text keeps."""


@dataclass(frozen=True, slots=True, init=False)
class RetryAfter:
    """Return it from a handler: run the job again after a delay; the attempt counts.

    The delay is in seconds or a timedelta; a negative one means at once. The job fails when no
    attempt is left. Raises `ValidationError` for a delay that is not a number or over ten years.
    """

    delay: timedelta

    def __init__(self, seconds: float | timedelta) -> None:
        object.__setattr__(self, "delay", _delay("RetryAfter", seconds))

    @property
    def seconds(self) -> float:
        """The delay in seconds."""
        return self.delay.total_seconds()


@dataclass(frozen=True, slots=True, init=False)
class Snooze:
    """Return it from a handler: run the job again after a delay, as if it had not run.

    The delay is in seconds or a timedelta; a negative one means at once. The attempt does not
    count, so a job may snooze for ever. An output is discarded. Raises `ValidationError` for a
    delay that is not a number or over ten years.
    """

    delay: timedelta

    def __init__(self, seconds: float | timedelta) -> None:
        object.__setattr__(self, "delay", _delay("Snooze", seconds))

    @property
    def seconds(self) -> float:
        """The delay in seconds."""
        return self.delay.total_seconds()


@dataclass(frozen=True, slots=True)
class Cancel:
    """Return it from a handler: end the job as cancelled; it is never run again by itself."""

    reason: str = "cancelled by handler"


@dataclass(frozen=True, slots=True)
class Completed:
    """The handler succeeded."""


@dataclass(frozen=True, slots=True)
class Failed:
    """The handler raised; `error` is the text to store. A `terminal` failure is never retried."""

    error: str
    terminal: bool = False


@dataclass(frozen=True, slots=True)
class RetryRequested:
    """The handler asked to be run again after `delay`; the attempt counts."""

    delay: timedelta

    @property
    def delay_text(self) -> str:
        """The delay as error entries name it, such as `30s`."""
        return f"{self.delay.total_seconds():.12g}s"


@dataclass(frozen=True, slots=True)
class Snoozed:
    """The handler asked to be run again after `delay`; the attempt does not count."""

    delay: timedelta


@dataclass(frozen=True, slots=True)
class Cancelled:
    """The handler gave up the job for `reason`."""

    reason: str

    @property
    def error(self) -> str:
        """The text of the error entry."""
        return f"cancelled: {self.reason}"


type Outcome = Completed | Failed | RetryRequested | Snoozed | Cancelled

COMPLETED = Completed()


def classify(returned: object, raised: Exception | None = None) -> Outcome:
    """Return the outcome of a handler that returned `returned`, or raised `raised`.

    An exception group is terminal when a `TerminalError` is anywhere in it.
    """
    if raised is not None:
        return Failed(error_text(raised), terminal=_is_terminal(raised))
    match returned:
        case None:
            return COMPLETED
        case RetryAfter(delay=delay):
            return RetryRequested(delay)
        case Snooze(delay=delay):
            return Snoozed(delay)
        case Cancel(reason=reason):
            return Cancelled(_storable(str(reason)))
        case _:
            return COMPLETED


def failed_for_good(raised: Exception) -> Failed:
    """Return the outcome of an attempt whose handler could not be called, as with bad args."""
    return Failed(error_text(raised), terminal=True)


def error_text(error: BaseException) -> str:
    """Return what is stored of an exception: `Type: message` and the traceback's last lines.

    At most `MAX_ERROR_BYTES` of UTF-8, without characters that PostgreSQL cannot store.
    """
    lines = [_headline(error)]
    if isinstance(error, BaseExceptionGroup):
        lines += [f"  - {_headline(leaf)}" for leaf in _leaves(error)]
    lines += _frames(error.__traceback__)[-TRACEBACK_LINES:]
    return _storable("\n".join(lines))


def _delay(name: str, seconds: float | timedelta) -> timedelta:
    if isinstance(seconds, timedelta):
        delay = seconds
    elif isinstance(seconds, bool) or not isinstance(seconds, int | float):
        raise ValidationError(
            f"{name} takes seconds or a timedelta, not a {type(seconds).__name__}"
        )
    elif not seconds <= MAX_DELAY.total_seconds():  # NaN too
        raise ValidationError(f"{name} takes a delay of up to {MAX_DELAY.days} days")
    else:
        delay = timedelta(seconds=max(seconds, 0))
    if delay > MAX_DELAY:
        raise ValidationError(f"{name} takes a delay of up to {MAX_DELAY.days} days")
    return max(delay, timedelta(0))


def _is_terminal(error: BaseException) -> bool:
    if isinstance(error, BaseExceptionGroup):
        return any(isinstance(leaf, TerminalError) for leaf in _leaves(error))
    return isinstance(error, TerminalError)


def _leaves(group: BaseExceptionGroup[BaseException]) -> list[BaseException]:
    leaves: list[BaseException] = []
    for error in group.exceptions:
        leaves += _leaves(error) if isinstance(error, BaseExceptionGroup) else [error]
    return leaves


def _headline(error: BaseException) -> str:
    try:
        message = str(error)
    except Exception:  # noqa: BLE001 - a broken __str__ must not cost the job its outcome
        message = "(the exception has no readable message)"
    name = type(error).__name__
    return f"{name}: {message}" if message else name


def _frames(entry: types.TracebackType | None) -> list[str]:
    # Not the traceback module: it also works out columns, at many times the cost of a failed job.
    lines = []
    while entry is not None:
        code, number = entry.tb_frame.f_code, entry.tb_lineno
        lines.append(f'  File "{code.co_filename}", line {number}, in {code.co_name}')
        source = linecache.getline(code.co_filename, number, entry.tb_frame.f_globals).strip()
        if source:
            lines.append(f"    {source}")
        entry = entry.tb_next
    return lines


def _storable(text: str) -> str:
    text = text.replace("\0", "\\x00")
    data = text.encode("utf-8", "backslashreplace")
    if len(data) <= MAX_ERROR_BYTES:
        return data.decode()
    half = (MAX_ERROR_BYTES - len(_CUT)) // 2
    return (data[:half] + _CUT + data[-half:]).decode("utf-8", "ignore")


_CUT = b"\n[...]\n"
