"""The defaults that are promised, and those that follow from other fields."""

import pytest

DEFAULTS = {
    "queueName": None,
    "replicas": None,
    "suspend": False,
    "database.connectionSecretRef.key": "url",
    "database.migrationSecretRef": None,
    "database.monitorSecretRef": None,
    "database.schema": "awa",
    "worker.concurrency": 10,
    "worker.drainTimeoutSeconds": 30,
    "worker.terminationGracePeriodSeconds": None,
    "worker.health.port": 8321,
    "worker.health.livenessPath": "/healthz",
    "worker.health.readinessPath": "/readyz",
    "worker.metrics.port": 9090,
    "worker.metrics.path": "/metrics",
    "migration.image": None,
    "migration.strategy": "Rolling",
    "migration.activeDeadlineSeconds": 3600,
    "migration.maxAttempts": 5,
    "migration.permanentExitCodes": [64, 65, 78],
    "migration.ttlSecondsAfterFinished": 86400,
    "migration.historyLimit": 3,
    "rollout.maxSurge": "25%",
    "rollout.maxUnavailable": "25%",
    "rollout.minReadySeconds": 5,
    "rollout.progressDeadlineSeconds": 600,
    "rollout.autoRollback": False,
    "rollout.paused": False,
    "rollout.rotateOnSecretChange": True,
    "scaling.mode": "Fixed",
    "scaling.minReplicas": 1,
    "scaling.maxReplicas": 10,
    "scaling.targetJobsPerReplica": None,
    "scaling.targetLagSeconds": None,
    "scaling.activationThreshold": 0,
    "scaling.pollIntervalSeconds": 10,
    "scaling.cooldownSeconds": 300,
    "scaling.tolerancePercent": 10,
    "scaling.behavior.scaleUp": {
        "stabilizationWindowSeconds": 0,
        "policies": [
            {"type": "Pods", "value": 4, "periodSeconds": 15},
            {"type": "Percent", "value": 100, "periodSeconds": 15},
        ],
        "selectPolicy": "Max",
    },
    "scaling.behavior.scaleDown": {
        "stabilizationWindowSeconds": 300,
        "policies": [
            {"type": "Pods", "value": 1, "periodSeconds": 60},
            {"type": "Percent", "value": 25, "periodSeconds": 60},
        ],
        "selectPolicy": "Max",
    },
    "scaling.fallback": {"failureThreshold": 6, "replicas": None},
    "podDisruptionBudget": {"enabled": True, "maxUnavailable": "25%"},
    "networkPolicy.enabled": False,
    "monitoring.podMonitor.enabled": False,
}


@pytest.mark.parametrize("path", DEFAULTS)
def test_a_field_that_is_left_out_has_its_default(queue, path):
    value = queue().spec.model_dump(mode="json", by_alias=True)
    for name in path.split("."):
        value = value[name]
    assert value == DEFAULTS[path]


def test_the_mode_of_migration_is_job(queue):
    made = queue({"spec.migration": {"command": ["app", "migrate"]}})
    assert made.spec.migration.mode == "Job"


def test_the_queue_is_named_after_the_resource(queue):
    assert queue().queue_name == "email"
    assert queue({"spec.queueName": "Bulk mail"}).queue_name == "Bulk mail"


def test_the_worker_image_migrates_unless_another_is_named(queue):
    assert queue().migration_image == "registry.example/app:1"
    assert queue({"spec.migration.image": "other"}).migration_image == "other"


def test_a_replica_is_expected_to_hold_what_it_runs_at_a_time(queue):
    assert queue({"spec.worker.concurrency": 7}).target_jobs_per_replica == 7
    assert queue({"spec.scaling.targetJobsPerReplica": 3}).target_jobs_per_replica == 3


def test_one_secret_serves_for_everything_unless_others_are_named(queue):
    database = queue().spec.database
    assert database.migration_secret == database.monitor_secret == database.connection_secret_ref
    named = queue({"spec.database.migrationSecretRef": {"name": "ddl"}}).spec.database
    assert (named.migration_secret.name, named.monitor_secret.name) == ("ddl", "app-db")
    watched = queue({"spec.database.monitorSecretRef": {"name": "ro"}}).spec.database
    assert (watched.migration_secret.name, watched.monitor_secret.name) == ("app-db", "ro")


def test_pods_get_ten_seconds_more_than_they_need_to_drain(queue):
    assert queue({"spec.worker.drainTimeoutSeconds": 120}).spec.worker.grace_period_seconds == 130
    given = queue({"spec.worker.terminationGracePeriodSeconds": 99})
    assert given.spec.worker.grace_period_seconds == 99


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, 1),
        ({"spec.replicas": 4}, 4),
        ({"spec.replicas": 0}, 0),
        ({"spec.replicas": 4, "spec.scaling.mode": "External"}, 4),
        ({"spec.replicas": 4, "spec.suspend": True}, 0),
        ({"spec.scaling": {"mode": "Native", "targetLagSeconds": 9, "minReplicas": 0}}, 0),
        (
            {
                "spec.replicas": 9,
                "spec.scaling": {"mode": "Native", "targetLagSeconds": 9, "minReplicas": 3},
            },
            3,
        ),
    ],
)
def test_the_first_replicas_follow_the_mode(queue, changes, expected):
    assert queue(changes).first_replicas == expected
