"""What worker pods and migration pods have in common."""

from collections.abc import Iterable, Sequence
from typing import Any

from awa.manifest.part import Part
from awa.manifest.pod import EnvVar
from awa.manifest.queue import SecretKey
from awa.manifest.worker import Worker

DATABASE_URL = "AWA_DATABASE_URL"
SCRATCH = "awa-tmp"

POD_SECURITY: dict[str, Any] = {
    "runAsNonRoot": True,
    "seccompProfile": {"type": "RuntimeDefault"},
}
CONTAINER_SECURITY: dict[str, Any] = {
    "allowPrivilegeEscalation": False,
    "capabilities": {"drop": ["ALL"]},
    "readOnlyRootFilesystem": True,
}


def plain(part: Part) -> dict[str, Any]:
    """Return a part of a manifest as Kubernetes takes it: plain values, nothing unset."""
    return part.model_dump(mode="json", by_alias=True, exclude_none=True)


def plain_list(parts: Iterable[Part]) -> list[dict[str, Any]]:
    """Return parts of a manifest as Kubernetes takes them."""
    return [plain(part) for part in parts]


def without_unset(values: dict[str, Any]) -> dict[str, Any]:
    """Return what is set: neither None nor an empty list or object."""
    return {name: value for name, value in values.items() if value not in (None, [], {}, ())}


def environment(own: Sequence[dict[str, Any]], wished: Sequence[EnvVar]) -> list[dict[str, Any]]:
    """Return our variables and then the user's, which can refer to ours and not replace them."""
    names = {variable["name"] for variable in own}
    return [*own, *plain_list(one for one in wished if one.name not in names)]


def variable(name: str, value: str) -> dict[str, Any]:
    """Return a variable with a value."""
    return {"name": name, "value": value}


def pod_field(name: str, path: str) -> dict[str, Any]:
    """Return a variable with a field of the pod."""
    source = {"fieldRef": {"apiVersion": "v1", "fieldPath": path}}
    return {"name": name, "valueFrom": source}


def database_url(secret: SecretKey) -> dict[str, Any]:
    """Return the variable with the address, by reference: the value is in no manifest."""
    return {
        "name": DATABASE_URL,
        "valueFrom": {"secretKeyRef": {"name": secret.name, "key": secret.key}},
    }


def scratch_volume() -> dict[str, Any]:
    """Return the volume for /tmp: the root file system is read-only."""
    return {"name": SCRATCH, "emptyDir": {}}


def scratch_mount() -> dict[str, Any]:
    """Return the mount for /tmp."""
    return {"name": SCRATCH, "mountPath": "/tmp"}  # noqa: S108 - a path in the container


def placement(worker: Worker) -> dict[str, Any]:
    """Return where pods of a Queue may run and how their images are pulled."""
    return without_unset(
        {
            "imagePullSecrets": plain_list(worker.image_pull_secrets),
            "nodeSelector": worker.node_selector,
            "tolerations": plain_list(worker.tolerations),
        }
    )
