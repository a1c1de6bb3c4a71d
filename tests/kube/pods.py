"""Objects that tests of the cluster apply."""

from collections.abc import Sequence
from typing import Any

# What a pod of a restricted namespace has to promise.
POD_SECURITY = {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}}
CONTAINER_SECURITY = {
    "allowPrivilegeEscalation": False,
    "readOnlyRootFilesystem": True,
    "capabilities": {"drop": ["ALL"]},
}


def container(image: str, command: Sequence[str], **more: Any) -> dict[str, Any]:
    """Return a restricted container named `main`."""
    return {
        "name": "main",
        "image": image,
        "imagePullPolicy": "Never",
        "command": list(command),
        "securityContext": CONTAINER_SECURITY,
        **more,
    }


def pod_spec(main: dict[str, Any], **more: Any) -> dict[str, Any]:
    """Return the spec of a restricted pod with one container."""
    return {
        "automountServiceAccountToken": False,
        "terminationGracePeriodSeconds": 1,
        "securityContext": POD_SECURITY,
        "containers": [main],
        **more,
    }


def job(name: str, main: dict[str, Any], **more: Any) -> dict[str, Any]:
    """Return a Job that runs one pod once."""
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name},
        "spec": {
            "backoffLimit": 0,
            "template": {"spec": pod_spec(main, restartPolicy="Never")},
            **more,
        },
    }


def deployment(name: str, replicas: int, main: dict[str, Any]) -> dict[str, Any]:
    """Return a Deployment."""
    labels = {"app": name}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": pod_spec(main)},
        },
    }


def service(name: str, port: int) -> dict[str, Any]:
    """Return a Service on port 80 of the pods of a Deployment."""
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": name},
        "spec": {"selector": {"app": name}, "ports": [{"port": 80, "targetPort": port}]},
    }
