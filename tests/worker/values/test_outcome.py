import asyncio
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from awa.errors import OutputTooLarge, SerializationError, TerminalError, ValidationError
from awa.outcome import (
    MAX_ERROR_BYTES,
    Cancel,
    Cancelled,
    Completed,
    Failed,
    RetryAfter,
    RetryRequested,
    Snooze,
    Snoozed,
    classify,
    error_text,
    failed_for_good,
)


def raised(error: Exception) -> Exception:
    """Return the exception with a traceback, as a handler leaves it."""
    try:
        raise error
    except Exception as caught:  # noqa: BLE001 - the point of the helper
        return caught


RETURNED = [
    (None, Completed()),
    (RetryAfter(30), RetryRequested(timedelta(seconds=30))),
    (RetryAfter(timedelta(minutes=2)), RetryRequested(timedelta(minutes=2))),
    (RetryAfter(-5), RetryRequested(timedelta(0))),
    (Snooze(0.5), Snoozed(timedelta(milliseconds=500))),
    (Snooze(timedelta(seconds=-1)), Snoozed(timedelta(0))),
    (Cancel(), Cancelled("cancelled by handler")),
    (Cancel("no longer wanted"), Cancelled("no longer wanted")),
]


@pytest.mark.parametrize(("returned", "outcome"), RETURNED, ids=repr)
def test_what_a_handler_returns_says_what_becomes_of_the_job(
    returned: Any, outcome: object
) -> None:
    assert classify(returned) == outcome


OTHERS = [0, 1, True, "text", {"a": 1}, [], object(), Cancel, Snooze, ValueError("x"), Completed]


@pytest.mark.parametrize("returned", OTHERS, ids=lambda value: type(value).__name__)
def test_any_other_returned_value_completes_the_job(returned: object) -> None:
    assert classify(returned) == Completed()


@pytest.mark.parametrize("error", [ValueError("x"), SerializationError("x"), TimeoutError()])
def test_an_exception_is_retried(error: Exception) -> None:
    outcome = classify(None, raised(error))
    assert isinstance(outcome, Failed)
    assert not outcome.terminal


class NeverAgainError(TerminalError):
    pass


@pytest.mark.parametrize(
    "error", [TerminalError("x"), NeverAgainError("x"), OutputTooLarge(5000, 4096)]
)
def test_a_terminal_error_is_not_retried(error: Exception) -> None:
    outcome = classify(None, raised(error))
    assert isinstance(outcome, Failed)
    assert outcome.terminal


def test_a_group_is_terminal_when_one_of_its_errors_is() -> None:
    inner = ExceptionGroup("inner", [KeyError("a"), TerminalError("enough")])
    outcome = classify(None, raised(ExceptionGroup("outer", [ValueError("b"), inner])))
    assert isinstance(outcome, Failed)
    assert outcome.terminal
    assert "TerminalError: enough" in outcome.error
    plain = classify(None, raised(ExceptionGroup("outer", [ValueError("b")])))
    assert isinstance(plain, Failed)
    assert not plain.terminal


async def test_a_task_group_reports_what_failed_in_it() -> None:
    async def fail() -> None:
        raise LookupError("no such page")

    try:
        async with asyncio.TaskGroup() as group:
            group.create_task(fail())
    except ExceptionGroup as error:
        text = error_text(error)
    assert "LookupError: no such page" in text


def test_a_handler_that_could_not_be_called_failed_for_good() -> None:
    assert failed_for_good(raised(SerializationError("args: bad"))).terminal


def test_an_error_text_is_type_message_and_the_end_of_the_traceback() -> None:
    def level(depth: int) -> None:
        if depth:
            level(depth - 1)
        raise ValueError("deep down")

    try:
        level(30)
    except ValueError as error:
        lines = error_text(error).splitlines()
    assert lines[0] == "ValueError: deep down"
    assert len(lines) == 11
    assert lines[-1].strip() == 'raise ValueError("deep down")'
    assert "in level" in lines[-2]


def test_an_error_without_a_message_is_its_type() -> None:
    assert error_text(KeyboardInterrupt()) == "KeyboardInterrupt"


@given(st.text(st.characters(), max_size=20), st.integers(0, 3000))
def test_error_texts_can_be_stored_and_are_bounded(message: str, repeats: int) -> None:
    text = error_text(ValueError(message * repeats))
    assert len(text.encode()) <= MAX_ERROR_BYTES
    assert "\0" not in text


def test_a_long_error_text_keeps_its_beginning_and_its_end() -> None:
    text = error_text(raised(ValueError("<" + "é" * 10_000)))
    assert text.startswith("ValueError: <é")
    assert text.endswith("raise error")


def test_an_exception_that_cannot_be_printed_still_gives_an_outcome() -> None:
    class BrokenError(Exception):
        def __str__(self) -> str:
            raise RuntimeError("again")

    assert error_text(BrokenError()).startswith("BrokenError: ")


def test_a_cancel_reason_can_be_stored() -> None:
    outcome = classify(Cancel("a\0b"))
    assert isinstance(outcome, Cancelled)
    assert outcome.error == "cancelled: a\\x00b"


@pytest.mark.parametrize("make", [RetryAfter, Snooze])
@pytest.mark.parametrize("delay", [float("nan"), float("inf"), 1e300, 10**400, timedelta.max])
def test_a_delay_without_end_is_refused(make: type, delay: Any) -> None:
    with pytest.raises(ValidationError, match=f"{make.__name__} takes a delay"):
        make(delay)


@pytest.mark.parametrize("make", [RetryAfter, Snooze])
@pytest.mark.parametrize("delay", ["5", None, True])
def test_a_delay_that_is_no_number_is_refused(make: type, delay: Any) -> None:
    with pytest.raises(ValidationError, match="seconds or a timedelta, not a"):
        make(delay)


def test_returned_values_are_values() -> None:
    assert RetryAfter(60) == RetryAfter(timedelta(minutes=1))
    assert RetryAfter(60).seconds == 60
    assert Snooze(60) != RetryAfter(60)
    assert len({Cancel("a"), Cancel("a"), Cancel("b")}) == 2
    with pytest.raises(AttributeError):
        Snooze(1).delay = timedelta(2)  # type: ignore[misc]


@pytest.mark.parametrize(
    ("seconds", "text"), [(30, "30s"), (0.5, "0.5s"), (0, "0s"), (86_400 * 400, "34560000s")]
)
def test_a_requested_delay_is_named_in_seconds(seconds: float, text: str) -> None:
    assert RetryRequested(timedelta(seconds=seconds)).delay_text == text
