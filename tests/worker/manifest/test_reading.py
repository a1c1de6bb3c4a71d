"""A manifest is read as it is meant, and written as it was read."""

from pathlib import Path

import pytest
import yaml

from awa.manifest import API_VERSION, GROUP, KIND, VERSION, Queue, load_queue, parse_queue
from awa.manifest.tree import walk

EXAMPLE = """
apiVersion: awa.dev/v1alpha1
kind: Queue
metadata: {name: email}
spec:
  queueName: email
  # replicas: 2
  suspend: false
  database:
    connectionSecretRef: {name: app-db, key: url}
    migrationSecretRef:  {name: app-db-ddl, key: url}
    monitorSecretRef:    {name: app-db-ro, key: url}
    schema: awa
  worker:
    image: registry.example/app@sha256:0f5b8a
    command: ["app", "worker"]
    concurrency: 10
    drainTimeoutSeconds: 30
    resources: {requests: {cpu: 100m, memory: 128Mi}}
  migration:
    mode: Job
    command: ["app", "migrate"]
    strategy: Rolling
  scaling:
    mode: Native
    minReplicas: 1
    maxReplicas: 20
    targetJobsPerReplica: 10
    targetLagSeconds: 60
  rollout: {progressDeadlineSeconds: 600, autoRollback: false}
"""


def test_the_usual_manifest_is_read():
    queue = load_queue(EXAMPLE)
    assert queue.queue_name == "email"
    assert queue.spec.replicas is None
    assert queue.spec.database.schema_name == "awa"
    assert queue.spec.worker.command == ("app", "worker")
    assert queue.spec.worker.resources.requests == {"cpu": "100m", "memory": "128Mi"}
    assert queue.spec.scaling.target_lag_seconds == 60


def test_the_smallest_manifest_is_read(manifest):
    queue = parse_queue(manifest())
    assert queue.spec.worker.concurrency == 10
    assert queue.spec.scaling.mode == "Fixed"


def test_the_complete_manifest_sets_every_field_of_the_spec(complete):
    def put_in(value, path):
        if isinstance(value, list):
            return {path}.union(*(put_in(item, f"{path}[]") for item in value))
        if isinstance(value, dict):
            inner = (put_in(item, f"{path}.{name}") for name, item in value.items())
            return {path}.union(*inner)
        return {path}

    set_here = {path for name in complete for path in put_in(complete[name], name)}
    spec = {path for path, _ in walk() if path.startswith("spec.")}
    same_parts = {path for path in spec if path.startswith("spec.migration.env[].valueFrom")}
    assert spec - same_parts <= set_here
    parse_queue(complete)


@pytest.mark.parametrize("text", ["complete_text", "EXAMPLE"])
def test_a_manifest_is_written_as_it_was_read(text, complete_text):
    text = complete_text if text == "complete_text" else EXAMPLE
    queue = load_queue(text)
    assert queue.to_manifest() == yaml.safe_load(text)
    assert parse_queue(queue.to_manifest()) == queue


def test_defaults_are_not_written_back(manifest):
    smallest = manifest()
    assert parse_queue(smallest).to_manifest() == smallest


def test_a_manifest_is_read_from_a_file(tmp_path: Path):
    file = tmp_path / "queue.yaml"
    file.write_text(EXAMPLE)
    assert load_queue(file) == load_queue(str(file)) == load_queue(EXAMPLE)


def test_json_is_read_as_yaml(manifest):
    text = '{"apiVersion": "awa.dev/v1alpha1", "kind": "Queue", "metadata": {"name": "a"}, '
    text += '"spec": {"database": {"connectionSecretRef": {"name": "d"}}, '
    text += '"worker": {"image": "i"}, "migration": {"mode": "None"}}}'
    assert load_queue(text).metadata.name == "a"


def test_what_the_api_server_adds_is_taken(complete):
    complete["metadata"] |= {
        "uid": "8a3c",
        "generation": 3,
        "resourceVersion": "991",
        "creationTimestamp": "2026-01-01T00:00:00Z",
        "finalizers": [],
        "managedFields": [{"manager": "kubectl"}],
        "ownerReferences": [],
        "selfLink": "x",
        "generateName": "e",
        "deletionTimestamp": None,
        "deletionGracePeriodSeconds": 0,
    }
    complete["status"] = {
        "observedGeneration": 3,
        "replicas": 2,
        "conditions": [
            {
                "type": "Ready",
                "status": "True",
                "reason": "AllWell",
                "message": "",
                "observedGeneration": 3,
                "lastTransitionTime": "2026-01-01T00:00:00Z",
            }
        ],
        "scaling": {"idleSince": "2026-01-01T00:00:00Z"},
        "migration": {"history": [{"targetHash": "ab", "outcome": "Succeeded"}]},
        "addedByALaterRelease": {"x": 1},
    }
    queue = parse_queue(complete)
    assert queue.metadata.generation == 3
    assert queue.status.conditions[0].type == "Ready"
    assert queue.status.scaling.idle_since.tzinfo is not None
    assert queue.status.migration.history[0].outcome == "Succeeded"


def test_a_queue_cannot_be_changed(queue):
    made = queue()
    with pytest.raises(ValueError, match="frozen"):
        made.spec.worker.concurrency = 3


def test_the_names_of_the_resource_are_written_once():
    assert (GROUP, VERSION, KIND) == ("awa.dev", "v1alpha1", "Queue")
    assert API_VERSION == "awa.dev/v1alpha1"
    assert Queue.model_fields["api_version"].alias == "apiVersion"
