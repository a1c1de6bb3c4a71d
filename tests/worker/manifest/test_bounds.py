"""Every bound: the last value that is taken and the first that is not."""

import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from awa.manifest import Queue, parse_queue
from awa.manifest.tree import walk
from awa.manifest.values import QUEUE_NAME, SHAPES

INTEGERS = {
    "replicas": (0, 1000),
    "worker.concurrency": (1, 10000),
    "worker.drainTimeoutSeconds": (0, 86400),
    "worker.terminationGracePeriodSeconds": (35, 90000),
    "worker.health.port": (1, 65535),
    "worker.metrics.port": (1, 65535),
    "migration.activeDeadlineSeconds": (30, 86400),
    "migration.maxAttempts": (1, 100),
    "migration.ttlSecondsAfterFinished": (0, 31536000),
    "migration.historyLimit": (0, 20),
    "rollout.minReadySeconds": (0, 599),
    "rollout.progressDeadlineSeconds": (6, 86400),
    "scaling.minReplicas": (0, 10),
    "scaling.maxReplicas": (0, 1000),
    "scaling.targetJobsPerReplica": (1, 1000000),
    "scaling.targetLagSeconds": (1, 86400),
    "scaling.activationThreshold": (0, 1000000),
    "scaling.pollIntervalSeconds": (1, 300),
    "scaling.cooldownSeconds": (0, 86400),
    "scaling.tolerancePercent": (0, 50),
    "scaling.behavior.scaleUp.stabilizationWindowSeconds": (0, 3600),
    "scaling.behavior.scaleDown.stabilizationWindowSeconds": (0, 3600),
    "scaling.fallback.failureThreshold": (1, 1000),
    "scaling.fallback.replicas": (0, 10),
}
BOOLEANS = (
    "suspend",
    "rollout.autoRollback",
    "rollout.paused",
    "rollout.rotateOnSecretChange",
    "podDisruptionBudget.enabled",
    "networkPolicy.enabled",
    "monitoring.podMonitor.enabled",
)
ENUMERATIONS = {
    "migration.mode": ("External", "None"),
    "migration.strategy": ("Rolling", "Exclusive"),
    "scaling.mode": ("Fixed", "External"),
    "scaling.behavior.scaleUp.selectPolicy": ("Max", "Min", "Disabled"),
    "scaling.behavior.scaleDown.selectPolicy": ("Max", "Min", "Disabled"),
}
TEXTS = {
    "queueName": ([" ", "x" * 200, "Größe 10: a/b"], ["", "x" * 201, "a,b", "a\tb", "a\u200bb"]),
    "database.schema": (["_", "a" * 48, "pgawa"], ["", "a" * 49, "Awa", "1a", "a-b", 'a"']),
    "database.connectionSecretRef.name": (["x"], ["", "x" * 254]),
    "database.connectionSecretRef.key": (["x"], ["", "x" * 254]),
    "worker.image": (["x", "x" * 512], ["", "x" * 513]),
    "worker.health.livenessPath": (["/", "/live?x=1"], ["", "live", "/a b"]),
    "worker.health.readinessPath": (["/"], ["ready"]),
    "worker.metrics.path": (["/"], ["metrics"]),
    "worker.serviceAccountName": (["x"], ["", "x" * 254]),
    "worker.priorityClassName": (["x"], [""]),
    "migration.image": (["x"], [""]),
    "migration.serviceAccountName": (["x"], [""]),
    "rollout.maxSurge": ([0, 1000, "0%", "100%"], [-1, 1001, "101%", "5", "%", True, 1.5, "05%"]),
    "rollout.maxUnavailable": ([1, "5%"], ["five"]),
    "podDisruptionBudget.maxUnavailable": ([1, "5%"], ["1e1%"]),
    "worker.command": (
        [["a"] * 64, ["a" * 4096], []],
        [["a"] * 65, ["a" * 4097], "a b", [1], [None]],
    ),
    "worker.args": ([[], ["--n", "1"]], [["--n", 1]]),
    "migration.command": ([["a"], []], ["a", ["a"] * 65]),
    "migration.args": ([["a"]], ["a"]),
    "migration.permanentExitCodes": (
        [[], [1, 255], [1] * 16],
        [[0], [256], [1] * 17, ["64"]],
    ),
    "worker.env": (
        [[{"name": "A"}, {"name": "B", "value": ""}], [{"name": f"N{n}"} for n in range(64)]],
        [
            [{"name": "A"}, {"name": "A"}],
            [{"value": "x"}],
            [{"name": "A=B"}],
            [{"name": ""}],
            [{"name": "A", "value": 1}],
            [{"name": f"N{n}"} for n in range(65)],
        ],
    ),
    "worker.envFrom": ([[{"secretRef": {"name": "x"}}]], [[{"secretRef": {}}]]),
    "worker.resources": (
        [{"limits": {"cpu": "1.5", "memory": "1e3", "x.example/gpu": 1, "disk": ".5Gi"}}],
        [
            {"limits": {"cpu": "fast"}},
            {"limits": {"cpu": -1}},
            {"limits": {"cpu": 0.5}},
            {"limits": {"cpu": True}},
            {"limits": {"cpu": ""}},
            {"limits": {"": 1}},
            {"limits": {f"r{n}": 1 for n in range(65)}},
        ],
    ),
    "worker.nodeSelector": ([{}, {"a.example/b": "c"}], [{"": "c"}, {"a": 1}, ["a"]]),
    "worker.podLabels": ([{"a": "b"}], [{"a": True}]),
    "worker.podAnnotations": ([{"a": "b"}], ["a"]),
    "worker.tolerations": (
        [[{}], [{"operator": "Exists"}]],
        [[{"operator": "Like"}], [{"effect": "Never"}], [{"tolerationSeconds": -1}], [{}] * 65],
    ),
    "worker.affinity": ([{}, {"anything": [1, {"x": None}]}], [[], "x"]),
    "worker.podTemplate": ([{"spec": {}}], ["x"]),
    "worker.volumes": ([[{"name": "x"}]], [{"name": "x"}, ["x"], [{}] * 65]),
    "worker.volumeMounts": ([[{"name": "x"}]], ["x"]),
    "worker.topologySpreadConstraints": ([[{}]], ["x"]),
    "worker.imagePullSecrets": ([[{"name": "x"}]], [["x"], [{"name": ""}]]),
}
POLICY = {"type": "Pods", "value": 1, "periodSeconds": 1}
POLICIES = (
    [POLICY] * 8,
    [{**POLICY, "value": 1000}],
    [{**POLICY, "periodSeconds": 1800}],
    [{**POLICY, "type": "Percent"}],
)
NO_POLICIES = (
    [POLICY] * 9,
    [{**POLICY, "value": 0}],
    [{**POLICY, "value": 1001}],
    [{**POLICY, "periodSeconds": 0}],
    [{**POLICY, "periodSeconds": 1801}],
    [{**POLICY, "type": "pods"}],
    [{"type": "Pods", "value": 1}],
)
# What a value near a bound needs of other fields, so that only the bound decides.
NEEDS = {
    "scaling.maxReplicas": {"spec.scaling.minReplicas": 0},
    "scaling.minReplicas": {"spec.scaling.maxReplicas": 10},
}


