import dataclasses
import enum
from collections import namedtuple
from datetime import UTC, datetime
from typing import Annotated, Any, Literal, NamedTuple, NewType, TypedDict

import pydantic
import pytest
from hypothesis import given
from hypothesis import strategies as st

from awa.decoding import decoder_for
from awa.encoding import encode
from awa.errors import SerializationError

Pixels = NewType("Pixels", int)
type Label = str
Loose = namedtuple("Loose", ["x", "y"])


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 3


class Point(NamedTuple):
    x: int
    y: int


ORIGIN = Point(0, 0)


@dataclasses.dataclass(frozen=True)
class Size:
    width: int
    height: Pixels = Pixels(1)


class Person(pydantic.BaseModel):
    name: str = pydantic.Field(alias="fullName")
    born: datetime | None = None


class StrictVisit(pydantic.BaseModel, strict=True):
    at: datetime
    corner: tuple[int, int]


@dataclasses.dataclass
class Picture:
    size: Size
    label: Label
    level: Level = Level.LOW
    corner: Point = ORIGIN
    loose: Loose | None = None
    shape: tuple[int, str] = (1, "a")
    many: tuple[Size, ...] = ()
    variants: list[Size] = dataclasses.field(default_factory=list)
    by_name: dict[str, Size] = dataclasses.field(default_factory=dict)
    maybe: Size | None = None
    owner: Person | None = None
    mode: Literal["a", "b"] = "a"
    either: Size | str = "x"
    noted: Annotated[Size | None, "a note"] = None
    anything: Any = None


@dataclasses.dataclass
class Tree:
    name: str
    branches: "list[Tree]" = dataclasses.field(default_factory=list)


@dataclasses.dataclass(kw_only=True, slots=True)
class Derived:
    side: int
    area: int = dataclasses.field(init=False)

    def __post_init__(self) -> None:
        self.area = self.side**2


class Movie(TypedDict):
    title: str


PEOPLE = [Person(fullName="Ann", born=datetime(2000, 1, 1, tzinfo=UTC))]
ROUND_TRIPS = [
    Size(1, Pixels(2)),
    Picture(Size(1), "a"),
    Picture(
        Size(1),
        "b",
        level=Level.HIGH,
        corner=Point(1, 2),
        loose=Loose(1, 2),
        shape=(2, "b"),
        many=(Size(1), Size(2)),
        variants=[Size(3)],
        by_name={"x": Size(4)},
        maybe=Size(5),
        owner=PEOPLE[0],
        noted=Size(6),
        anything=[1, {"a": None}],
    ),
    Tree("a", [Tree("b", [Tree("c")]), Tree("d")]),
    Derived(side=3),
    PEOPLE[0],
    StrictVisit(at=datetime(2030, 1, 1, tzinfo=UTC), corner=(1, 2)),
]


@pytest.mark.parametrize("value", ROUND_TRIPS, ids=lambda v: type(v).__name__)
def test_what_was_encoded_from_a_type_decodes_equal_as_that_type(value: object) -> None:
    decoder = decoder_for(type(value), "args")
    decoded = decoder.from_json(encode(value, "args"))
    assert decoded == value
    assert repr(decoded).replace("TzInfo(0)", "datetime.timezone.utc") == repr(value)


@given(st.builds(Size, st.integers(-(2**63), 2**63), st.integers(0, 10).map(Pixels)))
def test_dataclasses_round_trip(size: Size) -> None:
    assert decoder_for(Size, "args").from_json(encode(size, "args")) == size


def test_a_dataclass_may_lack_fields_that_have_defaults() -> None:
    assert decoder_for(Size, "args").from_json('{"width":3}') == Size(3)


def test_a_model_validates_by_name_and_by_alias() -> None:
    decoder = decoder_for(Person, "args")
    assert decoder.from_json('{"name":"Ann"}') == decoder.from_json('{"fullName":"Ann"}')


