"""Each rule that Kubernetes checks with CEL is checked here alike."""

import re

import pytest

from awa.manifest import cel_rules, forbidden_changes, parse_queue
from awa.manifest.tree import walk

NATIVE = {"mode": "Native", "targetLagSeconds": 60}

# Field that is blamed, what is taken, what is refused.
CASES = {
    "metadata.name": ({"metadata.name": "a" * 52}, {"metadata.name": "a" * 53}),
    "spec.database.schema": (
        {"spec.database.schema": "pgq"},
        {"spec.database.schema": "pg_awa"},
    ),
    "spec.worker.terminationGracePeriodSeconds": (
        {"spec.worker.drainTimeoutSeconds": 60, "spec.worker.terminationGracePeriodSeconds": 65},
        {"spec.worker.drainTimeoutSeconds": 60, "spec.worker.terminationGracePeriodSeconds": 64},
    ),
    "spec.migration.command": (
        {"spec.migration": {"command": ["app", "migrate"]}},
        {"spec.migration": {"mode": "Job"}},
    ),
    "spec.rollout.progressDeadlineSeconds": (
        {"spec.rollout": {"minReadySeconds": 10, "progressDeadlineSeconds": 11}},
        {"spec.rollout": {"minReadySeconds": 10, "progressDeadlineSeconds": 10}},
    ),
    "spec.scaling.minReplicas": (
        {"spec.scaling": {"minReplicas": 4, "maxReplicas": 4}},
        {"spec.scaling": {"minReplicas": 5, "maxReplicas": 4}},
    ),
    "spec.scaling.mode": ({"spec.scaling": NATIVE}, {"spec.scaling": {"mode": "Native"}}),
    "spec.scaling.fallback.replicas": (
        {"spec.scaling": {"maxReplicas": 4, "fallback": {"replicas": 4}}},
        {"spec.scaling": {"maxReplicas": 4, "fallback": {"replicas": 5}}},
    ),
    "spec.scaling.behavior.scaleUp.policies": (
        {"spec.scaling.behavior": {"scaleUp": {"policies": [], "selectPolicy": "Disabled"}}},
        {"spec.scaling.behavior": {"scaleUp": {"policies": []}}},
    ),
    "spec.scaling.behavior.scaleDown.policies": (
        {"spec.scaling.behavior": {"scaleDown": {"policies": [], "selectPolicy": "Disabled"}}},
        {"spec.scaling.behavior": {"scaleDown": {"policies": []}}},
    ),
}


def test_every_rule_has_a_case():
    fields = {f"{rule.path}{rule.field_path}".lstrip(".") for rule in checked()}
    assert fields == set(CASES)


def checked():
    return [rule for rule in cel_rules() if not rule.is_transition]


@pytest.mark.parametrize("field", CASES)
def test_what_a_rule_allows_is_taken(queue, field):
    queue(CASES[field][0])


@pytest.mark.parametrize("field", CASES)
def test_what_a_rule_forbids_is_refused_naming_the_field(refusal, field):
    problems = refusal(CASES[field][1])
    assert list(problems) == [field]
    messages = [rule.message for rule in checked()]
    assert f"{field} {problems[field]}" in messages


@pytest.mark.parametrize(
    "changes",
    [
        {"spec.database.schema": "information_schema"},
        {"spec.migration": {"command": []}},
        {"spec.migration": {}},
    ],
)
def test_other_ways_to_break_a_rule_are_refused(refusal, changes):
    assert refusal(changes)


def test_a_manifest_without_a_migration_is_told_what_to_write(manifest, refusal):
    made = manifest()
    del made["spec"]["migration"]
    with pytest.raises(ValueError, match=r"spec\.migration\.command: is needed in mode Job"):
        parse_queue(made)


@pytest.mark.parametrize("target", ["targetLagSeconds", "targetJobsPerReplica"])
def test_one_target_is_enough_for_native_scaling(queue, target):
    queue({"spec.scaling": {"mode": "Native", target: 5}})


def test_all_rules_that_a_part_breaks_are_told_at_once(refusal):
    broken = refusal({"spec.scaling": {"mode": "Native", "maxReplicas": 0}})
    assert set(broken) == {"spec.scaling.mode", "spec.scaling.minReplicas"}


def test_rules_name_fields_that_exist():
    paths = {path.replace("[]", "") for path, _ in walk()}
    for rule in cel_rules():
        prefix = f"{rule.path}." if rule.path else ""
        assert f"{prefix}{rule.field_path[1:]}" in paths
        for mention in re.findall(r"(?:self|oldSelf)((?:\.\w+)+)(?!\w*\()", rule.cel):
            assert f"{prefix}{mention[1:]}" in paths


def test_rules_are_complete_for_a_resource_definition():
    for rule in cel_rules():
        assert rule.is_transition is ("oldSelf" in rule.cel)
        assert rule.field_path.startswith(".")
        assert rule.message.startswith(f"{rule.path}{rule.field_path}".lstrip("."))
        assert "\n" not in rule.message
        assert len(rule.message) <= 2048


@pytest.mark.parametrize(
    ("before", "after", "forbidden"),
    [
        ({}, {"spec.queueName": "email"}, []),
        ({"spec.queueName": "email"}, {}, []),
        ({}, {"spec.queueName": "sms"}, ["spec.queueName"]),
        ({"spec.queueName": "sms"}, {}, ["spec.queueName"]),
        ({"spec.queueName": "a"}, {"spec.queueName": "b"}, ["spec.queueName"]),
        ({}, {"spec.database.schema": "awa"}, []),
        ({}, {"spec.database.schema": "jobs"}, ["spec.database.schema"]),
        (
            {},
            {"spec.database.schema": "jobs", "spec.queueName": "x"},
            ["spec.queueName", "spec.database.schema"],
        ),
        ({"spec.replicas": 1}, {"spec.replicas": 9, "spec.suspend": True}, []),
    ],
)
def test_an_update_may_not_change_where_the_jobs_are(queue, before, after, forbidden):
    changes = forbidden_changes(queue(before), queue(after))
    assert [change.partition(" ")[0] for change in changes] == forbidden


def test_a_forbidden_change_says_what_to_do(queue):
    changes = forbidden_changes(queue(), queue({"spec.queueName": "sms"}))
    assert changes == ["spec.queueName cannot be changed; create another Queue"]
    assert changes == [rule.message for rule in cel_rules() if rule.message == changes[0]]
