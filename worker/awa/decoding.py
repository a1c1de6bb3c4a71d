"""From stored JSON back to the type it was written from: the inverse of `encoding`.

How a type is decoded is worked out once, when it is first asked for:

- a pydantic model validates the JSON, by field name or alias;
- a dataclass is constructed by keywords. What the encoder flattened is restored where the field's
  annotation says so: dataclasses, models, tuples and enums, also inside lists, dicts, tuples and
  unions with None. Other values are passed as they are and not checked;
- any other class must be that of the stored value; where isinstance cannot tell (`list[int]`, a
  TypedDict), the value is passed as it is.

A value that does not fit raises `SerializationError` naming the position, never the value.
"""

import dataclasses
import enum
import types
import typing
from collections.abc import Callable, Hashable
from functools import lru_cache
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

import orjson
from pydantic import TypeAdapter
from pydantic import ValidationError as PydanticValidationError

from awa.encoding import decode, is_pydantic, position_step
from awa.errors import SerializationError

type Convert = Callable[[Any], Any]

_SHOWN_ERRORS = 5


class Decoder[T]:
    """Decodes stored JSON as one type. Make one with `decoder_for` and keep it."""

    __slots__ = ("_convert", "from_json")

    from_json: Callable[[str], T]
    """Decode a JSON text. Raises `SerializationError` when it does not fit the type."""

    def __init__(self, from_json: Callable[[str], T], convert: Convert | None) -> None:
        self.from_json = from_json
        self._convert = convert

    def from_value(self, value: Any) -> T:
        """Decode plain JSON values. Raises `SerializationError` when they do not fit the type."""
        if self._convert is None:
            return self.from_json(orjson.dumps(value).decode())
        converted: T = self._convert(value)
        return converted


def decoder_for(annotation: Any, what: str) -> Decoder[Any]:
    """Return how JSON is decoded as `annotation`; `what` starts the position in error messages."""
    try:
        return _make_decoder(annotation, what)
    except TypeError:
        if isinstance(annotation, Hashable):
            raise
    return _make_decoder.__wrapped__(annotation, what)


@lru_cache(maxsize=512)
def _make_decoder(annotation: Any, what: str) -> Decoder[Any]:
    annotation = _unwrapped(annotation)
    if _is_model(annotation):
        return Decoder(_model_decoder(annotation, what), None)
    if dataclasses.is_dataclass(annotation) and isinstance(annotation, type):
        return _dataclass_decoder(annotation, what)
    convert = _converter(annotation, what, {}) or _instance_check(annotation, what)
    return Decoder(lambda text: convert(decode(text)), convert)


def _dataclass_decoder(cls: type, what: str) -> Decoder[Any]:
    build = _builder(cls, what, {})
    loads = orjson.loads

    def from_json(text: str) -> Any:
        try:
            value = loads(text)
        except orjson.JSONDecodeError:
            value = decode(text)  # says it in our words
        return build(value)

    return Decoder(from_json, build)


def _builder(cls: type, what: str, known: dict[type, Convert]) -> Convert:
    """Return what constructs the dataclass `cls` from a dict.

    `known` holds the classes around this one, so that a class that contains itself ends.
    """
    if cls in known:
        return known[cls]
    converters = _field_converters(cls, what, {**known, cls: lambda value: build(value)})
    derived = [field.name for field in dataclasses.fields(cls) if not field.init]

    def build_slowly(value: Any) -> Any:
        """Construct from a dict that lacks optional fields, or say what does not fit."""
        if type(value) is not dict:
            raise _misfit(what, cls.__name__, f"{type(value).__name__} instead of an object")
        found = {name: item for name, item in value.items() if name not in derived}
        _check_names(cls, found, what)
        for name in converters.keys() & found.keys():
            found[name] = converters[name](found[name])
        return cls(**found)

    build: Convert = build_slowly
    if dataclasses.fields(cls) and not derived:
        build = _constructor(cls, converters, build_slowly)
    return build


