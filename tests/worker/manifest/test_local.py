"""What `awa up` takes from a manifest, and what it says that it does not take."""

from datetime import timedelta

import pytest

from awa.manifest import (
    ManifestError,
    load_queue,
    local_view,
    not_applicable_locally,
    worker_environment,
)

URL = "postgresql://awa@localhost/awa"
RUN = {"spec.worker.command": ["awa", "worker", "handlers"]}


def test_the_command_of_the_manifest_is_run(queue):
    view = local_view(queue({**RUN, "spec.worker.args": ["--verbose"]}), URL)
    assert view.command == ("awa", "worker", "handlers", "--verbose")


def test_a_worker_is_told_its_database_and_its_queue(queue):
    changes = {
        "spec.queueName": "Bulk mail",
        "spec.worker.concurrency": 4,
        "spec.worker.drainTimeoutSeconds": 7,
        "spec.database.schema": "jobs",
    }
    view = local_view(queue({**RUN, **changes}), URL)
    assert view.environment == {
        "AWA_DATABASE_URL": URL,
        "AWA_QUEUE": "Bulk mail",
        "AWA_QUEUES": "Bulk mail:4",
        "AWA_SCHEMA": "jobs",
        "AWA_DRAIN_TIMEOUT_SECONDS": "7",
    }
    assert (view.queue_name, view.schema, view.concurrency) == ("Bulk mail", "jobs", 4)
    assert view.drain_timeout == timedelta(seconds=7)


def test_the_same_variables_are_for_a_pod_but_the_connection(queue):
    made = queue(RUN)
    local = dict(local_view(made, URL).environment)
    del local["AWA_DATABASE_URL"]
    assert worker_environment(made) == local


def test_variables_with_a_value_apply_and_others_do_not(queue):
    env = [
        {"name": "GREETING", "value": "hello"},
        {"name": "EMPTY"},
        {"name": "TOKEN", "valueFrom": {"secretKeyRef": {"name": "a", "key": "b"}}},
    ]
    view = local_view(queue({**RUN, "spec.worker.env": env}), URL)
    assert view.environment["GREETING"] == "hello"
    assert view.environment["EMPTY"] == ""
    assert "TOKEN" not in view.environment
    assert "spec.worker.env[2].valueFrom" in [field.path for field in view.not_applied]


def test_variables_of_awa_win(queue):
    env = [{"name": "AWA_QUEUE", "value": "other"}, {"name": "AWA_DATABASE_URL", "value": "x"}]
    view = local_view(queue({**RUN, "spec.worker.env": env}), URL)
    assert (view.environment["AWA_QUEUE"], view.environment["AWA_DATABASE_URL"]) == ("email", URL)


@pytest.mark.parametrize(
    ("text", "filled"),
    [
        ("$(AWA_QUEUE)", "email"),
        ("q=$(AWA_QUEUE)/$(A)", "q=email/one"),
        ("$(LATER)", "$(LATER)"),
        ("$(NOBODY)", "$(NOBODY)"),
        ("$$(AWA_QUEUE)", "$(AWA_QUEUE)"),
        ("$$$(A)", "$one"),
        ("$AWA_QUEUE ${A} $(A", "$AWA_QUEUE ${A} $(A"),
    ],
)
def test_references_are_filled_in_as_kubernetes_does(queue, text, filled):
    env = [
        {"name": "A", "value": "one"},
        {"name": "B", "value": text},
        {"name": "LATER", "value": "x"},
    ]
    view = local_view(queue({**RUN, "spec.worker.env": env}), URL)
    assert view.environment["B"] == filled


def test_references_in_the_command_see_every_variable(queue):
    env = [{"name": "MODULE", "value": "handlers"}]
    changes = {"spec.worker.command": ["awa", "worker", "$(MODULE)"], "spec.worker.env": env}
    assert local_view(queue(changes), URL).command == ("awa", "worker", "handlers")


@pytest.mark.parametrize("command", [None, []])
def test_without_a_command_nothing_can_be_run(queue, command):
    with pytest.raises(ManifestError, match=r"spec\.worker\.command: is needed by awa up"):
        local_view(queue({"spec.worker.command": command}), URL)


def test_the_count_is_fixed_or_planned(queue):
    fixed = local_view(queue({**RUN, "spec.replicas": 3}), URL)
    assert (fixed.replicas, fixed.scaling) == (3, None)
    native = {"mode": "Native", "minReplicas": 2, "targetLagSeconds": 9}
    planned = local_view(queue({**RUN, "spec.scaling": native}), URL)
    assert (planned.replicas, planned.scaling.min_replicas) == (2, 2)


def test_a_suspended_queue_starts_nothing(queue):
    view = local_view(queue({**RUN, "spec.replicas": 3, "spec.suspend": True}), URL)
    assert (view.suspended, view.replicas) == (True, 0)


def test_the_connection_is_not_shown(queue):
    assert "hunter2" not in repr(local_view(queue(RUN), "postgresql://awa:hunter2@host/db"))


def test_fields_without_a_meaning_here_are_listed(complete_text):
    assert not_applicable_locally(load_queue(complete_text)) == [
        "spec.database.connectionSecretRef",
        "spec.database.migrationSecretRef",
        "spec.database.monitorSecretRef",
        "spec.worker.image",
        "spec.worker.env[1].valueFrom",
        "spec.worker.env[2].valueFrom",
        "spec.worker.env[3].valueFrom",
        "spec.worker.env[4].valueFrom",
        "spec.worker.envFrom",
        "spec.worker.terminationGracePeriodSeconds",
        "spec.worker.health",
        "spec.worker.metrics",
        "spec.worker.resources",
        "spec.worker.nodeSelector",
        "spec.worker.tolerations",
        "spec.worker.affinity",
        "spec.worker.topologySpreadConstraints",
        "spec.worker.volumes",
        "spec.worker.volumeMounts",
        "spec.worker.imagePullSecrets",
        "spec.worker.serviceAccountName",
        "spec.worker.podLabels",
        "spec.worker.podAnnotations",
        "spec.worker.priorityClassName",
        "spec.worker.podTemplate",
        "spec.migration",
        "spec.rollout",
        "spec.podDisruptionBudget",
        "spec.networkPolicy",
        "spec.monitoring",
    ]


def test_only_fields_that_are_set_are_listed(queue):
    made = queue(RUN)
    assert not_applicable_locally(made) == [
        "spec.database.connectionSecretRef",
        "spec.worker.image",
        "spec.migration",
    ]
    view = local_view(made, URL)
    assert [field.path for field in view.not_applied] == not_applicable_locally(made)
    assert all(field.why for field in view.not_applied)
