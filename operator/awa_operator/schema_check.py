"""Whether the API server knows every field of a Queue that this version reads.

An older definition would silently drop a field that a user sets, and the operator would act as if
it had never been written. So it is told: in a metric, in the log and in `/readyz`.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from pydantic import BaseModel

from awa.manifest import GROUP, KIND, VERSION, QueueSpec
from awa.manifest.status import QueueStatus
from awa_operator.errors import ApiError
from awa_operator.kube import Kube

OPENAPI_PATH = f"/openapi/v3/apis/{GROUP}/{VERSION}"


async def missing_fields(kube: Kube) -> tuple[str, ...]:
    """Return the paths of fields that the served definition lacks.

    Raises an `ApiError` if the API server does not serve Queues or does not answer.
    """
    document = await kube.get_path(OPENAPI_PATH)
    schema = _queue_schema(document)
    if schema is None:
        raise ApiError("the API server tells nothing about Queues")
    wanted = (*_fields("spec", QueueSpec), *_fields("status", QueueStatus))
    return tuple(path for path in wanted if not _has(schema, path.split(".")))


def _queue_schema(document: Mapping[str, Any]) -> Mapping[str, Any] | None:
    for schema in ((document.get("components") or {}).get("schemas") or {}).values():
        for one in schema.get("x-kubernetes-group-version-kind") or ():
            if one.get("group") == GROUP and one.get("kind") == KIND:
                found: Mapping[str, Any] = schema
                return found
    return None


def _fields(path: str, model: type[BaseModel]) -> Iterator[str]:
    """Yield the path of each field of a model and of the models in it."""
    for name, field in model.model_fields.items():
        here = f"{path}.{field.alias or name}"
        yield here
        for inner in _models(field.annotation):
            yield from _fields(here, inner)


def _models(annotation: object) -> Iterator[type[BaseModel]]:
    """Yield the models that a field holds itself; a list's items are left out."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
        return
    if getattr(annotation, "__origin__", None) in (tuple, list, dict):
        return
    for one in getattr(annotation, "__args__", ()):
        yield from _models(one)


def _has(schema: Mapping[str, Any], steps: list[str]) -> bool:
    here: Mapping[str, Any] = schema
    for step in steps:
        if here.get("x-kubernetes-preserve-unknown-fields"):
            return True
        inner = (here.get("properties") or {}).get(step)
        if inner is None:
            return False
        here = inner
    return True
