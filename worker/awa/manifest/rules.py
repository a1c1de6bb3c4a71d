"""The rules of all parts, placed: what a CRD carries, and what an update may not change."""

from collections.abc import Iterator
from dataclasses import dataclass

from awa.manifest.part import Immutable, Part, Rule
from awa.manifest.queue import Queue
from awa.manifest.tree import fields_of, walk


@dataclass(frozen=True, slots=True)
class PlacedRule:
    """A rule where a CRD puts it: at `path`, empty for the root; `self` is the value there.

    `field_path` is what `fieldPath` wants, relative to `path`; `message` names the field in full.
    A transition rule compares with `oldSelf` and counts for updates only.
    """

    path: str
    cel: str
    message: str
    field_path: str
    is_transition: bool


def cel_rules() -> list[PlacedRule]:
    """Return every rule of the Queue resource, the root's first."""
    placed = list(_placed("", Queue))
    for path, field in walk():
        if field.part is not None:
            placed += _placed(path, field.part)
    return placed


def forbidden_changes(old: Queue, new: Queue) -> list[str]:
    """Return what an update may not change but does, one sentence each, with the field's path."""
    return list(_forbidden(old, new, ""))


def _placed(path: str, part: type[Part]) -> Iterator[PlacedRule]:
    rules: tuple[Rule | Immutable, ...] = (*part.RULES, *part.IMMUTABLE)
    for rule in rules:
        field = f"{path}.{rule.field}".lstrip(".")
        yield PlacedRule(
            path=path,
            cel=rule.cel,
            message=f"{field} {rule.message}",
            field_path=f".{rule.field}",
            is_transition=isinstance(rule, Immutable),
        )


def _forbidden(old: Part, new: Part, path: str) -> Iterator[str]:
    for rule in new.IMMUTABLE:
        if rule.value(old) != rule.value(new):
            yield f"{path}{rule.field} {rule.message}"
    for name, field in fields_of(type(new)).items():
        before, after = getattr(old, field.attribute), getattr(new, field.attribute)
        if isinstance(before, Part) and isinstance(after, Part):
            yield from _forbidden(before, after, f"{path}{name}.")
