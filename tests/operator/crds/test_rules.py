"""Each rule of the definition, on a real API server: what it takes, and how it refuses."""

import pytest

from awa.manifest import cel_rules
from cluster.errors import CommandFailed
from support.queue_manifest import changed
from worker.manifest.test_rules import CASES

UPDATES = [
    # What is there, what is changed, which field is forbidden to change.
    ({}, {"spec.queueName": "email"}, ""),
    ({"spec.queueName": "email"}, {"spec.queueName": None}, ""),
    ({}, {"spec.database.schema": "awa"}, ""),
    ({}, {"spec.replicas": 9, "spec.suspend": True, "spec.worker.image": "x"}, ""),
    ({}, {"spec.queueName": "sms"}, "spec.queueName"),
    ({"spec.queueName": "sms"}, {"spec.queueName": None}, "spec.queueName"),
    ({"spec.queueName": "a"}, {"spec.queueName": "b"}, "spec.queueName"),
    ({}, {"spec.database.schema": "jobs"}, "spec.database.schema"),
    ({"spec.database.schema": "jobs"}, {"spec.database.schema": None}, "spec.database.schema"),
]


def rule_of(field: str, is_transition: bool = False) -> str:
    """Return what the rule about a field says after the field's name."""
    (rule,) = [
        rule
        for rule in cel_rules()
        if f"{rule.path}{rule.field_path}".lstrip(".") == field
        and rule.is_transition is is_transition
    ]
    return rule.message.removeprefix(field).strip()


@pytest.mark.parametrize("field", CASES)
async def test_what_a_rule_allows_is_taken(attempt, field):
    assert await attempt(CASES[field][0]) == ""


@pytest.mark.parametrize("field", CASES)
async def test_what_a_rule_forbids_is_refused_with_the_field_and_the_remedy(attempt, field):
    said = await attempt(CASES[field][1])
    assert f"{field}: Invalid value" in said
    assert rule_of(field) in said


@pytest.mark.parametrize(
    "changes",
    [
        {"spec.database.schema": "information_schema"},
        {"spec.migration": {"command": []}},
        {"spec.migration": {}},
        {"spec.migration": None},
    ],
)
async def test_other_ways_to_break_a_rule_are_refused(attempt, changes):
    assert await attempt(changes)


async def test_all_rules_that_are_broken_are_told_at_once(attempt):
    said = await attempt({"spec.scaling": {"mode": "Native", "maxReplicas": 0}})
    assert "spec.scaling.mode" in said
    assert "spec.scaling.minReplicas" in said


@pytest.mark.parametrize(("before", "changes", "forbidden"), UPDATES)
def test_an_update_may_not_change_where_the_jobs_are(
    namespace, queue_definition, before, changes, forbidden
):
    created = changed(before)
    namespace.apply(created)
    if not forbidden:
        namespace.apply(changed(changes, created))
        return
    with pytest.raises(CommandFailed) as refused:
        namespace.apply(changed(changes, created))
    said = str(refused.value)
    assert f"{forbidden}: Forbidden" in said
    assert rule_of(forbidden, is_transition=True) in said


def test_every_rule_for_updates_has_a_case():
    rules = [rule for rule in cel_rules() if rule.is_transition]
    fields = {f"{rule.path}{rule.field_path}".lstrip(".") for rule in rules}
    assert fields == {forbidden for _, _, forbidden in UPDATES if forbidden}


@pytest.mark.parametrize(("length", "taken"), [(1, True), (52, True), (53, False), (63, False)])
def test_p45_a_name_that_is_too_long_for_pods_is_refused_with_a_remedy(
    namespace, queue_definition, length, taken
):
    """P45."""
    manifest = changed({"metadata.name": "q" * length})
    if taken:
        assert "created" in namespace.apply(manifest)
        return
    with pytest.raises(CommandFailed, match=r"must have at most 52 characters; spec\.queueName"):
        namespace.apply(manifest)


def test_a_queue_in_the_database_may_have_a_longer_name(namespace, queue_definition):
    namespace.apply(changed({"spec.queueName": "q" * 200}))
    assert namespace.get("jobq", "email")["spec"]["queueName"] == "q" * 200


def test_a_misspelled_field_is_refused_by_name(namespace, queue_definition):
    with pytest.raises(CommandFailed, match=r'unknown field "spec\.worker\.concurency"'):
        namespace.apply(changed({"spec.worker.concurency": 5}))


def test_two_variables_of_one_name_are_refused(namespace, queue_definition):
    env = [{"name": "A", "value": "1"}, {"name": "A", "value": "2"}]
    with pytest.raises(CommandFailed, match=r"spec\.worker\.env\[1\]: Duplicate value"):
        namespace.apply(changed({"spec.worker.env": env}))
