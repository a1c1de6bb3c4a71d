"""The converter against a slow reference that knows only the rules."""

import contextlib
import json
from typing import Any

from hypothesis import given

from awa.encoding import decode, encode
from awa.errors import OutputError, SerializationError
from awa.output import MAX_OUTPUT_BYTES, OutputSlot
from support.json_values import values, verdict


def identical(left: Any, right: Any) -> bool:
    """Whether both are equal with the same types everywhere, zeros with their sign."""
    return type(left) is type(right) and repr(left) == repr(right)


def refusal_of(value: Any) -> str | None:
    """Return the position at which the converter refuses a value, None when it accepts it."""
    try:
        encode(value, "value")
    except SerializationError as error:
        return str(error).partition(": ")[0]
    return None


@given(values)
def test_verdict_value_and_position_are_those_of_the_reference(value: Any) -> None:
    expected, position = verdict(value)
    assert refusal_of(value) == position
    if position is None:
        text = encode(value, "value")
        assert identical(decode(text), expected)
        assert json.loads(text) == expected


@given(values)
def test_an_output_is_recorded_exactly_when_the_value_encodes_within_the_limit(value: Any) -> None:
    slot = OutputSlot()
    slot.set("earlier")
    expected = None
    with contextlib.suppress(OutputError):
        slot.set(value)
    with contextlib.suppress(SerializationError):
        expected = None if value is None else encode(value, "output", MAX_OUTPUT_BYTES)
    assert slot.seal() == expected
