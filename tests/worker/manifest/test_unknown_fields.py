"""No field that nobody knows goes unnoticed, wherever it stands."""

import copy

import pytest

from awa.manifest import ManifestError, load_queue, parse_queue, parse_stored_queue
from awa.manifest.tree import walk


def objects(value, path=()):
    """Yield the path of every object in a manifest."""
    if isinstance(value, dict):
        yield path
        for name, item in value.items():
            yield from objects(item, (*path, name))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from objects(item, (*path, index))


FREE: tuple[str, ...] = (
    "labels",
    "annotations",
    "requests",
    "limits",
    "nodeSelector",
    "affinity",
    "podTemplate",
)
FREE += ("topologySpreadConstraints", "volumes", "volumeMounts", "podLabels", "podAnnotations")


def test_an_unknown_field_is_refused_in_every_object(complete):
    places = [path for path in objects(complete) if not set(path) & set(FREE)]
    assert len(places) >= len({field.part for _, field in walk() if field.part}) - 10
    for place in places:
        changed = copy.deepcopy(complete)
        target = changed
        for step in place:
            target = target[step]
        target["zzz"] = 1
        with pytest.raises(ManifestError) as caught:
            parse_queue(changed)
        [problem] = caught.value.problems
        assert problem.path.endswith("zzz")
        assert problem.message.startswith("unknown field; known are ")


def test_what_an_api_server_stored_is_read_without_fields_of_a_later_release(complete):
    condition = {
        "type": "Ready", "status": "True", "reason": "Settled",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }  # fmt: skip
    complete["status"] = {"database": {"identity": "0123"}, "conditions": [condition]}
    later = copy.deepcopy(complete)
    for place in [path for path in objects(later) if not set(path) & set(FREE)]:
        target = later
        for step in place:
            target = target[step]
        target["zzz"] = {"yyy": 1}
    assert parse_stored_queue(later) == parse_queue(complete)


def test_what_an_api_server_stored_still_has_to_hold(manifest):
    with pytest.raises(ManifestError) as caught:
        parse_stored_queue(manifest({"spec.zzz": 1, "spec.scaling.minReplicas": 11}))
    [problem] = caught.value.problems
    assert problem.path == "spec.scaling.minReplicas"


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("spec.worker.concurency", "unknown field; did you mean concurrency?"),
        ("spec.worker.drain_timeout_seconds", "unknown field; did you mean drainTimeoutSeconds?"),
        ("spec.worker.Image", "unknown field; did you mean image?"),
        ("spec.worker.environment", "unknown field; did you mean env?"),
        ("spec.scaling.minReplica", "unknown field; did you mean minReplicas?"),
        ("spec.queue-name", "unknown field; did you mean queueName?"),
        ("spec.maxReplicas", "unknown field here; it belongs to spec.scaling.maxReplicas"),
        ("spec.scaling.concurrency", "unknown field here; it belongs to spec.worker.concurrency"),
        (
            "spec.image",
            "unknown field here; it belongs to spec.worker.image or spec.migration.image",
        ),
        ("metadata.lables", "unknown field; did you mean labels?"),
        ("metdata", "unknown field; did you mean metadata?"),
    ],
)
def test_an_unknown_field_is_answered_with_what_was_meant(refusal, path, message):
    assert refusal({path: "x"})[path] == message


def test_names_of_python_are_not_names_of_fields(refusal):
    assert "spec.scaling.min_replicas" in refusal({"spec.scaling.min_replicas": 1})
    assert "spec.database.schema_name" in refusal({"spec.database.schema_name": "awa"})


def test_a_field_of_an_item_is_told_with_its_position(refusal):
    env = [{"name": "A"}, {"name": "B", "valeu": "x"}]
    assert refusal({"spec.worker.env": env}) == {
        "spec.worker.env[1].valeu": "unknown field; did you mean value?"
    }


def test_objects_of_kubernetes_are_passed_on_unread(complete_text):
    template = load_queue(complete_text).spec.worker.pod_template
    assert template == {"spec": {"hostname": "worker"}}
