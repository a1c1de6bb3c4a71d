"""Values that people pass as args and outputs, and what the rules say of them.

`reference` knows only the rules of docs/reference/values.md, and is slow. `values` makes good
values and odd ones, at any depth.
"""

import dataclasses
import enum
import math
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from random import Random
from typing import Any
from uuid import UUID

from hypothesis import strategies as st

MAX_DEPTH = 100


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


class Celsius(float):
    """A float by inheritance, as numpy's float64 is."""

    __slots__ = ()


class Half:
    """A number by its methods alone, as numpy's float32 is."""

    def __float__(self) -> float:
        return 0.5


class RefusedError(Exception):
    """The reference's verdict; its argument is the position."""


def reference(value: Any, *path: str, depth: int = MAX_DEPTH) -> Any:
    """Say what a value reads back as, slowly and by the rules alone."""
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        if "\0" in value or any(0xD800 <= ord(c) <= 0xDFFF for c in value):
            raise RefusedError("".join(path))
        return "".join(value)
    if isinstance(value, int):
        if not -(2**63) <= value < 2**64:
            raise RefusedError("".join(path))
        return int(value)
    if isinstance(value, float):
        if math.isnan(value) or math.isinf(value):
            raise RefusedError("".join(path))
        return float(value)
    return _reference_container(value, *path, depth=depth)


def _reference_container(value: Any, *path: str, depth: int) -> Any:
    if depth == 0:
        raise RefusedError("".join(path[:2]))  # the whole way would be a hundred steps
    if isinstance(value, Pair | Single):
        value = {f.name: getattr(value, f.name) for f in dataclasses.fields(value)}
    if isinstance(value, list | tuple):
        return [reference(item, *path, f"[{i}]", depth=depth - 1) for i, item in enumerate(value)]
    if not isinstance(value, dict):
        raise RefusedError("".join(path))
    plain = {}
    for position, (key, item) in enumerate(value.items()):
        if not isinstance(key, str):
            raise RefusedError("".join(path))
        named = key.replace("-", "_").isidentifier() and key.isascii() and key[0] != "-"
        step = f".{key}" if named and len(key) <= 64 else f".<key {position}>"
        name = reference(key, *path, f".<key {position}>")
        plain[name] = reference(item, *path, step, depth=depth - 1)
    return plain


def verdict(value: Any, what: str = "value") -> tuple[Any, str | None]:
    """Return what a value reads back as, or None and the position at which it is refused."""
    try:
        return reference(value, what), None
    except RefusedError as refused:
        return None, refused.args[0]


def same(left: Any, right: Any) -> bool:
    """Whether two plain values are equal and of the same types everywhere."""
    if type(left) is not type(right):
        return False
    if isinstance(left, dict):
        return left.keys() == right.keys() and all(same(left[key], right[key]) for key in left)
    if isinstance(left, list):
        return len(left) == len(right) and all(map(same, left, right))
    return bool(left == right)


def nested(depth: int) -> Any:
    """Return lists inside each other."""
    value: Any = 0
    for _ in range(depth):
        value = [value]
    return value


_texts = st.text(st.characters(), max_size=8) | st.sampled_from(
    ["\0", "a\0", "\\u0000", "\ud83d", "é", "e\u0301", "\u202e", "\x1b[31m"]
)
_odd_scalars = st.sampled_from(
    [
        float("nan"),
        float("inf"),
        -float("inf"),
        float("1e400"),
        10**30,
        -(2**63) - 1,
        2**64,
        Decimal(1),
        b"x",
        {1},
        frozenset[int](),
        datetime(2030, 1, 1, tzinfo=UTC),
        date(2030, 1, 1),
        timedelta(1),
        UUID(int=0),
        Color.RED,
        Half(),
        1j,
        object(),
    ]
)
_good_scalars = (
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | _texts
    | st.sampled_from(
        [Level.LOW, Name("n"), Celsius(1.5), -0.0, 1e16, 5e-324, 1.7e308, 2**64 - 1, -(2**63)]
    )
)
_scalars = st.one_of(_good_scalars, _good_scalars, _good_scalars, _odd_scalars)
_keys = _texts | st.sampled_from(["name", "a-b", "a b", Name("key")])
_odd_keys = _keys | st.sampled_from([1, None, 1.5, (1,)])


def _containers(children: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    lists = st.lists(children, max_size=4)
    return (
        lists
        | lists.map(tuple)
        | st.lists(st.floats(), max_size=4)
        | st.dictionaries(_keys, children, max_size=4)
        | st.dictionaries(_odd_keys, children, max_size=2)
        | st.just({1: "number", "1": "text"})
        | st.builds(Pair, children, children)
        | st.builds(Single, children)
        | st.integers(97, 200).map(nested)
    )


values = st.recursive(_scalars, _containers, max_leaves=12)
"""Values of every kind, good and odd."""


def _objects(leaves: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    names = st.text(max_size=2)
    lists = st.lists(leaves, max_size=2)
    inner = st.dictionaries(names, leaves | lists, max_size=3)
    return st.dictionaries(names, leaves | lists | inner, max_size=3)


_plain = st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.text(max_size=3)
objects_without_floats = _objects(_plain)
"""Args of plain values: objects of scalars, lists and objects."""
objects = _objects(_plain | st.floats(allow_nan=False, allow_infinity=False))
"""The same with floats."""
storable_objects = objects.filter(lambda args: verdict(args)[1] is None)
"""Those without what PostgreSQL cannot store."""


def shuffled(value: Any, random: Random) -> Any:
    """Return a value whose objects have their keys in another order."""
    if isinstance(value, dict):
        order = random.sample(list(value), len(value))
        return {name: shuffled(value[name], random) for name in order}
    if isinstance(value, list):
        return [shuffled(item, random) for item in value]
    return value


def typed(value: Any) -> Any:
    """Return something that is equal exactly when values and types are."""
    if isinstance(value, dict):
        return ("dict", frozenset((name, typed(item)) for name, item in value.items()))
    if isinstance(value, list):
        return ("list", tuple(typed(item) for item in value))
    return (type(value).__name__, repr(value))