MISFITS = [
    (Size, '{"height":1}', "args does not fit Size: without width"),
    (Size, '{"width":1,"depth":2}', "args does not fit Size: unexpected depth"),
    (Size, '{"width":1,"height":2,"depth":3}', "args does not fit Size: unexpected depth"),
    (Size, '{"width":1,"ann@example.org":2}', "args does not fit Size: unexpected <key 1>"),
    (Size, "[1]", "args does not fit Size: found list instead of an object"),
    (Size, "{", "the stored text is not JSON"),
    (Picture, '{"size":1,"label":"a"}', "args.size does not fit Size: found int"),
    (
        Picture,
        '{"size":{"width":1},"label":"a","variants":[{}]}',
        "args.variants[] does not fit Size: without width",
    ),
    (
        Picture,
        '{"size":{"width":1},"label":"a","shape":[1]}',
        "args.shape does not fit tuple: found 1 elements instead of 2",
    ),
    (
        Picture,
        '{"size":{"width":1},"label":"a","many":"no"}',
        "args.many does not fit list: found str instead of an array",
    ),
    (
        Picture,
        '{"size":{"width":1},"label":"a","by_name":[]}',
        "args.by_name does not fit dict: found list",
    ),
    (Picture, '{"size":{"width":1},"label":"a","level":7}', "args.level does not fit Level: found"),
    (Person, '{"born":"never"}', "args does not fit Person: args.fullName (missing), args.born"),
    (Person, "[]", "args does not fit Person: args (model_type)"),
    (int, '"a"', "args does not fit int: found str"),
    (dict, "[]", "args does not fit dict: found list"),
]


@pytest.mark.parametrize(("cls", "text", "message"), MISFITS, ids=lambda v: str(v)[:40])
def test_json_that_does_not_fit_is_refused_by_position(cls: type, text: str, message: str) -> None:
    with pytest.raises(SerializationError) as caught:
        decoder_for(cls, "args").from_json(text)
    assert str(caught.value).startswith(message)


def test_misfits_never_show_a_value() -> None:
    class Login(pydantic.BaseModel):
        pin: int

    with pytest.raises(SerializationError) as caught:
        decoder_for(Login, "args").from_json('{"pin":"hunter2"}')
    error = caught.value
    assert "hunter2" not in str(error)
    assert error.__cause__ is None
    assert error.__context__ is None


def test_an_error_of_the_class_itself_comes_through() -> None:
    @dataclasses.dataclass
    class Positive:
        number: int

        def __post_init__(self) -> None:
            if self.number < 0:
                raise TypeError("must be positive")

    with pytest.raises(TypeError, match="must be positive"):
        decoder_for(Positive, "args").from_json('{"number":-1}')


def test_other_classes_must_be_the_values_own() -> None:
    assert decoder_for(dict, "output").from_value({"a": 1}) == {"a": 1}
    assert decoder_for(float, "output").from_value(1) == 1
    with pytest.raises(SerializationError, match="output does not fit str: found int"):
        decoder_for(str, "output").from_value(1)


@pytest.mark.parametrize("annotation", [list[int], Movie, Any, dict[str, int]])
def test_what_isinstance_cannot_check_is_passed_as_it_is(annotation: Any) -> None:
    assert decoder_for(annotation, "output").from_value({"title": 1}) == {"title": 1}


def test_from_value_decodes_models_too() -> None:
    value = {"fullName": "Ann", "born": "2000-01-01T00:00:00Z"}
    assert decoder_for(Person, "output").from_value(value) == PEOPLE[0]


def test_a_decoder_is_made_once_for_a_type() -> None:
    assert decoder_for(Picture, "args") is decoder_for(Picture, "args")


def test_the_decoded_value_shares_nothing_with_the_stored_one() -> None:
    stored = {"size": {"width": 1}, "label": "a"}
    decoder_for(Picture, "output").from_value(stored)
    assert stored == {"size": {"width": 1}, "label": "a"}
