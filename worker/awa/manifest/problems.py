"""What is wrong with a manifest, said so that it can be put right: where, what, and what instead.

Messages never contain a text from the manifest, which might be a secret; field names, numbers and
the words of an enumeration they do.
"""

import difflib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from awa.manifest.document import Document
from awa.manifest.part import RulesBroken
from awa.manifest.tree import fields_of, part_at, shown, walk
from awa.manifest.values import SHAPES

type Steps = tuple[str | int, ...]

NEAR, VERY_NEAR = 0.7, 0.85
"""How alike two names must be for one to be proposed for the other, or to be taken as meant."""


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing to change. `line` counts from 1, None where there is no text."""

    path: str
    message: str
    line: int | None = None

    def shown(self, source: str) -> str:
        """Return one line that editors can jump from."""
        place = f"{source}:{self.line}" if self.line else source
        return f"{place}: {self.path}: {self.message}" if self.path else f"{place}: {self.message}"


class ManifestError(ValueError):
    """The manifest cannot be used. The message lists every problem with line, path and remedy."""

    def __init__(self, source: str, problems: list[Problem]) -> None:
        self.source = source
        self.problems = tuple(sorted(problems, key=lambda problem: problem.line or 0))
        lines = [problem.shown(source) for problem in self.problems]
        count = f"{len(lines)} problems" if len(lines) > 1 else "1 problem"
        super().__init__("\n  ".join([f"{source} cannot be used, {count}:", *lines]))


def problems_of(error: ValidationError, document: Document | None = None) -> list[Problem]:
    """Return the problems that a failed validation shows, with lines if there is a document."""
    found: dict[tuple[str, str], Problem] = {}
    for detail in error.errors(include_url=False):
        for path, message in _told(detail):
            problem = Problem(shown(path), message, document.line_of(path) if document else None)
            found.setdefault((problem.path, problem.message), problem)
    return list(found.values())


def _told(detail: ErrorDetails) -> Iterator[tuple[Steps, str]]:
    path, cause = detail["loc"], detail.get("ctx", {}).get("error")
    if isinstance(cause, RulesBroken):
        for rule in cause.rules:
            yield (*path, *rule.field.split(".")), rule.message
    elif path and path[-1] == "[key]":
        yield path[:-2], f"the name of an entry {_message(detail)}"
    else:
        yield path, _message(detail)


def _message(detail: ErrorDetails) -> str:
    if detail["input"] is None and detail["type"] != "missing":
        return "is empty; give it a value or remove the line"
    tell = _TELL.get(detail["type"])
    return tell(detail) if tell else detail["msg"]


def _missing(detail: ErrorDetails) -> str:
    parent = part_at(detail["loc"][:-1])
    field = fields_of(parent).get(str(detail["loc"][-1])) if parent else None
    help_text = field.help.partition(". ")[0].rstrip(".") if field else ""
    return f"is missing: {help_text[:1].lower()}{help_text[1:]}" if help_text else "is missing"


def _unknown(detail: ErrorDetails) -> str:
    *parents, last = detail["loc"]
    name, part = str(last), part_at(tuple(parents))
    known = list(fields_of(part)) if part else []
    elsewhere = [path for path, field in walk() if field.name == name and path[:5] == "spec."]
    if near := _near(name, known, VERY_NEAR):
        return f"unknown field; did you mean {near}?"
    if 1 <= len(elsewhere) <= 2:
        return f"unknown field here; it belongs to {' or '.join(elsewhere)}"
    if near := _begun(name, known) or _near(name, known, NEAR):
        return f"unknown field; did you mean {near}?"
    return f"unknown field; known are {', '.join(known)}"


def _near(name: str, known: list[str], cutoff: float) -> str | None:
    by_plain = {_plain(field): field for field in known}
    near = difflib.get_close_matches(_plain(name), by_plain, n=1, cutoff=cutoff)
    return by_plain[near[0]] if near else None


def _begun(name: str, known: list[str]) -> str | None:
    """Return the longest known name that the given one begins with."""
    begun = [field for field in known if _plain(name).startswith(_plain(field))]
    return max(begun, key=len, default=None)


def _plain(name: str) -> str:
    return name.replace("_", "").replace("-", "").lower()


def _text(detail: ErrorDetails) -> str:
    if isinstance(detail["input"], bool | int | float):
        return "must be a text; put quotes around it"
    return f"must be a text, not {_kind(detail['input'])}"


def _whole_number(detail: ErrorDetails) -> str:
    if isinstance(detail["input"], str) and detail["input"].strip().lstrip("+-").isdecimal():
        return "must be a whole number; remove the quotes"
    return f"must be a whole number, not {_kind(detail['input'])}"


def _true_or_false(detail: ErrorDetails) -> str:
    if isinstance(detail["input"], str):
        return "must be true or false, without quotes; yes, no, on and off are texts"
    return f"must be true or false, not {_kind(detail['input'])}"


def _one_of(detail: ErrorDetails) -> str:
    expected = detail["ctx"]["expected"].replace("'", "")
    words = expected.replace(" or ", ", ").split(", ")
    given = detail["input"]
    if len(words) == 1 or not isinstance(given, str):
        return f"must be {expected}"
    near = _near(given, words, NEAR)
    return f"must be {expected}" + (f"; did you mean {near}?" if near else "")


def _kind(value: object) -> str:
    if isinstance(value, bool):
        return "true or false"
    if isinstance(value, int | float):
        return "a number" if isinstance(value, int) else "a fraction"
    names: dict[type, str] = {str: "a text", list: "a list", dict: "an object"}
    return names.get(type(value), "this")


def _list(detail: ErrorDetails) -> str:
    if isinstance(detail["input"], str):
        return "must be a list, not a text; write [first, second] or lines that start with '- '"
    return f"must be a list, not {_kind(detail['input'])}"


def _object(detail: ErrorDetails) -> str:
    part = part_at(detail["loc"])
    fields = f" with {', '.join(fields_of(part))}" if part and len(fields_of(part)) <= 4 else ""
    return f"must be an object{fields}, not {_kind(detail['input'])}"


def _length(word: str, limit: str) -> Callable[[ErrorDetails], str]:
    def tell(detail: ErrorDetails) -> str:
        bound = detail["ctx"][limit]
        if bound == 1 and limit.startswith("min"):
            return "must not be empty"
        unit = "characters" if detail["type"].startswith("string") else "entries"
        return f"must have at {word} {bound} {unit}"

    return tell


def _bound(words: str, limit: str) -> Callable[[ErrorDetails], str]:
    return lambda detail: f"must be {words} {detail['ctx'][limit]}, not {detail['input']}"


def _shape(detail: ErrorDetails) -> str:
    pattern: Any = detail["ctx"]["pattern"]
    return SHAPES.get(pattern, detail["msg"])


_TELL: dict[str, Callable[[ErrorDetails], str]] = {
    "missing": _missing,
    "extra_forbidden": _unknown,
    "string_type": _text,
    "int_type": _whole_number,
    "bool_type": _true_or_false,
    "literal_error": _one_of,
    "tuple_type": _list,
    "dict_type": _object,
    "model_type": _object,
    "model_attributes_type": _object,
    "string_too_short": _length("least", "min_length"),
    "string_too_long": _length("most", "max_length"),
    "too_short": _length("least", "min_length"),
    "too_long": _length("most", "max_length"),
    "greater_than_equal": _bound("at least", "ge"),
    "less_than_equal": _bound("at most", "le"),
    "string_pattern_mismatch": _shape,
}
