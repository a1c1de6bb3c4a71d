"""Whether a live object still has what we applied, whatever the API server and others added."""

import re
from collections.abc import Mapping
from decimal import Decimal

from awa_operator.render.overlay import KEYS

_SUFFIXES = {
    "n": Decimal("1e-9"), "u": Decimal("1e-6"), "m": Decimal("1e-3"), "k": Decimal("1e3"),
    "M": Decimal("1e6"), "G": Decimal("1e9"), "T": Decimal("1e12"), "P": Decimal("1e15"),
    "E": Decimal("1e18"), "Ki": Decimal(2) ** 10, "Mi": Decimal(2) ** 20, "Gi": Decimal(2) ** 30,
    "Ti": Decimal(2) ** 40, "Pi": Decimal(2) ** 50, "Ei": Decimal(2) ** 60,
}  # fmt: skip
_QUANTITY = re.compile(r"^([+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d{1,3})?)([numkMGTPE]|[KMGTPE]i)?$")


def contains(live: object, applied: object) -> bool:
    """Tell whether everything of `applied` is in `live` with the same value.

    Lists that Kubernetes keeps by a key are compared by it. Empty values and zero count as
    absent, and quantities by their amount, since the API server writes both its own way.
    """
    if isinstance(applied, Mapping):
        if not isinstance(live, Mapping):
            return not applied
        return all(_has(live, name, value) for name, value in applied.items())
    if isinstance(applied, list | tuple):
        return isinstance(live, list | tuple) and _same_items(live, applied, None)
    return live == applied or _amount(live) == _amount(applied) is not None


def _has(live: Mapping[str, object], name: str, value: object) -> bool:
    if _is_empty(value):
        return name not in live or _is_empty(live[name])
    if name not in live:
        return False
    if isinstance(value, list | tuple):
        below = live[name]
        return isinstance(below, list | tuple) and _same_items(below, value, KEYS.get(name))
    return contains(live[name], value)


def _is_empty(value: object) -> bool:
    is_zero = value == 0 and not isinstance(value, bool)
    return is_zero or value in ({}, [], (), None, "")


def _same_items(
    live: list[object] | tuple[object, ...],
    applied: list[object] | tuple[object, ...],
    key: str | None,
) -> bool:
    if key is None or not all(isinstance(item, Mapping) and key in item for item in applied):
        return len(live) == len(applied) and all(map(contains, live, applied))
    by_key = {item[key]: item for item in live if isinstance(item, Mapping) and key in item}
    return all(
        item[key] in by_key and contains(by_key[item[key]], item)
        for item in applied
        if isinstance(item, Mapping)
    )


def _amount(value: object) -> Decimal | None:
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    found = _QUANTITY.match(str(value))
    return Decimal(found[1]) * _SUFFIXES.get(found[2] or "", Decimal(1)) if found else None
