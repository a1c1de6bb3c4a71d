"""The fields of a manifest as a tree of paths: what messages, documentation and rules walk."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any, get_args

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from awa.manifest.part import ClusterOnly, Part
from awa.manifest.queue import Queue


@dataclass(frozen=True, slots=True)
class Field:
    """One field: its name in YAML, what pydantic knows of it, and the part that it holds."""

    name: str
    attribute: str
    info: FieldInfo
    part: type[Part] | None

    @property
    def is_list(self) -> bool:
        """Whether it holds several of its part."""
        return any(
            getattr(kind, "__origin__", None) is tuple
            for kind in (self.info.annotation, *get_args(self.info.annotation))
        )

    @property
    def cluster_only(self) -> ClusterOnly | None:
        """The mark of fields that `awa up` has no use for."""
        return next((mark for mark in self.info.metadata if isinstance(mark, ClusterOnly)), None)

    @property
    def help(self) -> str:
        """What it is, in one line; empty for fields that only the API server writes."""
        return " ".join((self.info.description or "").split())


@cache
def fields_of(part: type[BaseModel]) -> dict[str, Field]:
    """Return the fields of a part by their names in YAML, in the order of reading."""
    fields: dict[str, Field] = {}
    for attribute, info in part.model_fields.items():
        name = info.alias or attribute
        fields[name] = Field(name, attribute, info, _part_in(info.annotation))
    return fields


def walk(part: type[Part] = Queue, path: str = "") -> Iterator[tuple[str, Field]]:
    """Yield every field with its path, parents first; `[]` stands for the items of a list."""
    for field in fields_of(part).values():
        here = f"{path}.{field.name}" if path else field.name
        yield here, field
        if field.part is not None:
            yield from walk(field.part, f"{here}[]" if field.is_list else here)


def part_at(path: tuple[str | int, ...]) -> type[Part] | None:
    """Return the part that a path of names and list positions leads to."""
    part: type[Part] | None = Queue
    for step in path:
        if isinstance(step, int):
            continue
        field = fields_of(part).get(step) if part else None
        part = field.part if field else None
    return part


def shown(path: tuple[str | int, ...]) -> str:
    """Return a path as it is written, such as `spec.worker.env[0].name`."""
    text = ""
    for step in path:
        text += f"[{step}]" if isinstance(step, int) else f".{step}"
    return text.removeprefix(".")


def _part_in(annotation: Any) -> type[Part] | None:
    if isinstance(annotation, type) and issubclass(annotation, Part):
        return annotation
    return next((part for inner in get_args(annotation) if (part := _part_in(inner))), None)
