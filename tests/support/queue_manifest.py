"""The smallest manifest of a Queue, to change some fields of."""

import copy
from typing import Any

type Manifest = dict[str, Any]

SMALLEST: Manifest = {
    "apiVersion": "awa.dev/v1alpha1",
    "kind": "Queue",
    "metadata": {"name": "email"},
    "spec": {
        "database": {"connectionSecretRef": {"name": "app-db"}},
        "worker": {"image": "registry.example/app:1"},
        "migration": {"mode": "External"},
    },
}


def changed(changes: dict[str, Any], manifest: Manifest = SMALLEST) -> Manifest:
    """Return a manifest with some fields put in, given as path and value; None takes one out."""
    made = copy.deepcopy(manifest)
    for path, value in changes.items():
        *parents, last = path.split(".")
        place = made
        for parent in parents:
            place = place.setdefault(parent, {})
        if value is None:
            place.pop(last, None)
        else:
            place[last] = value
    return made
