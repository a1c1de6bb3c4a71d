"""What every part of a manifest is: strict, frozen, with rules that Kubernetes checks as well.

A rule is written twice in one place: as CEL for the API server and as Python for this process.
Both read the defaults as filled in.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Self

from pydantic import BaseModel, ConfigDict, model_validator
from pydantic.alias_generators import to_camel


@dataclass(frozen=True, slots=True)
class Rule:
    """What must hold within one part.

    `field` is the field to change, seen from the part; empty means the part itself. `message`
    says what must be, in words that follow the field's path.
    """

    cel: str
    message: str
    field: str
    holds: Callable[[Any], bool]


@dataclass(frozen=True, slots=True)
class Immutable:
    """What must not change in an existing resource: the value that `value` reads from the part."""

    cel: str
    message: str
    field: str
    value: Callable[[Any], object]


@dataclass(frozen=True, slots=True)
class ClusterOnly:
    """Marks a field that `awa up` has no use for, with the reason."""

    why: str


class RulesBroken(ValueError):
    """Rules of one part that do not hold."""

    def __init__(self, rules: tuple[Rule, ...]) -> None:
        super().__init__("; ".join(f"{rule.field}: {rule.message}" for rule in rules))
        self.rules = rules


class Part(BaseModel):
    """One object of a manifest. Unknown fields are refused; YAML names are camelCase."""

    model_config = ConfigDict(
        extra="forbid",
        frozen=True,
        alias_generator=to_camel,
        validate_by_alias=True,
        validate_by_name=False,
        use_attribute_docstrings=True,
        hide_input_in_errors=True,
    )

    RULES: ClassVar[tuple[Rule, ...]] = ()
    IMMUTABLE: ClassVar[tuple[Immutable, ...]] = ()

    @model_validator(mode="after")
    def _rules_hold(self) -> Self:
        broken = tuple(rule for rule in self.RULES if not rule.holds(self))
        if broken:
            raise RulesBroken(broken)
        return self
