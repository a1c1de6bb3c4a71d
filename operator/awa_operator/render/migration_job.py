"""The migration Job: one attempt of one migration of one database.

Attempts are counted by the operator, so a Job never starts a second pod by itself, except after a
disruption, which is nobody's failure.
"""

from collections.abc import Sequence
from typing import Any

from awa.manifest import Queue
from awa_operator import labels, names
from awa_operator.identity import canonical_json, database_identity, spec_hash, target_hash
from awa_operator.render import pod
from awa_operator.render.owners import owners_of

TERMINATION_LOG = "/dev/termination-log"


def render_migration_job(
    queue: Queue, number: int, attempt: int, owners: Sequence[Queue]
) -> dict[str, Any]:
    """Return the Job of one attempt; it goes when the last of its owners goes.

    No TTL yet: it is armed once the result is recorded.
    """
    namespace = queue.metadata.namespace or "default"
    identity = database_identity(namespace, queue.spec.database)
    job_labels = labels.job_labels(identity, target_hash(queue), attempt)
    annotations = {
        labels.IMAGE: queue.migration_image,
        labels.QUEUES: ",".join(sorted(owner.metadata.name for owner in owners)),
        labels.SPECS: canonical_json({one.metadata.uid or "": spec_hash(one) for one in owners}),
    }
    if queue.spec.migration.strategy == "Exclusive":
        annotations[labels.EXCLUSIVE] = "true"
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "name": names.job_name(identity, number),
            "namespace": namespace,
            "labels": job_labels,
            "annotations": annotations,
            "ownerReferences": owners_of(owners),
        },
        "spec": {
            "parallelism": 1,
            "completions": 1,
            "backoffLimit": 0,
            # A new pod only when the old one is gone: two migrations never overlap.
            "podReplacementPolicy": "Failed",
            "podFailurePolicy": {"rules": _failure_rules(queue)},
            "activeDeadlineSeconds": queue.spec.migration.active_deadline_seconds,
            "template": {"metadata": {"labels": job_labels}, "spec": _pod_spec(queue)},
        },
    }


def _failure_rules(queue: Queue) -> list[dict[str, Any]]:
    disrupted = {"type": "DisruptionTarget", "status": "True"}
    ignore = {"action": "Ignore", "onPodConditions": [disrupted]}
    codes = sorted(set(queue.spec.migration.permanent_exit_codes))
    if not codes:
        return [ignore]
    permanent = {
        "containerName": names.MIGRATION_CONTAINER,
        "operator": "In",
        "values": codes,
    }
    return [{"action": "FailJob", "onExitCodes": permanent}, ignore]


def _pod_spec(queue: Queue) -> dict[str, Any]:
    # Like a worker's where it matters: it pulls from the same registry, runs on the same nodes, and
    # sees the same volumes, such as the authority of the database's certificate.
    migration, worker = queue.spec.migration, queue.spec.worker
    optional = pod.without_unset({"serviceAccountName": migration.service_account_name})
    return {
        "restartPolicy": "Never",
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "securityContext": dict(pod.POD_SECURITY),
        **pod.placement(worker),
        **optional,
        "containers": [_container(queue)],
        "volumes": [pod.scratch_volume(), *worker.volumes],
    }


def _container(queue: Queue) -> dict[str, Any]:
    migration, database = queue.spec.migration, queue.spec.database
    own = [
        pod.database_url(database.migration_secret),
        pod.variable("AWA_SCHEMA", database.schema_name),
        pod.variable("AWA_TERMINATION_LOG", TERMINATION_LOG),
    ]
    optional = pod.without_unset(
        {
            "command": list(migration.command or ()),
            "args": list(migration.args or ()),
            "resources": pod.plain(migration.resources) if migration.resources else None,
        }
    )
    return {
        "name": names.MIGRATION_CONTAINER,
        "image": queue.migration_image,
        **optional,
        "env": pod.environment(own, migration.env),
        "securityContext": dict(pod.CONTAINER_SECURITY),
        "terminationMessagePath": TERMINATION_LOG,
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "volumeMounts": [pod.scratch_mount(), *queue.spec.worker.volume_mounts],
    }
