import dataclasses
import enum
import json
from collections import OrderedDict, namedtuple
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from pathlib import PurePath
from types import MappingProxyType
from typing import Any
from uuid import UUID

import pydantic
import pytest

from awa.encoding import decode, encode
from awa.errors import SerializationError, ValueTooLarge

Point = namedtuple("Point", ["x", "y"])


class Color(enum.Enum):
    RED = "red"


class Level(enum.IntEnum):
    HIGH = 3


class Word(enum.StrEnum):
    YES = "yes"


class Loud(str):
    __slots__ = ()

    def __str__(self) -> str:
        return "something else"


class Ratio(float):
    pass


class Count(int):
    def __str__(self) -> str:
        return "many"


@dataclasses.dataclass
class Item:
    name: str
    price: Any = 1.5


@dataclasses.dataclass(frozen=True, slots=True)
class Order:
    items: list[Item]
    first: Item | None = None


class Address(pydantic.BaseModel):
    city: str
    since: datetime | None = None
    ident: UUID | None = None
    size: Any = None


def nested(depth: int) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = [value]
    return value


REFUSED = {
    "nan": (float("nan"), "args: the float is not finite"),
    "infinity": ([float("inf")], "args[0]: the float is not finite"),
    "negative infinity": ({"a": {"b": float("-inf")}}, "args.a.b: the float"),
    "a float literal beyond the largest": (1e400, "args: the float is not finite"),
    "an int beyond 64 bits": (10**30, "args: the int is outside 64 bits"),
    "an int just beyond unsigned": ({"n": 2**64}, "args.n: the int is outside 64 bits"),
    "an int just below signed": ([1, -(2**63) - 1], "args[1]: the int is outside 64 bits"),
    "decimal": (Decimal("1.5"), "args: a Decimal has no JSON form"),
    "datetime": ({"at": datetime(2030, 1, 1, tzinfo=UTC)}, "args.at: a datetime"),
    "date": ([date(2030, 1, 1)], "args[0]: a date"),
    "time": (time(1), "args: a time"),
    "timedelta": (timedelta(1), "args: a timedelta"),
    "uuid": ((UUID(int=1),), "args[0]: a UUID"),
    "bytes": ({"raw": b"x"}, "args.raw: a bytes"),
    "bytearray": (bytearray(b"x"), "args: a bytearray"),
    "set": ({"tags": {"a"}}, "args.tags: a set has no JSON form; pass a sorted list"),
    "frozenset": (frozenset("a"), "args: a frozenset"),
    "plain enum": ([Color.RED], "args[0]: a Color"),
    "int key": ({1: "a"}, "args: an int is used as a key"),
    "none key": ({"a": {None: 1}}, "args.a: a NoneType is used as a key"),
    "keys that would collide": ({1: "a", "1": "b"}, "args: an int is used as a key"),
    "tuple key": ({(1, 2): 3}, "args: a tuple is used as a key"),
    "NUL in a value": ({"a": ["x", "y\0"]}, "args.a[1]: the str contains a NUL"),
    "NUL in a key": ({"\0": 1}, "args.<key 0>: the str contains a NUL"),
    "lone surrogate": (["\ud800"], "args[0]: the str contains a lone surrogate"),
    "lone surrogate in a key": ({"\udfff": 1}, "args.<key 0>: the str contains a lone surrogate"),
    "generator": ((n for n in "ab"), "args: a generator has no JSON form"),
    "object": (object(), "args: an object has no JSON form"),
    "class": ({"type": int}, "args.type: a type has no JSON form"),
    "dataclass type": ([Item], "args[0]: a type has no JSON form"),
    "mapping that is no dict": (MappingProxyType({}), "args: a mappingproxy"),
    "range": (range(3), "args: a range"),
    "complex": (1j, "args: a complex"),
    "path": (PurePath("a"), "args: a PurePosixPath"),
    "depth 101": (nested(101), "args[0]: nested deeper than 100"),
    "depth 200": ({"deep": nested(200)}, "args.deep: nested deeper than 100"),
    "a field of a dataclass": (Order([Item("a"), Item("b", {1})]), "args.items[1].price: a set"),
    "a field of a single dataclass": (Item("a", Decimal(1)), "args.price: a Decimal"),
    "nan in a model": (Address(city="a", size=float("nan")), "args.size: the float is not finite"),
    "nan in a list of a model": (
        Address(city="a", size={"k": [1.0, float("nan")]}),
        "args.size.k[1]: the float is not finite",
    ),
    "colliding keys in a model": (
        [Address(city="a", size={1: "a", "1": "b"})],
        "args[0].size: two keys have the same text",
    ),
    "NUL in a model": ([Address(city="\0")], "args[0].city: the str contains a NUL"),
    "big int in a model": (Address(city="a", size=10**20), "args.size: the int is outside 64 bits"),
    "undumpable model": (
        {"a": Address(city="a", size=object())},
        "args.a: the model Address holds",
    ),
    "undecodable bytes in a model": (Address(city="a", size=b"\xff"), "args: the model Address"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_would_not_read_back_equal_is_refused_with_position_and_type(case: str) -> None:
    value, message = REFUSED[case]
    with pytest.raises(SerializationError) as caught:
        encode(value, "args")
    assert str(caught.value).startswith(message)


ACCEPTED = {
    "none": (None, None),
    "bool": ([True, False], [True, False]),
    "zero": (0, 0),
    "negative zero": (-0.0, -0.0),
    "smallest float": (5e-324, 5e-324),
    "largest float": (1.7976931348623157e308, 1.7976931348623157e308),
    "whole float": ([1.0, 1e16, 1e22], [1.0, 1e16, 1e22]),
    "int bounds": ([-(2**63), 2**64 - 1], [-(2**63), 2**64 - 1]),
    "text that looks like an escaped NUL": ("\\u0000", "\\u0000"),
    "control characters": ("\x01\x1f\x7f\u2028", "\x01\x1f\x7f\u2028"),
    "beyond the basic plane": ({"😀": "𝄞é"}, {"😀": "𝄞é"}),
    "tuples become lists": ((1, (2,)), [1, [2]]),
    "named tuples become lists": (Point(1, 2), [1, 2]),
    "int enum": (Level.HIGH, 3),
    "str enum": ({Word.YES: Word.YES}, {"yes": "yes"}),
    "str subclass by its text": (Loud("quiet"), "quiet"),
    "int subclass by its number": ([Count(7)], [7]),
    "float subclass": (Ratio(0.5), 0.5),
    "dict subclass": (OrderedDict(b=1, a=2), {"b": 1, "a": 2}),
    "empty containers": ({"a": [], "b": {}, "c": ()}, {"a": [], "b": {}, "c": []}),
    "depth 100": (nested(100), nested(100)),
    "dataclass": (Item("a"), {"name": "a", "price": 1.5}),
    "dataclasses at any depth": (
        {"o": Order([Item("a", Item("b"))], Item("c"))},
        {
            "o": {
                "items": [{"name": "a", "price": {"name": "b", "price": 1.5}}],
                "first": {"name": "c", "price": 1.5},
            }
        },
    ),
    "model in JSON mode": (
        Address(city="Oslo", since=datetime(2030, 1, 1, tzinfo=UTC), ident=UUID(int=1)),
        {
            "city": "Oslo",
            "since": "2030-01-01T00:00:00Z",
            "ident": "00000000-0000-0000-0000-000000000001",
            "size": None,
        },
    ),
    "model inside a dataclass": (
        Item("a", Address(city="x", size={"k": (1,)})),
        {"name": "a", "price": {"city": "x", "since": None, "ident": None, "size": {"k": [1]}}},
    ),
}


@pytest.mark.parametrize("case", ACCEPTED)
def test_what_is_accepted_reads_back_as_the_plain_value_it_equals(case: str) -> None:
    value, plain = ACCEPTED[case]
    text = encode(value, "args")
    assert decode(text) == plain
    assert json.loads(text) == plain
    assert repr(decode(text)) == repr(plain), "also of the same types"


def test_fields_keep_their_order_and_exact_numbers() -> None:
    assert encode({"b": 1.0, "a": 1}, "output") == '{"b":1.0,"a":1}'


def test_a_dataclass_encodes_its_fields_and_nothing_else() -> None:
    @dataclasses.dataclass
    class Noted:
        _hidden: int = 1
        total: int = dataclasses.field(default=0, init=False)

    noted = Noted()
    noted.cached = object()  # type: ignore[attr-defined]
    for _ in range(2):  # the first call and those that know the class
        assert decode(encode(noted, "args")) == {"_hidden": 1, "total": 0}


def test_a_dataclass_with_a_field_never_set_is_refused_every_time() -> None:
    @dataclasses.dataclass(slots=True)
    class Late:
        name: str = dataclasses.field(init=False)

    for _ in range(2):
        with pytest.raises(SerializationError, match="a Late has a field that was never set"):
            encode(Late(), "args")


def test_an_empty_dataclass_is_an_empty_object() -> None:
    @dataclasses.dataclass
    class Ping:
        pass

    assert encode(Ping(), "args") == encode(Ping(), "args") == "{}"


def test_a_pydantic_dataclass_is_dumped_like_a_model() -> None:
    @pydantic.dataclasses.dataclass
    class Visit:
        at: datetime

    text = encode(Visit(datetime(2030, 1, 1, tzinfo=UTC)), "args")
    assert decode(text) == {"at": "2030-01-01T00:00:00Z"}


def test_computed_fields_of_a_model_stay_out_because_they_would_not_validate() -> None:
    class Box(pydantic.BaseModel, extra="forbid"):
        side: int

        @pydantic.computed_field  # type: ignore[prop-decorator]
        @property
        def area(self) -> int:
            return self.side**2

    assert Box.model_validate(decode(encode(Box(side=2), "args"))) == Box(side=2)


def test_a_value_that_contains_itself_is_refused() -> None:
    loop: list[Any] = []
    loop.append(loop)
    with pytest.raises(SerializationError, match="nested deeper"):
        encode(loop, "args")


def test_the_limit_counts_bytes_of_text_and_is_inclusive() -> None:
    assert encode("é" * 10, "args", 22) == '"éééééééééé"'
    with pytest.raises(ValueTooLarge) as caught:
        encode("é" * 10, "args", 21)
    assert (caught.value.size_bytes, caught.value.limit_bytes) == (22, 21)


@pytest.mark.parametrize("case", REFUSED)
def test_messages_never_show_a_value(case: str) -> None:
    secret = "hunter2"
    value, _ = REFUSED[case]
    for wrapped in ({"password": secret, "x": value}, {secret + " key": [secret, value]}):
        with pytest.raises(SerializationError) as caught:
            encode(wrapped, "args")
        assert secret not in str(caught.value)
        assert caught.value.__cause__ is None
        assert caught.value.__suppress_context__ or caught.value.__context__ is None


def test_a_key_that_is_data_is_named_by_its_place() -> None:
    with pytest.raises(SerializationError, match=r"^args\.users\.<key 1>: a set"):
        encode({"users": {"ann": 1, "bob@example.org": {2}}}, "args")


def test_text_that_is_not_json_cannot_be_decoded() -> None:
    with pytest.raises(SerializationError):
        decode("{")
