"""The converter against a slow reference that knows only the rules."""

import contextlib
import dataclasses
import enum
import json
import math
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any
from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st

from awa.encoding import decode, encode
from awa.errors import OutputError, SerializationError
from awa.output import MAX_OUTPUT_BYTES, OutputSlot


@dataclasses.dataclass
class Pair:
    left: Any
    right: Any = None


@dataclasses.dataclass(slots=True)
class Single:
    only: Any


class Level(enum.IntEnum):
    LOW = 1


class Color(enum.Enum):
    RED = 1


class Name(str):
    __slots__ = ()


class RefusedError(Exception):
    """The reference's verdict; its argument is the position."""


def reference(value: Any, path: str = "value", depth: int = 100) -> Any:
    """Say what a value reads back as, slowly and by the rules alone."""
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        if "\0" in value or any(0xD800 <= ord(c) <= 0xDFFF for c in value):
            raise RefusedError(path)
        return "".join(value)
    if isinstance(value, int):
        if not -(2**63) <= value < 2**64:
            raise RefusedError(path)
        return int(value)
    if isinstance(value, float):
        if math.isnan(value) or math.isinf(value):
            raise RefusedError(path)
        return value
    return reference_container(value, path, depth)


def reference_container(value: Any, path: str, depth: int) -> Any:
    if depth == 0:
        raise RefusedError(path)
    if isinstance(value, Pair | Single):
        value = {f.name: getattr(value, f.name) for f in dataclasses.fields(value)}
    if isinstance(value, list | tuple):
        return [reference(item, f"{path}[{i}]", depth - 1) for i, item in enumerate(value)]
    if not isinstance(value, dict):
        raise RefusedError(path)
    plain = {}
    for position, (key, item) in enumerate(value.items()):
        if not isinstance(key, str):
            raise RefusedError(path)
        named = key.replace("-", "_").isidentifier() and key.isascii() and key[0] != "-"
        step = f".{key}" if named and len(key) <= 64 else f".<key {position}>"
        name = reference(key, f"{path}.<key {position}>")
        plain[name] = reference(item, path + step, depth - 1)
    return plain


texts = st.text(st.characters(), max_size=8) | st.sampled_from(["\0", "a\0", "\\u0000", "\ud83d"])
odd_scalars = st.sampled_from(
    [
        float("nan"),
        float("inf"),
        -float("inf"),
        10**30,
        -(2**63) - 1,
        2**64,
        Decimal(1),
        b"x",
        {1},
        frozenset(),
        datetime(2030, 1, 1, tzinfo=UTC),
        UUID(int=0),
        Color.RED,
        object(),
    ]
)
good_scalars = (
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | texts
    | st.sampled_from([Level.LOW, Name("n"), -0.0, 2**64 - 1, -(2**63)])
)
scalars = st.one_of(good_scalars, good_scalars, good_scalars, odd_scalars)
keys = texts | st.sampled_from(["name", "a-b", "a b", Name("key")])
odd_keys = keys | st.sampled_from([1, None, 1.5, (1,)])


def containers(children: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    lists = st.lists(children, max_size=4)
    return (
        lists
        | lists.map(tuple)
        | st.lists(st.floats(), max_size=4)
        | st.dictionaries(keys, children, max_size=4)
        | st.dictionaries(odd_keys, children, max_size=2)
        | st.builds(Pair, children, children)
        | st.builds(Single, children)
    )


values = st.recursive(scalars, containers, max_leaves=12)


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
    try:
        expected, position = reference(value), None
    except RefusedError as refused:
        expected, position = None, refused.args[0]
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
