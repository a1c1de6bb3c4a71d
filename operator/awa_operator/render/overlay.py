"""Laying a user's fragment over a manifest, as a strategic merge of Kubernetes does.

Objects merge field by field, null removes a field. Lists that Kubernetes keeps by a key merge item
by item; every other list is replaced.
"""

from collections.abc import Mapping, Sequence
from typing import Any

KEYS: Mapping[str, str] = {
    "containers": "name",
    "initContainers": "name",
    "ephemeralContainers": "name",
    "env": "name",
    "volumes": "name",
    "imagePullSecrets": "name",
    "ports": "containerPort",
    "volumeMounts": "mountPath",
    "volumeDevices": "devicePath",
    "hostAliases": "ip",
    "topologySpreadConstraints": "topologyKey",
    "resourceClaims": "name",
}
"""Lists of a pod that are kept by a key."""


def overlaid(base: Mapping[str, Any], overlay: Mapping[str, Any]) -> dict[str, Any]:
    """Return `base` with `overlay` merged into it; neither is changed."""
    result = dict(base)
    for name, value in overlay.items():
        if value is None:
            result.pop(name, None)
        elif isinstance(value, Mapping):
            below = result.get(name)
            result[name] = overlaid(below if isinstance(below, Mapping) else {}, value)
        elif isinstance(value, list) and name in KEYS and isinstance(result.get(name), list):
            result[name] = _merged(result[name], value, KEYS[name])
        else:
            result[name] = value
    return result


def _merged(base: Sequence[Any], overlay: Sequence[Any], key: str) -> list[Any]:
    result = list(base)
    places = {item[key]: place for place, item in enumerate(result) if _has(item, key)}
    for item in overlay:
        if _has(item, key) and item[key] in places:
            place = places[item[key]]
            result[place] = overlaid(result[place], item)
        else:
            result.append(item)
    return result


def _has(item: object, key: str) -> bool:
    return isinstance(item, Mapping) and isinstance(item.get(key), str | int)
