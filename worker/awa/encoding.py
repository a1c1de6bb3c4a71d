"""The one converter from Python values to JSON text, for args, metadata, progress and output.

A value is refused here, at the call, with its position and its type; or it reads back equal. There
is nothing between:

- str, bool, None, finite float, int from -2**63 to 2**64-1, list, and dict with str keys, and their
  subclasses, so also IntEnum, StrEnum and OrderedDict, read back as the plain value they equal;
- tuples, also named ones, become lists; dataclasses become objects, at any depth;
- pydantic models become what `model_dump(mode="json", round_trip=True)` says, so they may hold
  dates, UUIDs and decimals: validating the stored JSON restores them;
- everything else is refused: sets, bytes, dates, UUIDs, Decimal, other enums, NaN and infinities,
  numpy scalars (but float64, a float), other keys, integers outside 64 bits, NUL characters and
  lone surrogates in text, and nesting deeper than 100.

Most values are plain already. For those the cost is one look at the types and one `orjson.dumps`.
"""

import dataclasses
import re
from collections.abc import Callable, Iterable
from math import isfinite
from typing import Any, Literal, cast

import orjson
from pydantic import BaseModel
from pydantic_core import PydanticSerializationError

from awa.errors import SerializationError, ValueTooLarge

MAX_ARGS_BYTES = 1024 * 1024
"""Limit of a job's args, in bytes of JSON text."""
MAX_METADATA_BYTES = 64 * 1024
"""Limit of a job's metadata, in bytes of JSON text."""
MAX_PROGRESS_BYTES = 64 * 1024
"""Limit of a job's progress, in bytes of JSON text."""
MAX_DEPTH = 100
"""How many arrays and objects may lie inside each other."""

_INT_MIN, _INT_MAX = -(2**63), 2**64 - 1
_LARGE = 1e16
_ATOMS = frozenset({str, int, bool, type(None)})
_FLOATS = frozenset({float})
_SURE = frozenset({str, int, bool, float})
_FAILED = object()
_FIELD_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,63}")
_READER_LIMIT = 4096

type FieldReader = Callable[[Any], dict[str, Any]]

_readers: dict[type, FieldReader] = {}


def encode(value: object, what: str, limit_bytes: int | None = None) -> str:
    """Return the JSON text of `value`.

    `what` starts the position in error messages, as in `args.items[3]`.

    Raises `SerializationError` for a value that would not read back equal, `ValueTooLarge` when the
    text has more than `limit_bytes` bytes.
    """
    reader = _readers.get(type(value))
    data = None
    try:
        plain = value if reader is None else reader(value)
        if _is_plain(plain, MAX_DEPTH):
            data = orjson.dumps(plain)
    except (TypeError, AttributeError):  # what orjson refuses, or a field that was never set
        pass
    if data is None or data.find(b"\\u0000") >= 0:  # a NUL, or harmless text that looks like one
        data = _dumps_slowly(value, what)
    if limit_bytes is not None and len(data) > limit_bytes:
        raise ValueTooLarge(what, len(data), limit_bytes)
    return data.decode()


def decode(text: str | bytes) -> Any:
    """Return the Python value of a JSON text. Raises `SerializationError` when it is not JSON.

    An integer outside 64 bits, which only foreign producers can have written, reads as the nearest
    float; one that no float comes near is refused, and so is nesting deeper than 1024.
    """
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError as error:
        raise SerializationError(f"the stored text is not JSON: {error.msg}") from None


def field_reader(cls: type) -> FieldReader:
    """Return what turns an instance of the dataclass `cls` into a dict, one level deep."""
    reader = _readers.get(cls)
    if reader is None:
        reader = _make_reader(tuple(field.name for field in dataclasses.fields(cls)))
        if len(_readers) >= _READER_LIMIT:  # classes made at run time must not pile up
            _readers.clear()
        _readers[cls] = reader
    return reader


def is_pydantic(cls: type) -> bool:
    """Whether pydantic dumps and validates `cls`: a model or one of its own dataclasses."""
    return issubclass(cls, BaseModel) or hasattr(cls, "__pydantic_serializer__")