@pytest.mark.parametrize("path", INTEGERS)
def test_the_last_integers_within_bounds_are_taken(queue, path):
    for value in INTEGERS[path]:
        queue({**NEEDS.get(path, {}), f"spec.{path}": value})


@pytest.mark.parametrize("path", INTEGERS)
def test_the_first_integers_outside_bounds_are_refused(refusal, path):
    least, most = INTEGERS[path]
    for value in (least - 1, most + 1):
        assert refusal({**NEEDS.get(path, {}), f"spec.{path}": value})


@pytest.mark.parametrize("path", INTEGERS)
@pytest.mark.parametrize("value", [True, "1", 1.5, 40.0, [], {}])
def test_only_whole_numbers_are_integers(refusal, path, value):
    assert list(refusal({f"spec.{path}": value})) == [f"spec.{path}"]


@pytest.mark.parametrize("path", BOOLEANS)
def test_only_true_and_false_are_booleans(queue, refusal, path):
    queue({f"spec.{path}": True})
    queue({f"spec.{path}": False})
    for value in (1, 0, "true", "yes", []):
        assert list(refusal({f"spec.{path}": value})) == [f"spec.{path}"]


@pytest.mark.parametrize("path", ENUMERATIONS)
def test_only_the_words_of_an_enumeration_are_taken(queue, refusal, path):
    for value in ENUMERATIONS[path]:
        queue({f"spec.{path}": value})
        assert refusal({f"spec.{path}": value.lower()})
    assert list(refusal({f"spec.{path}": "Sometimes"})) == [f"spec.{path}"]


@pytest.mark.parametrize("path", TEXTS)
def test_values_of_the_right_shape_are_taken(queue, path):
    for value in TEXTS[path][0]:
        queue({f"spec.{path}": value})


@pytest.mark.parametrize("path", TEXTS)
def test_values_of_another_shape_are_refused(refusal, path):
    for value in TEXTS[path][1]:
        assert [
            where for where in refusal({f"spec.{path}": value}) if where.startswith(f"spec.{path}")
        ]


