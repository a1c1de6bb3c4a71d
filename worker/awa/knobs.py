"""Declaring, checking and reading knobs: fields of frozen settings with bounds and a reason."""

import math
from collections.abc import Mapping
from dataclasses import MISSING, Field, dataclass, fields
from datetime import timedelta
from types import NoneType, UnionType
from typing import Any, get_args

from awa.errors import ValidationError


@dataclass(frozen=True, slots=True)
class Knob:
    """Beside the type of a field, as in `Annotated[int, Knob("Why.", least=1)]`.

    `why` says what the knob does and why its default is what it is; the bounds are inclusive.
    """

    why: str
    least: Any = None
    most: Any = None


def check_knobs(settings: Any, where: str = "") -> None:
    """Raise `ValidationError` for the first knob with a wrong type or outside its bounds."""
    for declared in fields(settings):
        value = getattr(settings, declared.name)
        name = where + declared.name
        knob_type, knob = parts_of(declared)
        check_type(name, value, knob_type)
        if value is not None:
            _check_bounds(name, value, knob)


def check_type(name: str, value: object, declared: Any) -> None:
    """Raise `ValidationError` unless `value` is of the declared type; ints may be floats."""
    accepted = _types(declared)
    if isinstance(value, bool) and bool not in accepted:
        raise ValidationError(f"{name} takes {_named(accepted)}, not a bool")
    if float in accepted:
        accepted = (*accepted, int)
    if not isinstance(value, accepted):
        raise ValidationError(f"{name} takes {_named(accepted)}, not a {type(value).__name__}")


def variable_of(declared: Field[Any]) -> str:
    """Return the environment variable of a knob: `AWA_`, its name, and the unit of a duration."""
    suffix = "_SECONDS" if timedelta in _types(parts_of(declared)[0]) else ""
    return f"AWA_{declared.name.upper()}{suffix}"


def read_knobs(settings: type, environ: Mapping[str, str]) -> dict[str, Any]:
    """Return the knobs that the environment names. An empty variable counts as not set.

    Raises `ValidationError` naming the variable that cannot be read.
    """
    found = {}
    for declared in fields(settings):
        kind = _types(parts_of(declared)[0])[0]
        text = environ.get(variable_of(declared), "").strip()
        if kind in _UNITS and text:
            try:
                found[declared.name] = _seconds(text) if kind is timedelta else kind(text)
            except (ValueError, OverflowError):
                raise ValidationError(f"{variable_of(declared)} is not {_UNITS[kind]}") from None
    return found


def shown(value: object) -> str:
    """Return a default or bound as documentation shows it, durations in seconds."""
    if isinstance(value, timedelta):
        return f"{value.total_seconds():.12g} s"
    return "not set" if value is None else str(value)


def required(declared: Field[Any]) -> bool:
    """Whether a knob has no default."""
    return declared.default is MISSING and declared.default_factory is MISSING


def parts_of(declared: Field[Any]) -> tuple[Any, Knob]:
    """Return a field's type and its knob."""
    knob_type, knob = get_args(declared.type)
    return knob_type, knob


def _check_bounds(name: str, value: Any, knob: Knob) -> None:
    if knob.least is not None and value < knob.least:
        raise ValidationError(f"{name} is {shown(value)}; it takes {shown(knob.least)} or more")
    if knob.most is not None and value > knob.most:
        raise ValidationError(f"{name} is {shown(value)}; it takes up to {shown(knob.most)}")


def _types(declared: Any) -> tuple[type, ...]:
    members = get_args(declared) if isinstance(declared, UnionType) else (declared,)
    return tuple(getattr(member, "__origin__", member) for member in members)


def _named(accepted: tuple[type, ...]) -> str:
    return " or ".join("nothing" if kind is NoneType else kind.__name__ for kind in accepted)


def _seconds(text: str) -> timedelta:
    seconds = float(text)
    if not math.isfinite(seconds):
        raise ValueError
    return timedelta(seconds=seconds)


_UNITS: dict[type, str] = {timedelta: "a number of seconds", int: "a whole number", str: "a text"}
