"""What the operator may do, as the chart says it."""

import itertools
from typing import Any

import pytest

from awa_operator.resources import LISTED, WATCHED, resource_of
from support.charts import Rendered

ALL = {"watch": {"allNamespaces": True}}
WATCH = {"list", "watch"}


def rights(role: dict[str, Any]) -> dict[str, set[str]]:
    """Return verbs by `group/resource`."""
    found: dict[str, set[str]] = {}
    for rule in role["rules"]:
        for group, resource in itertools.product(rule["apiGroups"], rule["resources"]):
            found.setdefault(f"{group}/{resource}", set()).update(rule["verbs"])
    return found


def main_role(rendered: Rendered) -> dict[str, Any]:
    return rendered.one("Role", "awa")


def test_rights_end_at_the_namespace_of_the_release(helm):
    rendered = helm.template()
    assert rendered.of("ClusterRole") == rendered.of("ClusterRoleBinding") == []
    assert {made["metadata"]["namespace"] for made in rendered.of("Role")} == {"jobs"}


def test_each_watched_namespace_has_the_same_role(helm):
    rendered = helm.template({"watch": {"namespaces": ["mail", "reports"]}})
    roles = [made for made in rendered.of("Role") if made["metadata"]["name"] == "awa"]
    assert [made["metadata"]["namespace"] for made in roles] == ["mail", "reports"]
    assert roles[0]["rules"] == roles[1]["rules"]
    bindings = [made for made in rendered.of("RoleBinding") if made["roleRef"]["name"] == "awa"]
    assert [made["metadata"]["namespace"] for made in bindings] == ["mail", "reports"]
    for binding in bindings:
        (subject,) = binding["subjects"]
        assert (subject["name"], subject["namespace"]) == ("awa", "jobs")
    assert rendered.one("Role", "awa-lease")["metadata"]["namespace"] == "jobs"


def test_the_whole_cluster_is_served_only_when_asked_for(helm):
    rendered = helm.template(ALL)
    role = rendered.one("ClusterRole")
    assert role["rules"] == main_role(helm.template())["rules"]
    assert role["metadata"]["name"] == "jobs-awa"
    assert rendered.one("ClusterRoleBinding")["roleRef"]["name"] == "jobs-awa"
    assert [made["metadata"]["name"] for made in rendered.of("Role")] == ["awa-lease"]


@pytest.mark.parametrize("values", [{}, ALL], ids=["default", "all namespaces"])
def test_no_right_is_a_wildcard_or_reaches_what_nobody_needs(helm, values):
    rendered = helm.template(values)
    roles = [*rendered.of("Role"), *rendered.of("ClusterRole")]
    assert len(roles) == 2
    for role in roles:
        for what, verbs in rights(role).items():
            assert "*" not in what
            assert not verbs & {"*", "deletecollection", "escalate", "bind", "impersonate"}
            assert what.partition("/")[2] not in {
                "pods/exec", "pods/log", "pods/attach", "pods/portforward", "serviceaccounts",
                "roles", "rolebindings", "nodes", "namespaces", "configmaps",
            }  # fmt: skip


def test_p44_secrets_are_read_one_by_one_and_never_listed(helm):
    """P44."""
    assert rights(main_role(helm.template()))["/secrets"] == {"get"}


def test_secrets_can_be_limited_by_name(helm):
    role = main_role(helm.template({"rbac": {"secretNames": ["app-db"]}}))
    (rule,) = [rule for rule in role["rules"] if rule["resources"] == ["secrets"]]
    assert rule["resourceNames"] == ["app-db"]


def test_what_is_watched_may_be_listed_and_watched(helm):
    found = rights(main_role(helm.template()))
    for resource in WATCHED:
        assert found[f"{resource.group}/{resource.plural}"] >= WATCH, resource.plural
    watched = {f"{resource.group}/{resource.plural}" for resource in WATCHED}
    assert {what for what, verbs in found.items() if "watch" in verbs} == watched


def test_what_is_listed_now_and_then_may_be_listed(helm):
    found = rights(main_role(helm.template()))
    for resource in LISTED:
        assert "list" in found[f"{resource.group}/{resource.plural}"], resource.plural


def test_queues_are_read_and_only_their_status_is_written(helm):
    found = rights(main_role(helm.template()))
    assert found["awa.dev/queues"] == {"list", "watch"}
    assert found["awa.dev/queues/status"] == {"patch"}


@pytest.mark.parametrize(
    ("value", "kind", "version"),
    [
        ("networkPolicies", "NetworkPolicy", "networking.k8s.io/v1"),
        ("podMonitors", "PodMonitor", "monitoring.coreos.com/v1"),
    ],
)
def test_a_right_that_is_not_wanted_is_not_there(helm, value, kind, version):
    resource = resource_of(version, kind)
    what = f"{resource.group}/{resource.plural}"
    assert what in rights(main_role(helm.template()))
    assert what not in rights(main_role(helm.template({"rbac": {value: False}})))


def test_pods_are_changed_only_for_the_deletion_cost(helm):
    assert "patch" in rights(main_role(helm.template()))["/pods"]
    values = {"rbac": {"podDeletionCost": False}}
    assert rights(main_role(helm.template(values)))["/pods"] == {"get", "list", "watch"}


def test_only_its_own_lease_is_renewed(helm):
    role = helm.template(release="jobs").one("Role", "jobs-awa-lease")
    create, renew = role["rules"]
    assert create["verbs"] == ["create"]
    assert renew["resourceNames"] == ["jobs-awa"]


def test_roles_can_be_left_to_others(helm):
    rendered = helm.template({"rbac": {"create": False}})
    assert rendered.of("Role") == rendered.of("RoleBinding") == []


def test_people_get_rights_on_queues_only_when_asked_for(helm):
    rendered = helm.template({"rbac": {"aggregateRoles": True}})
    view, edit = (
        rendered.one("ClusterRole", "jobs-awa-view"),
        rendered.one("ClusterRole", "jobs-awa-edit"),
    )
    assert view["metadata"]["labels"]["rbac.authorization.k8s.io/aggregate-to-view"] == "true"
    assert all(
        not verbs & {"create", "update", "patch", "delete"} for verbs in rights(view).values()
    )
    assert edit["metadata"]["labels"]["rbac.authorization.k8s.io/aggregate-to-edit"] == "true"
    assert set(rights(edit)) == {"awa.dev/queues", "awa.dev/queues/scale"}