def _make_reader(names: tuple[str, ...]) -> FieldReader:
    # Written out, the dict costs a fifth of what a loop costs. Field names are identifiers.
    source = ", ".join(f"{name!r}: value.{name}" for name in names)
    return cast("FieldReader", eval(f"lambda value: {{{source}}}"))  # noqa: S307


def _is_plain(value: Any, depth: int) -> bool:
    """Whether `value` is of exact built-in types only: orjson writes it as it is, or raises.

    Floats from 1e16 on are not plain: see `_Conversion._float`.
    """
    kind = type(value)
    items: Iterable[Any]
    if kind is dict:
        items = value.values()
    elif kind is list or kind is tuple:
        items = value
    else:
        return kind in _ATOMS or (kind is float and -_LARGE < value < _LARGE)
    if depth == 0:
        return False
    if _ATOMS.issuperset(map(type, items)):
        return True
    if _FLOATS.issuperset(map(type, items)):
        return all(map(isfinite, items)) and min(items) > -_LARGE and max(items) < _LARGE
    return all(_is_plain(item, depth - 1) for item in items)


def _dumps_slowly(value: object, what: str) -> bytes:
    """Find the position of what orjson refused, or show that a suspicion was unfounded."""
    plain = _Conversion(what).convert(value, (), MAX_DEPTH)
    try:
        return orjson.dumps(plain)
    except TypeError:
        raise SerializationError(f"{what}: a {type(value).__name__} has no JSON form") from None