@pytest.mark.parametrize("direction", ["scaleUp", "scaleDown"])
def test_policies_have_bounds(queue, refusal, direction):
    path = f"spec.scaling.behavior.{direction}.policies"
    for policies in POLICIES:
        queue({path: policies})
    for policies in NO_POLICIES:
        assert all(where.startswith(path) for where in refusal({path: policies}))


@pytest.mark.parametrize(
    "name", ["a", "a" * 52, "mail-2.example"], ids=["short", "longest", "dotted"]
)
def test_names_of_resources_are_taken(queue, name):
    assert queue({"metadata.name": name}).metadata.name == name


@pytest.mark.parametrize("name", ["", "Mail", "-a", "a-", "a_b", "a" * 254, 5, None])
def test_other_names_of_resources_are_refused(refusal, name):
    assert list(refusal({"metadata.name": name})) == ["metadata.name"]


# Letters that every version of Unicode in use knows, and what is not printable for each reason.
letters = st.characters(max_codepoint=0x24F, exclude_categories=["Cn"])
special = st.sampled_from("\u00a0\u00ad\u200b\u2028\u2029\u3000\ue000\ufeff漢🙂,")


@settings(deadline=None)
@given(st.text(letters | special, min_size=1, max_size=200))
def test_a_queue_name_is_taken_exactly_if_it_is_printable_and_has_no_comma(name):
    manifest = {
        "apiVersion": "awa.dev/v1alpha1",
        "kind": "Queue",
        "metadata": {"name": "x"},
        "spec": {
            "queueName": name,
            "database": {"connectionSecretRef": {"name": "x"}},
            "worker": {"image": "x"},
            "migration": {"mode": "None"},
        },
    }
    try:
        parse_queue(manifest)
        is_taken = True
    except ValueError:
        is_taken = False
    assert is_taken is (name.isprintable() and "," not in name)


def test_every_field_is_bounded():
    """So that the cost of checking a resource is bounded, whatever it contains."""
    tables = {f"spec.{path}" for path in (*INTEGERS, *BOOLEANS, *ENUMERATIONS, *TEXTS)}
    leaves = {
        path
        for path, field in walk()
        if path.startswith("spec.") and field.part is None and "[]" not in path
    }
    elsewhere = {
        "spec.scaling.behavior.scaleUp.policies",
        "spec.scaling.behavior.scaleDown.policies",
        "spec.worker.resources.requests",
        "spec.worker.resources.limits",
    }
    same_parts = {
        path for path in leaves if path.startswith(("spec.migration.resources", "spec.database.m"))
    }
    assert leaves - same_parts - elsewhere <= tables


def schemas(described, path):
    """Yield every schema within a schema with its path, down to free objects and words."""
    if described.get("x-kubernetes-preserve-unknown-fields") or "enum" in described:
        return
    yield path, described
    for name, inner in described.get("properties", {}).items():
        yield from schemas(inner, f"{path}.{name}")
    for inner in (described.get("items"), described.get("additionalProperties")):
        if isinstance(inner, dict):
            yield from schemas(inner, f"{path}[]")
    for inner in described.get("anyOf", ()):
        yield from schemas(inner, path)


def is_bounded(described):
    match described.get("type"):
        case "string":
            return "maxLength" in described or described.get("format") == "date-time"
        case "array":
            return "maxItems" in described
        case "object":
            return "properties" in described or "maxProperties" in described
        case _:
            return True


def test_every_text_list_and_map_of_the_schema_has_a_maximum():
    definitions = Queue.model_json_schema()["$defs"]
    definitions = {name: schema for name, schema in definitions.items() if name != "Metadata"}
    found = [item for name, schema in definitions.items() for item in schemas(schema, name)]
    unbounded = [path for path, schema in found if "const" not in schema and not is_bounded(schema)]
    assert len(found) > 200
    assert unbounded == []


def test_every_pattern_of_the_schema_is_told_in_words():
    patterns = set()

    def look(described):
        if isinstance(described, dict):
            patterns.update(
                [described["pattern"]] if isinstance(described.get("pattern"), str) else []
            )
            for inner in described.values():
                look(inner)
        elif isinstance(described, list):
            for inner in described:
                look(inner)

    look(Queue.model_json_schema())
    assert QUEUE_NAME in patterns
    assert {pattern for pattern in patterns if "%" not in pattern and "KMGT" not in pattern} <= set(
        SHAPES
    )


def test_a_number_too_large_for_anything_is_refused(refusal):
    assert refusal({"spec.replicas": sys.maxsize * 4})
