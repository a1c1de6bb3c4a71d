"""Queues as plain values: what a test does not say has a working default."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from pydantic import BaseModel

from awa.manifest import Queue
from awa_operator.cache import SHOWN_TO_OTHERS
from awa_operator.render.overlay import overlaid

START = datetime(2026, 6, 1, 12, tzinfo=UTC)
"""When every story begins."""


def make_queue(
    name: str = "email",
    spec: Mapping[str, Any] | None = None,
    *,
    generation: int = 1,
    status: Mapping[str, Any] | None = None,
) -> Queue:
    """Return a Queue as the API server would give it, `spec` laid over a spec that works."""
    base: dict[str, Any] = {
        "database": {"connectionSecretRef": {"name": "app-db"}},
        "worker": {"image": "app:1", "command": ["awa", "worker", "handlers"]},
        "migration": {"command": ["awa", "migrate"]},
        "replicas": 2,
    }
    manifest = {
        "apiVersion": "awa.dev/v1alpha1",
        "kind": "Queue",
        "metadata": {
            "name": name,
            "namespace": "mail",
            "uid": f"uid-{name}",
            "generation": generation,
        },
        "spec": overlaid(base, spec or {}),
    }
    if status is not None:
        manifest["status"] = dict(status)
    return Queue.model_validate(manifest)


def as_others_see_it(queue: Queue) -> Queue:
    """Return a Queue without what others of its database are not told of; reading that raises."""
    return queue.model_copy(update={"spec": _only(queue.spec, SHOWN_TO_OTHERS)})


def _only(part: BaseModel, shown: Mapping[str, Any] | set[str]) -> BaseModel:
    seen = part.model_copy()
    for name in type(part).model_fields:
        if name not in shown:
            del seen.__dict__[name]
        elif isinstance(shown, Mapping) and shown[name] is not True:
            seen.__dict__[name] = _only(getattr(part, name), shown[name])
    return seen
