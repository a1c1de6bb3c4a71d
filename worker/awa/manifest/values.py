"""Kinds of values that fields have, each with its bounds and, where it has a shape, its words."""

import re
from typing import Annotated, Any

from pydantic import AfterValidator, Field, PlainValidator, WithJsonSchema
from pydantic_core import PydanticCustomError

MAX_ITEMS = 64
"""Items of any list and entries of any map, so that the cost of checking rules is bounded."""

HTTP_PATH = "^/[^ ]*$"
DNS_NAME = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$"
QUEUE_NAME = r"^(?: |[^\p{C}\p{Z},])+$"
SCHEMA_NAME = "^[a-z_][a-z0-9_]*$"
ENV_NAME = "^[^=]+$"
REASON = "^[A-Za-z][A-Za-z0-9_]*$"

SHAPES = {
    HTTP_PATH: "must be a path that starts with / and has no spaces",
    DNS_NAME: "must consist of small letters, digits, '-' and '.', with a letter or digit at both "
    "ends",
    QUEUE_NAME: "must consist of printable characters without a comma",
    SCHEMA_NAME: "must consist of small letters, digits and '_', and not start with a digit",
    ENV_NAME: "must not contain '='",
    REASON: "must be one word of letters, digits and '_'",
}
"""What each pattern asks for, in words."""

PERCENT = "^(?:100|[1-9]?[0-9])%$"
QUANTITY = r"^\+?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][-+]?[0-9]+|[numkMGTPE]|[KMGTPE]i)?$"
MAX_COUNT = 1000


def _count_or_percent(value: object) -> int | str:
    is_count = isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= MAX_COUNT
    if is_count or (isinstance(value, str) and re.match(PERCENT, value)):
        return value  # type: ignore[return-value]
    raise PydanticCustomError(
        "count_or_percent", "must be a whole number from 0 to 1000, or a text such as 25%"
    )


def _quantity(value: object) -> int | str:
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 10**18:
        return value
    if isinstance(value, str) and len(value) <= MAX_ITEMS and re.match(QUANTITY, value):
        return value
    raise PydanticCustomError(
        "quantity",
        'must be a quantity of Kubernetes, such as 500m, 2 or 128Mi, a fraction in quotes: "0.5"',
    )


def _distinct(items: tuple[Any, ...]) -> tuple[Any, ...]:
    names = [item.name for item in items]
    for name in names:
        if names.count(name) > 1:
            raise PydanticCustomError("distinct", "sets {name} twice", {"name": name})
    return items


Int = Annotated[int, Field(strict=True)]
Bool = Annotated[bool, Field(strict=True)]
Port = Annotated[Int, Field(ge=1, le=65535)]
Name = Annotated[str, Field(min_length=1, max_length=253)]
DnsName = Annotated[str, Field(max_length=253, pattern=DNS_NAME)]
ShortText = Annotated[str, Field(max_length=1024)]
LongText = Annotated[str, Field(max_length=32768)]
Image = Annotated[str, Field(min_length=1, max_length=512)]
HttpPath = Annotated[str, Field(max_length=253, pattern=HTTP_PATH)]
Command = Annotated[tuple[Annotated[str, Field(max_length=4096)], ...], Field(max_length=MAX_ITEMS)]
Labels = Annotated[
    dict[Annotated[str, Field(min_length=1, max_length=317)], LongText],
    Field(max_length=MAX_ITEMS),
]
CountOrPercent = Annotated[
    int | str,
    PlainValidator(_count_or_percent),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "integer", "minimum": 0, "maximum": MAX_COUNT},
                {"type": "string", "maxLength": 4, "pattern": PERCENT},
            ],
            "x-kubernetes-int-or-string": True,
        }
    ),
]
Quantity = Annotated[
    int | str,
    PlainValidator(_quantity),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "integer", "minimum": 0},
                {"type": "string", "maxLength": MAX_ITEMS, "pattern": QUANTITY},
            ],
            "x-kubernetes-int-or-string": True,
        }
    ),
]
Quantities = Annotated[dict[Name, Quantity], Field(max_length=MAX_ITEMS)]
FreeObject = Annotated[
    dict[str, Any], Field(json_schema_extra={"x-kubernetes-preserve-unknown-fields": True})
]
"""An object of Kubernetes' own that is passed on as it is; the API server checks it."""
FreeObjects = Annotated[tuple[FreeObject, ...], Field(max_length=MAX_ITEMS)]
Distinct = AfterValidator(_distinct)
"""No two items of the list have the same name."""
