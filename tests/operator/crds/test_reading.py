"""What a user sees and does with kubectl: explain, get, describe, scale, wait."""

import json
import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import yaml

from awa.manifest import ConditionType, load_queue, parse_queue
from awa.manifest.crd import missing_fields
from awa.manifest.tree import walk
from cluster.errors import CommandFailed
from support.queue_manifest import changed

ROOT = Path(__file__).resolve().parents[3]
EXAMPLES = sorted((ROOT / "crds" / "examples").glob("*.yaml"))
COMPLETE = ROOT / "tests" / "worker" / "manifest" / "complete.yaml"
NOW = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
STATUS: dict[str, Any] = {
    "observedGeneration": 1,
    "replicas": 3,
    "readyReplicas": 2,
    "desiredReplicas": 4,
    "selector": "awa.dev/queue=email",
    "image": "registry.example/team/app:1",
    "shortImage": "app:1",
    "database": {"identity": "0123456789", "schemaVersion": 52},
    "scaling": {"lastScaleTime": NOW, "lastScaleReason": "Depth"},
    "conditions": [
        {
            "type": kind.value,
            "status": "False",
            "reason": "RollingOut",
            "message": "2 of 4 workers are ready",
            "observedGeneration": 1,
            "lastTransitionTime": NOW,
        }
        for kind in ConditionType
    ],
}


@pytest.fixture
def reported(namespace, queue_definition):
    """A Queue with a status, as the operator would write it."""
    namespace.apply(changed({"spec.replicas": 4}))
    report(namespace, STATUS)
    return namespace


def report(namespace, status: dict[str, Any]) -> None:
    patch = json.dumps({"status": status})
    namespace.kubectl(
        "patch", "jobq", "email", "--subresource=status", "--type=merge", f"--patch={patch}"
    )


def table(text: str) -> dict[str, str]:
    """Return the only row of a table, by column."""
    head, row = text.splitlines()
    starts = [found.start() for found in re.finditer(r"\S+", head)]
    ends = [*starts[1:], None]
    return {head[a:b].strip(): row[a:b].strip() for a, b in zip(starts, ends, strict=True)}


def test_the_list_says_how_a_queue_is(reported):
    row = table(reported.kubectl("get", "jobq"))
    assert list(row) == [
        "NAME", "READY", "REASON", "IMAGE", "REPLICAS", "DESIRED", "SCHEMA", "SCALING", "AGE",
    ]  # fmt: skip
    assert row["NAME"] == "email"
    assert (row["READY"], row["REASON"]) == ("False", "RollingOut")
    assert (row["REPLICAS"], row["DESIRED"], row["SCHEMA"]) == ("3", "4", "52")
    assert row["IMAGE"] == "app:1"
    assert row["SCALING"] == "Fixed"


def test_the_wide_list_says_why(reported):
    row = table(reported.kubectl("get", "jobq", "-o", "wide"))
    assert row["MESSAGE"] == "2 of 4 workers are ready"
    assert row["DATABASE"] == "0123456789"
    assert re.fullmatch(r"\d+[sm]\d*s?", row["LASTSCALE"])


def test_a_queue_that_nobody_serves_says_so(namespace, queue_definition):
    namespace.apply(changed({}))
    row = table(namespace.kubectl("get", "jobq", "-o", "wide"))
    assert (row["READY"], row["REASON"]) == ("Unknown", "Pending")
    assert "is one there that serves this namespace?" in row["MESSAGE"]
    with pytest.raises(CommandFailed, match="timed out"):
        namespace.kubectl("wait", "jobq/email", "--for=condition=Ready", "--timeout=1s")


def test_queues_are_found_by_every_name(reported):
    for name in ("jobq", "queue.awa.dev", "queues.awa.dev", "queues.v1alpha1.awa.dev", "awa"):
        assert "email" in reported.kubectl("get", name)


def test_the_description_tells_conditions_and_spec(reported):
    text = reported.kubectl("describe", "jobq", "email")
    for words in ("RollingOut", "2 of 4 workers are ready", "Connection Secret Ref", "app-db"):
        assert words in text


