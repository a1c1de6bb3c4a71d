"""The Deployment of the workers."""

from collections.abc import Mapping
from typing import Any

from awa.manifest import Queue, worker_environment
from awa.manifest.worker import Worker
from awa_operator import labels, names
from awa_operator.render import pod
from awa_operator.render.overlay import overlaid
from awa_operator.render.owners import controller_of

STATE = "awa-state"
STATE_MOUNT = "/run/awa"
STATE_FOLDER = "/run/awa/state"
"""Below the mount, so that the worker makes it itself and nobody else can write to it."""

REVISIONS_KEPT = 3


def render_pod_template(queue: Queue, secret_hash: str | None) -> dict[str, Any]:
    """Return the pod template. `secret_hash` None leaves the mark of the Secret out.

    The user's overlay comes over ours, but the labels that select the pods stay.
    """
    worker = queue.spec.worker
    annotations = {**_scraping(worker), **(worker.pod_annotations or {})}
    if secret_hash is not None:
        annotations[labels.SECRET_HASH] = secret_hash
    template = {
        "metadata": {
            "labels": {**(worker.pod_labels or {}), **labels.worker_labels(queue.metadata.name)},
            "annotations": annotations,
        },
        "spec": _pod_spec(queue),
    }
    if worker.pod_template:
        template = overlaid(template, worker.pod_template)
        ours = {"metadata": {"labels": labels.worker_labels(queue.metadata.name)}}
        template = overlaid(template, ours)
    return template


def render_deployment(
    queue: Queue,
    template: Mapping[str, Any],
    annotations: Mapping[str, str],
    replicas: int | None = None,
) -> dict[str, Any]:
    """Return the Deployment with a pod template; `replicas` only for its creation."""
    rollout = queue.spec.rollout
    name = queue.metadata.name
    metadata = _metadata(queue) | {
        "labels": labels.worker_labels(name),
        "annotations": dict(annotations),
        "ownerReferences": controller_of(queue),
    }
    spec: dict[str, Any] = {
        "selector": {"matchLabels": labels.worker_selector(name)},
        "strategy": {
            "type": "RollingUpdate",
            "rollingUpdate": {
                "maxSurge": rollout.max_surge,
                "maxUnavailable": rollout.max_unavailable,
            },
        },
        "minReadySeconds": rollout.min_ready_seconds,
        "progressDeadlineSeconds": rollout.progress_deadline_seconds,
        "revisionHistoryLimit": REVISIONS_KEPT,
        "template": dict(template),
    }
    if replicas is not None:
        spec["replicas"] = replicas
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata, "spec": spec}


def render_replicas(
    queue: Queue, replicas: int, resource_version: str, held_replicas: int | None
) -> dict[str, Any]:
    """Return what the scale manager applies: the count, and the count before a hold.

    A count without a hold leaves the annotation out, so that applying it removes the annotation.
    """
    metadata = _metadata(queue) | {"resourceVersion": resource_version}
    if held_replicas is not None:
        metadata["annotations"] = {labels.HELD_REPLICAS: str(held_replicas)}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": metadata,
        "spec": {"replicas": replicas},
    }


def _metadata(queue: Queue) -> dict[str, Any]:
    return {
        "name": names.worker_name(queue.metadata.name),
        "namespace": queue.metadata.namespace or "default",
    }


def _pod_spec(queue: Queue) -> dict[str, Any]:
    worker = queue.spec.worker
    optional = pod.without_unset(
        {
            "serviceAccountName": worker.service_account_name,
            "priorityClassName": worker.priority_class_name,
            "affinity": worker.affinity,
            "topologySpreadConstraints": list(worker.topology_spread_constraints),
        }
    )
    volumes = [pod.scratch_volume(), {"name": STATE, "emptyDir": {}}, *worker.volumes]
    return {
        "automountServiceAccountToken": False,
        # A Service named awa would set variables that look like ours.
        "enableServiceLinks": False,
        "securityContext": dict(pod.POD_SECURITY),
        "terminationGracePeriodSeconds": worker.grace_period_seconds,
        **pod.placement(worker),
        **optional,
        "containers": [_container(queue)],
        "volumes": volumes,
    }


def _container(queue: Queue) -> dict[str, Any]:
    worker = queue.spec.worker
    optional = pod.without_unset(
        {
            "command": list(worker.command or ()),
            "args": list(worker.args or ()),
            "envFrom": pod.plain_list(worker.env_from),
            "resources": pod.plain(worker.resources) if worker.resources else None,
        }
    )
    mounts = [pod.scratch_mount(), {"name": STATE, "mountPath": STATE_MOUNT}]
    return {
        "name": names.WORKER_CONTAINER,
        "image": worker.image,
        **optional,
        "env": pod.environment(_own_environment(queue), worker.env),
        "ports": _ports(worker),
        "livenessProbe": {
            "httpGet": {"path": worker.health.liveness_path, "port": worker.health.port},
            "periodSeconds": 10,
            "timeoutSeconds": 5,
            "failureThreshold": 6,
        },
        "readinessProbe": {
            "httpGet": {"path": worker.health.readiness_path, "port": worker.health.port},
            "periodSeconds": 2,
            "timeoutSeconds": 2,
            "failureThreshold": 3,
        },
        "securityContext": dict(pod.CONTAINER_SECURITY),
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "volumeMounts": [*mounts, *worker.volume_mounts],
    }


def _own_environment(queue: Queue) -> list[dict[str, Any]]:
    worker = queue.spec.worker
    addresses = {"AWA_HEALTH_ADDRESS": f"0.0.0.0:{worker.health.port}"}
    if worker.metrics.port != worker.health.port:
        addresses["AWA_METRICS_ADDRESS"] = f"0.0.0.0:{worker.metrics.port}"
    values = {
        **worker_environment(queue),
        **addresses,
        "AWA_STATE_FOLDER": STATE_FOLDER,
        # Whose pod it is, so that its jobs are handed on once it is gone.
        "AWA_POD_OWNER": queue.metadata.uid or "",
    }
    fields = {
        "AWA_WORKER_NAME": "metadata.name",
        "AWA_POD_NAME": "metadata.name",
        "AWA_POD_UID": "metadata.uid",
    }
    return [
        pod.database_url(queue.spec.database.connection_secret_ref),
        *(pod.pod_field(name, path) for name, path in fields.items()),
        *(pod.variable(name, value) for name, value in values.items()),
    ]


def _ports(worker: Worker) -> list[dict[str, Any]]:
    ports = [{"name": "metrics", "containerPort": worker.metrics.port, "protocol": "TCP"}]
    if worker.health.port != worker.metrics.port:
        ports.append({"name": "health", "containerPort": worker.health.port, "protocol": "TCP"})
    return ports


def _scraping(worker: Worker) -> dict[str, str]:
    return {
        "prometheus.io/scrape": "true",
        "prometheus.io/port": str(worker.metrics.port),
        "prometheus.io/path": worker.metrics.path,
    }