def _constructor(cls: type, converters: dict[str, Convert], build_slowly: Convert) -> Convert:
    """Return a function written out for `cls`; what is not exactly its fields goes the slow way."""
    scope: dict[str, Any] = {"cls": cls, "build_slowly": build_slowly}
    parts = []
    for position, field in enumerate(dataclasses.fields(cls)):
        part = f"value[{field.name!r}]"
        if field.name in converters:
            scope[f"convert_{position}"] = converters[field.name]
            part = f"convert_{position}({part})"
        parts.append(f"{field.name}={part}")
    source = f"cls({', '.join(parts)}) if len(value) == {len(parts)} else build_slowly(value)"
    construct: Convert = eval(f"lambda value: {source}", scope)  # noqa: S307 - names of fields

    def build(value: Any) -> Any:
        try:
            return construct(value)
        except (KeyError, TypeError):
            return build_slowly(value)  # raises again what the class itself has raised

    return build


def _check_names(cls: type, found: dict[str, Any], what: str) -> None:
    accepted = {field.name: field for field in dataclasses.fields(cls) if field.init}
    missing = [name for name in accepted if _is_required(accepted[name]) and name not in found]
    if missing:
        raise SerializationError(f"{what} does not fit {cls.__name__}: without {_listed(missing)}")
    unexpected = [
        position_step(name, position)[1:]
        for position, name in enumerate(found)
        if name not in accepted
    ]
    if unexpected:
        raise SerializationError(
            f"{what} does not fit {cls.__name__}: unexpected {_listed(unexpected)}"
        )


def _listed(names: list[str]) -> str:
    hidden = len(names) - _SHOWN_ERRORS
    return ", ".join(names[:_SHOWN_ERRORS]) + (f" and {hidden} more" if hidden > 0 else "")


def _is_required(field: dataclasses.Field[Any]) -> bool:
    return field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING


def _field_converters(cls: type, what: str, known: dict[type, Convert]) -> dict[str, Convert]:
    hints = _hints(cls)
    converters = {}
    for field in dataclasses.fields(cls):
        convert = _converter(hints.get(field.name, Any), f"{what}.{field.name}", known)
        if convert is not None and field.init:
            converters[field.name] = convert
    return converters


def _hints(cls: type) -> dict[str, Any]:
    """Return the annotations that can be resolved; a name known to type checkers only cannot."""
    try:
        return get_type_hints(cls)
    except (NameError, AttributeError, TypeError):
        return {
            field.name: field.type
            for field in dataclasses.fields(cls)
            if not isinstance(field.type, str)
        }


def _converter(annotation: Any, what: str, known: dict[type, Convert]) -> Convert | None:
    """Return what restores a value of `annotation`, None when it needs no restoring."""
    annotation = _unwrapped(annotation)
    origin = get_origin(annotation)
    if origin is Union or origin is types.UnionType:
        return _union_converter(get_args(annotation), what, known)
    if origin is not None:
        return _generic_converter(origin, get_args(annotation), what, known)
    if not isinstance(annotation, type):
        return None
    if _is_model(annotation):
        return Decoder(_model_decoder(annotation, what), None).from_value
    if dataclasses.is_dataclass(annotation):
        return _builder(annotation, what, known)
    if issubclass(annotation, enum.Enum):
        return _checked(annotation, what, annotation.__name__)
    if issubclass(annotation, tuple):
        return _tuple_class_converter(annotation, what)
    return None


def _union_converter(
    members: tuple[Any, ...], what: str, known: dict[type, Convert]
) -> Convert | None:
    """Only `X | None` says for certain what a stored object was."""
    others = [member for member in members if member is not types.NoneType]
    convert = _converter(others[0], what, known) if len(others) == 1 else None
    if convert is None:
        return None
    return lambda value: None if value is None else convert(value)


def _generic_converter(
    origin: Any, members: tuple[Any, ...], what: str, known: dict[type, Convert]
) -> Convert | None:
    if origin is tuple:
        return _tuple_converter(members, what, known)
    if not isinstance(origin, type) or origin is Literal:
        return None
    if issubclass(list, origin) and len(members) == 1:
        return _list_converter(members[0], what, known)
    if issubclass(dict, origin) and len(members) == 2:
        return _dict_converter(members[1], what, known)
    if dataclasses.is_dataclass(origin):
        return _builder(origin, what, known)
    return None


