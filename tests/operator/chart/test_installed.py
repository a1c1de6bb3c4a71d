"""The chart on a real cluster, its operator not running: rights, policies, life of a release."""

import json
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
import yaml

from cluster.errors import CommandFailed
from cluster.handle import Cluster, Namespace
from support.charts import CHART, CI_VALUES, CRD_CHART
from support.operating import may
from support.queue_manifest import changed
from support.waiting import eventually_sync

LIMIT = timedelta(seconds=60)
NONE_RUNS = {"replicas": 0, "service": {"enabled": False}}
OTHERS = {"monitoring.coreos.com/v1"}


@pytest.fixture
def install(namespace: Namespace, queue_definition: str, tmp_path) -> Callable[..., str]:
    """Install or upgrade the chart into the test's namespace without a running operator."""

    def make(values: dict[str, Any] | None = None, release: str = "awa") -> str:
        file = tmp_path / "values.json"
        file.write_text(json.dumps({**NONE_RUNS, **(values or {})}))
        return namespace.helm("upgrade", "--install", release, CHART, "--values", file)

    return make


@pytest.fixture
def asked(namespace: Namespace) -> Callable[..., bool]:
    """Whether the operator's account may do something."""

    def ask(verb: str, resource: str, where: str | None = None) -> bool:
        user = f"system:serviceaccount:{namespace.name}:awa"
        return may(namespace.cluster, user, verb, resource, where or namespace.name)

    return ask


def until_asked(asked: Callable[..., bool], *words: str, is_so: bool = True) -> None:
    """Wait until there is a right, or none: the API server learns of roles a moment later."""
    what = f"{'a' if is_so else 'no'} right to {' '.join(words)}"
    eventually_sync(lambda: asked(*words) is is_so, LIMIT, what=what)


@pytest.mark.parametrize(
    "values", [None, *CI_VALUES], ids=lambda value: getattr(value, "stem", "default")
)
def test_the_api_server_takes_every_object(helm, namespace, queue_definition, values):
    """Also under `restricted`, which the namespace enforces."""
    given = yaml.safe_load(values.read_text()) if values else {}
    given.setdefault("watch", {})
    if given["watch"].get("namespaces"):
        given["watch"]["namespaces"] = [namespace.name]
    objects = helm.template(given, namespace=namespace.name).objects
    # Pods are refused where their account does not exist yet.
    namespace.apply([made for made in objects if made["kind"] == "ServiceAccount"])
    known = [made for made in objects if made["apiVersion"] not in OTHERS]
    said = namespace.cluster.kubectl(
        "apply", "--dry-run=server", "--validate=strict", "-n", namespace.name, "-f", "-",
        stdin="---\n".join(map(yaml.safe_dump, known)),
    )  # fmt: skip
    assert len(said.splitlines()) == len(known)
    assert "Warning" not in said


def test_the_operator_may_do_what_it_needs_and_no_more(install, asked, namespace):
    install()
    for verb, resource in (
        ("list", "queues.awa.dev"), ("watch", "queues.awa.dev"), ("patch", "queues.awa.dev:status"),
        ("create", "deployments.apps"), ("patch", "deployments.apps"), ("delete", "jobs.batch"),
        ("get", "secrets"), ("patch", "pods"), ("create", "leases.coordination.k8s.io"),
        ("create", "events.events.k8s.io"), ("update", "leases.coordination.k8s.io/awa"),
    ):  # fmt: skip
        until_asked(asked, verb, resource)
    for verb, resource in (
        ("list", "secrets"), ("watch", "secrets"), ("create", "secrets"), ("update", "secrets"),
        ("create", "pods"), ("delete", "pods"), ("create", "pods:exec"), ("get", "pods:log"),
        ("delete", "deployments.apps"), ("update", "queues.awa.dev"), ("delete", "queues.awa.dev"),
        ("patch", "queues.awa.dev"), ("create", "serviceaccounts"), ("list", "configmaps"),
        ("create", "roles.rbac.authorization.k8s.io"), ("list", "nodes"), ("list", "namespaces"),
        ("update", "leases.coordination.k8s.io/other"), ("create", "serviceaccounts:token"),
    ):  # fmt: skip
        assert not asked(verb, resource), (verb, resource)


def test_p44_a_namespace_that_is_not_watched_is_closed(install, asked, namespace):
    """P44."""
    install()
    until_asked(asked, "get", "secrets")
    for verb, resource in (("get", "secrets"), ("list", "queues.awa.dev"), ("list", "pods")):
        assert not asked(verb, resource, "default")


def test_only_named_secrets_can_be_read(install, asked):
    install({"rbac": {"secretNames": ["app-db"]}})
    until_asked(asked, "get", "secrets/app-db")
    assert not asked("get", "secrets/other")


def test_the_account_has_no_right_on_the_cluster_unless_asked_for(install, asked, namespace):
    install()
    assert not asked("list", "queues.awa.dev", "default")
    install({"watch": {"allNamespaces": True}})
    until_asked(asked, "list", "queues.awa.dev", "default")
    assert not asked("list", "secrets", "default")
    namespace.helm("uninstall", "awa")
    until_asked(asked, "list", "queues.awa.dev", "default", is_so=False)