def test_every_field_is_explained(cluster, queue_definition):
    text = cluster.kubectl("explain", "queues.awa.dev", "--recursive")
    fields = {path.rpartition(".")[2] for path, _ in walk() if path.startswith(("spec", "status"))}
    assert {name for name in fields if not re.search(rf"^\s*{name}\t", text, re.MULTILINE)} == set()
    text = cluster.kubectl("explain", "jobq.spec.scaling.minReplicas")
    assert "The fewest replicas in mode `Native`" in " ".join(text.split())
    text = cluster.kubectl("explain", "jobq.spec.scaling.mode")
    assert all(word in text for word in ("Fixed", "Native", "External"))


def test_the_published_schema_lacks_no_field(cluster, queue_definition):
    """P41: what the operator compares at its start."""
    published = json.loads(cluster.kubectl("get", "--raw", "/openapi/v3/apis/awa.dev/v1alpha1"))
    schema = published["components"]["schemas"]["dev.awa.v1alpha1.Queue"]
    assert missing_fields(schema) == []


def test_scaling_a_queue_changes_the_count_and_nothing_else(reported):
    before = reported.get("jobq", "email")
    assert "scaled" in reported.kubectl("scale", "jobq/email", "--replicas=7")
    after = reported.get("jobq", "email")
    assert after["spec"] == {**before["spec"], "replicas": 7}
    assert after["status"] == before["status"]


def test_the_scale_subresource_is_what_an_autoscaler_needs(reported):
    path = f"/apis/awa.dev/v1alpha1/namespaces/{reported.name}/queues/email/scale"
    scale = json.loads(reported.kubectl("get", "--raw", path))
    assert scale["spec"]["replicas"] == 4
    assert scale["status"] == {"replicas": 3, "selector": "awa.dev/queue=email"}


def test_the_scale_has_bounds_too(reported):
    with pytest.raises(CommandFailed, match=r"spec\.replicas"):
        reported.kubectl("scale", "jobq/email", "--replicas=1001")


def test_a_queue_without_a_count_can_be_scaled(namespace, queue_definition):
    namespace.apply(changed({}))
    namespace.kubectl("scale", "jobq/email", "--replicas=2")
    assert namespace.get("jobq", "email")["spec"]["replicas"] == 2


def test_waiting_ends_when_the_condition_holds(reported):
    ready = [
        {**one, "status": "True"} if one["type"] == "Ready" else one for one in STATUS["conditions"]
    ]
    with pytest.raises(CommandFailed, match="timed out"):
        reported.kubectl("wait", "jobq/email", "--for=condition=Ready", "--timeout=1s")
    report(reported, {"conditions": ready})
    said = reported.kubectl("wait", "jobq/email", "--for=condition=Ready", "--timeout=30s")
    assert "condition met" in said


def test_spec_and_status_have_different_writers(reported):
    manifest = changed({"spec.replicas": 4, "status": {"replicas": 99}})
    reported.apply(manifest)
    assert reported.get("jobq", "email")["status"]["replicas"] == 3
    report(reported, {"replicas": 5})
    found = reported.get("jobq", "email")
    assert found["status"]["replicas"] == 5
    assert found["metadata"]["generation"] == 1


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_what_is_stored_of_an_example_is_what_the_models_read(namespace, queue_definition, example):
    (manifest,) = [one for one in yaml.safe_load_all(example.read_text()) if one["kind"] == "Queue"]
    namespace.apply(manifest)
    written = load_queue(example)
    stored = namespace.get("jobq", written.metadata.name)
    assert stored["spec"]["migration"]["mode"] == "Job"
    assert parse_queue(stored).spec == written.spec


def test_a_complete_manifest_is_stored_whole(namespace, queue_definition):
    manifest = yaml.safe_load(COMPLETE.read_text())
    del manifest["metadata"]["namespace"]
    namespace.apply(manifest)
    assert namespace.get("jobq", "email")["spec"] == manifest["spec"]


def test_applying_again_changes_nothing(namespace, queue_definition):
    manifest = changed({"spec.scaling.mode": "Fixed"})
    namespace.apply(manifest)
    first = namespace.get("jobq", "email")["metadata"]
    assert "unchanged" in namespace.apply(manifest)
    again = namespace.get("jobq", "email")["metadata"]
    assert again["resourceVersion"] == first["resourceVersion"]
