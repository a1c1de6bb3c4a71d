"""Whether the API server knows every field of a Queue that this version reads.

An older definition would silently drop a field that a user sets, and the operator would act as if
it had never been written. So it is told: in a metric, in the log and in `/readyz`.
"""

from collections.abc import Mapping
from typing import Any

from awa.manifest import GROUP, KIND, VERSION, crd
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
    return tuple(crd.missing_fields(schema))


def _queue_schema(document: Mapping[str, Any]) -> Mapping[str, Any] | None:
    for schema in ((document.get("components") or {}).get("schemas") or {}).values():
        for one in schema.get("x-kubernetes-group-version-kind") or ():
            if one.get("group") == GROUP and one.get("kind") == KIND:
                found: Mapping[str, Any] = schema
                return found
    return None