def test_p42_a_monitor_whose_resource_is_missing_is_told_and_nothing_is_installed(
    install, namespace
):
    """P42: no silent skipping."""
    with pytest.raises(CommandFailed, match='no matches for kind "PodMonitor"'):
        install({"podMonitor": {"enabled": True}})
    assert namespace.get("deployments")["items"] == []


POLICY = {
    "admissionPolicy": {
        "enabled": True,
        "imagePrefixes": ["registry.example/team/", "registry.example/base:"],
        "serviceAccounts": ["app"],
    }
}
WITHIN = {"spec.worker.image": "registry.example/team/app:1"}


def test_a_policy_refuses_what_may_not_run(install, namespace):
    install(POLICY)
    refused = {
        "images of a Queue must begin with registry.example/team/ or": {},
        "images of a Queue": {**WITHIN, "spec.migration.image": "elsewhere.example/app:1"},
        "may use the service accounts app, default": {
            **WITHIN, "spec.worker.serviceAccountName": "admin",
        },
        "service accounts app": {**WITHIN, "spec.migration.serviceAccountName": "admin"},
        "worker.podTemplate is not allowed": {**WITHIN, "spec.worker.podTemplate": {"spec": {}}},
    }  # fmt: skip
    for message, changes in refused.items():
        eventually_sync(
            lambda changes=changes, message=message: message in refusal(namespace, changes),
            LIMIT,
            what=f"the policy says: {message}",
        )
    for changes in (
        WITHIN,
        {"spec.worker.image": "registry.example/base:2"},
        {**WITHIN, "spec.worker.serviceAccountName": "app"},
        {**WITHIN, "spec.migration.serviceAccountName": "default"},
    ):
        assert refusal(namespace, changes) == ""


def refusal(namespace: Namespace, changes: dict[str, Any]) -> str:
    manifest = json.dumps(changed(changes))
    try:
        namespace.kubectl("apply", "--dry-run=server", "-f", "-", stdin=manifest)
    except CommandFailed as error:
        return error.err
    return ""


def test_a_policy_ends_at_the_watched_namespaces(install, namespace):
    install(POLICY)
    eventually_sync(lambda: refusal(namespace, {}) != "", LIMIT, what="the policy is in force")
    elsewhere = changed({"metadata.namespace": "default"})
    cluster = namespace.cluster
    assert "created" in cluster.kubectl(
        "apply", "--dry-run=server", "-f", "-", stdin=json.dumps(elsewhere)
    )


def test_people_with_the_usual_roles_may_use_queues_when_asked_for(install, namespace):
    install({"rbac": {"aggregateRoles": True}}, release=f"r-{namespace.name}")
    for role in ("view", "edit"):
        namespace.kubectl(
            "create", "rolebinding", role, f"--clusterrole={role}", f"--user={role}er"
        )

    def allowed(user: str, verb: str, resource: str) -> bool:
        return may(namespace.cluster, user, verb, resource, namespace.name)

    eventually_sync(
        lambda: allowed("viewer", "list", "queues.awa.dev"), LIMIT, what="view has Queues"
    )
    eventually_sync(
        lambda: allowed("editer", "create", "queues.awa.dev"), LIMIT, what="edit has Queues"
    )
    assert not allowed("viewer", "create", "queues.awa.dev")
    assert allowed("editer", "patch", "queues.awa.dev:scale")
    assert not allowed("editer", "patch", "queues.awa.dev:status")


def test_a_release_is_upgraded_rolled_back_and_removed_and_queues_stay(install, namespace):
    install()
    namespace.apply(changed({}))
    uid = namespace.get("jobq", "email")["metadata"]["uid"]
    install({"logLevel": "debug"})
    assert log_level(namespace) == "debug"
    namespace.helm("rollback", "awa")
    assert log_level(namespace) == "info"
    notes = namespace.helm("get", "notes", "awa")
    assert "Queues, their workers and their jobs go on" in " ".join(notes.split())
    namespace.helm("uninstall", "awa", "--wait")
    assert namespace.get("deployments")["items"] == []
    assert namespace.get("jobq", "email")["metadata"]["uid"] == uid


def log_level(namespace: Namespace) -> str:
    (container,) = namespace.get("deployment", "awa")["spec"]["template"]["spec"]["containers"]
    found = {one["name"]: one.get("value", "") for one in container["env"]}
    level: str = found["AWA_OPERATOR_LOG_LEVEL"]
    return level


def test_two_releases_in_different_namespaces_do_not_meet(helm, cluster: Cluster):
    first = helm.template({"watch": {"allNamespaces": True}}, namespace="one").objects
    second = helm.template({"watch": {"allNamespaces": True}}, namespace="two").objects

    def cluster_wide(objects: list[dict[str, Any]]) -> set[tuple[str, str]]:
        return {
            (made["kind"], made["metadata"]["name"])
            for made in objects
            if "namespace" not in made["metadata"]
        }

    assert cluster_wide(first)
    assert not cluster_wide(first) & cluster_wide(second)


def test_the_definition_is_left_when_its_chart_is_removed(namespace, queue_definition):
    said = namespace.helm("template", "awa-crds", CRD_CHART)
    (definition,) = [made for made in yaml.safe_load_all(said) if made]
    assert definition["metadata"]["annotations"] == {"helm.sh/resource-policy": "keep"}