def _list_converter(member: Any, what: str, known: dict[type, Convert]) -> Convert | None:
    convert = _converter(member, f"{what}[]", known)
    if convert is None:
        return None
    return lambda value: [convert(item) for item in _array(value, what)]


def _dict_converter(member: Any, what: str, known: dict[type, Convert]) -> Convert | None:
    convert = _converter(member, f"{what}.*", known)
    if convert is None:
        return None

    def restore(value: Any) -> Any:
        if not isinstance(value, dict):
            raise _misfit(what, "dict", f"{type(value).__name__} instead of an object")
        return {key: convert(item) for key, item in value.items()}

    return restore


def _tuple_converter(members: tuple[Any, ...], what: str, known: dict[type, Convert]) -> Convert:
    if len(members) == 2 and members[1] is Ellipsis:
        each = _converter(members[0], f"{what}[]", known) or _unchanged
        return lambda value: tuple(each(item) for item in _array(value, what))
    converts = [_converter(m, f"{what}[{i}]", known) or _unchanged for i, m in enumerate(members)]

    def restore(value: Any) -> Any:
        items = _array(value, what)
        if len(items) != len(converts):
            raise _misfit(what, "tuple", f"{len(items)} elements instead of {len(converts)}")
        return tuple(convert(item) for convert, item in zip(converts, items, strict=True))

    return restore


def _tuple_class_converter(cls: type[tuple[Any, ...]], what: str) -> Convert:
    make: Callable[..., Any] = getattr(cls, "_make", cls)
    return _checked(lambda value: make(_array(value, what)), what, cls.__name__)


def _checked(convert: Convert, what: str, name: str) -> Convert:
    def restore(value: Any) -> Any:
        try:
            return convert(value)
        except (ValueError, TypeError) as error:
            if isinstance(error, SerializationError):
                raise
            raise _misfit(
                what, name, f"{type(value).__name__} that is none of its values"
            ) from None

    return restore


def _instance_check(annotation: Any, what: str) -> Convert:
    accepted = (int, float) if annotation is float else annotation

    def check(value: Any) -> Any:
        try:
            fits = annotation is Any or isinstance(value, accepted)
        except TypeError:  # list[int], a TypedDict and the like
            fits = True
        if not fits:
            raise _misfit(what, annotation.__name__, type(value).__name__)
        return value

    return check


def _model_decoder(annotation: Any, what: str) -> Callable[[str], Any]:
    validate = TypeAdapter(annotation).validate_json

    def from_json(text: str) -> Any:
        try:
            return validate(text, by_alias=True, by_name=True)
        except PydanticValidationError as error:
            found = _explain(error, what)
        # Raised outside, because pydantic's own message quotes values.
        raise SerializationError(f"{what} does not fit {annotation.__name__}: {found}")

    return from_json


def _explain(error: PydanticValidationError, what: str) -> str:
    details = error.errors(include_url=False, include_context=False, include_input=False)
    return _listed([f"{what}{_location(detail['loc'])} ({detail['type']})" for detail in details])


def _location(steps: tuple[int | str, ...]) -> str:
    return "".join(
        f"[{step}]" if isinstance(step, int) else position_step(step, position)
        for position, step in enumerate(steps)
    )


def _is_model(annotation: Any) -> bool:
    return isinstance(annotation, type) and is_pydantic(annotation)


def _unwrapped(annotation: Any) -> Any:
    while True:
        if isinstance(annotation, typing.TypeAliasType):
            annotation = annotation.__value__
        elif isinstance(annotation, typing.NewType):
            annotation = annotation.__supertype__
        elif get_origin(annotation) is Annotated:
            annotation = get_args(annotation)[0]
        else:
            return annotation


def _array(value: Any, what: str) -> list[Any]:
    if not isinstance(value, list):
        raise _misfit(what, "list", f"{type(value).__name__} instead of an array")
    return value


def _unchanged(value: Any) -> Any:
    return value


def _misfit(what: str, name: str, found: str) -> SerializationError:
    return SerializationError(f"{what} does not fit {name}: found {found}")