class _Conversion:
    """One walk over a value: yields plain built-in types, or names the first bad part."""

    def __init__(self, what: str) -> None:
        self._what = what

    def convert(self, value: Any, path: tuple[str, ...], depth: int) -> Any:
        if value is None or value is True or value is False:
            return value
        if isinstance(value, str):
            return self._text(value, path)
        if isinstance(value, int):
            return self._integer(value, path)
        if isinstance(value, float):
            return self._float(value, path)
        return self._container(value, path, depth)

    def _container(self, value: Any, path: tuple[str, ...], depth: int) -> Any:
        if depth == 0:
            raise self._refusal(path[:1], f"nested deeper than {MAX_DEPTH} levels; flatten it")
        kind = type(value)
        if is_pydantic(kind):
            return self.convert(self._dump_model(value, path), path, depth)
        if dataclasses.is_dataclass(kind):
            return self._mapping(self._fields(value, path), path, depth)
        if isinstance(value, dict):
            return self._mapping(value, path, depth)
        if isinstance(value, list | tuple):
            return [
                self.convert(item, (*path, f"[{i}]"), depth - 1) for i, item in enumerate(value)
            ]
        raise self._refusal(path, f"{_article(kind)} has no JSON form; {_advice(kind)}")

    def _text(self, value: str, path: tuple[str, ...]) -> str:
        text = str.__str__(value)  # a subclass may say something else of itself
        if "\0" in text:
            raise self._refusal(
                path, "the str contains a NUL character, which PostgreSQL cannot store; remove it"
            )
        if not text.isascii():
            try:
                text.encode()
            except UnicodeEncodeError:
                raise self._refusal(
                    path, "the str contains a lone surrogate, which is not Unicode text"
                ) from None
        return text

    def _integer(self, value: int, path: tuple[str, ...]) -> int:
        number = int.__index__(value)
        if not _INT_MIN <= number <= _INT_MAX:
            raise self._refusal(
                path, f"the {type(value).__name__} is outside 64 bits; pass it as text"
            )
        return number

    def _float(self, value: float, path: tuple[str, ...]) -> float | orjson.Fragment:
        number = float.__float__(value)
        if not isfinite(number):
            raise self._refusal(
                path, f"the {type(value).__name__} is not finite; JSON has no NaN or infinity"
            )
        if _LARGE <= abs(number) <= _INT_MAX:
            # PostgreSQL writes 1.5e16 out as an integer, whose last digits are not the float's.
            return orjson.Fragment(f"{number:.1f}")
        return number

    def _mapping(self, value: dict[Any, Any], path: tuple[str, ...], depth: int) -> dict[str, Any]:
        plain = {}
        for position, (key, item) in enumerate(dict.items(value)):
            if not isinstance(key, str):
                raise self._refusal(
                    path, f"{_article(type(key))} is used as a key; JSON keys are str"
                )
            name = self._text(key, (*path, f".<key {position}>"))
            plain[name] = self.convert(item, (*path, position_step(name, position)), depth - 1)
        return plain

    def _fields(self, value: Any, path: tuple[str, ...]) -> dict[str, Any]:
        try:
            return field_reader(type(value))(value)
        except AttributeError:
            raise self._refusal(
                path, f"{_article(type(value))} has a field that was never set"
            ) from None

    def _dump_model(self, value: Any, path: tuple[str, ...]) -> Any:
        try:
            dumped = _model_dump(value, "json")
            is_sure = type(dumped) is dict and _SURE.issuperset(map(type, dumped.values()))
            kept = None if is_sure else _model_dump(value, "python")
        except (PydanticSerializationError, UnicodeError, ValueError, TypeError, RecursionError):
            dumped = _FAILED
        if dumped is _FAILED:  # raised here and not above: pydantic's messages quote values
            name = type(value).__name__
            raise self._refusal(path, f"the model {name} holds a value that has no JSON form")
        if not is_sure:
            self._compare(dumped, kept, path)
        return dumped

    def _compare(self, dumped: Any, kept: Any, path: tuple[str, ...]) -> None:
        """Refuse what pydantic loses in fields without a type: NaN, and keys equal as text."""
        if dumped is None and isinstance(kept, float):
            raise self._refusal(path, "the float is not finite; JSON has no NaN or infinity")
        if isinstance(dumped, dict) and isinstance(kept, dict):
            if len(dumped) != len(kept):
                raise self._refusal(path, "two keys have the same text; JSON keys are str")
            for position, (key, item) in enumerate(zip(dumped, kept.values(), strict=True)):
                self._compare(dumped[key], item, (*path, position_step(str(key), position)))
        elif isinstance(dumped, list) and isinstance(kept, list | tuple):
            for position, (one, other) in enumerate(zip(dumped, kept, strict=False)):
                self._compare(one, other, (*path, f"[{position}]"))

    def _refusal(self, path: tuple[str, ...], reason: str) -> SerializationError:
        return SerializationError(f"{self._what}{''.join(path)}: {reason}")


def _model_dump(value: Any, mode: Literal["json", "python"]) -> Any:
    if isinstance(value, BaseModel):
        return value.model_dump(mode=mode, round_trip=True, warnings="none")
    dump = type(value).__pydantic_serializer__.to_python
    return dump(value, mode=mode, round_trip=True, warnings=False)


def position_step(key: str, position: int) -> str:
    """Name a key in a position; one that does not look like a field name may be data."""
    return f".{key}" if _FIELD_NAME.fullmatch(key) else f".<key {position}>"


def _article(kind: type) -> str:
    name = kind.__name__
    return f"{'an' if name[:1].lower() in 'aeio' else 'a'} {name}"


_ADVICE = {
    "set": "pass a sorted list",
    "frozenset": "pass a sorted list",
    "bytes": "pass text, for example base64",
    "bytearray": "pass text, for example base64",
    "datetime": "pass .isoformat(), or use a pydantic model",
    "date": "pass .isoformat(), or use a pydantic model",
    "time": "pass .isoformat(), or use a pydantic model",
    "timedelta": "pass .total_seconds(), or use a pydantic model",
    "UUID": "pass str(…), or use a pydantic model",
    "Decimal": "pass str(…), or use a pydantic model",
}


def _advice(kind: type) -> str:
    return _ADVICE.get(
        kind.__name__,
        "pass str, int, float, bool, None, list, dict, a dataclass or a pydantic model",
    )
