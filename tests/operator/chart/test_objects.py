"""The objects that the chart installs."""

import re

import pytest

from awa.manifest import parse_queue
from awa_operator.labels import job_labels, worker_labels
from awa_operator.settings import PREFIX, OperatorSettings
from support.charts import CI_VALUES, Rendered, annotations_of

EVERYTHING = CI_VALUES[1]
MONITORING = "monitoring.coreos.com/v1"
MODES = {
    "default": {},
    "some namespaces": {"watch": {"namespaces": ["mail", "reports"]}},
    "all namespaces": {"watch": {"allNamespaces": True}},
}


@pytest.fixture(params=["default", *CI_VALUES], ids=lambda value: getattr(value, "stem", value))
def rendered(request, helm) -> Rendered:
    return helm.template(None if request.param == "default" else request.param)


def environment(rendered: Rendered) -> dict[str, str]:
    (container,) = rendered.one("Deployment")["spec"]["template"]["spec"]["containers"]
    return {one["name"]: one.get("value", "awa-5d8c-x2x") for one in container["env"]}


def test_without_wishes_only_what_the_operator_needs_is_installed(helm):
    made = sorted(made["kind"] for made in helm.template().release)
    assert made == [
        "Deployment", "Role", "Role", "RoleBinding", "RoleBinding", "Service", "ServiceAccount",
    ]  # fmt: skip


def test_nothing_runs_at_installation_or_upgrade(rendered):
    assert {annotations_of(made)["helm.sh/hook"] for made in rendered.hooks} == {"test"}


@pytest.mark.parametrize("mode", MODES)
def test_the_operator_takes_the_settings_that_the_chart_gives_it(helm, mode):
    found = environment(helm.template(MODES[mode], namespace="jobs"))
    assert set(found) <= {PREFIX + name.upper() for name in OperatorSettings.model_fields}
    settings = OperatorSettings.from_environment(found)
    namespaces = {"default": ("jobs",), "some namespaces": ("mail", "reports")}
    assert settings.namespaces == namespaces.get(mode, ())
    assert (settings.lease_namespace, settings.lease_name) == ("jobs", "awa")
    assert (settings.identity, settings.log_level) == ("awa-5d8c-x2x", "info")
    assert (settings.health_port, settings.metrics_port) == (8080, 9090)


def test_ports_and_probes_agree_with_the_settings(helm):
    rendered = helm.template({"ports": {"health": 8181, "metrics": 9191}})
    settings = OperatorSettings.from_environment(environment(rendered))
    assert (settings.health_port, settings.metrics_port) == (8181, 9191)
    (container,) = rendered.one("Deployment")["spec"]["template"]["spec"]["containers"]
    ports = {port["name"]: port["containerPort"] for port in container["ports"]}
    assert ports == {"health": 8181, "metrics": 9191}
    for probe, path in (("livenessProbe", "/healthz"), ("readinessProbe", "/readyz")):
        assert container[probe]["httpGet"] == {"path": path, "port": "health"}
    (port,) = rendered.one("Service")["spec"]["ports"]
    assert (port["port"], port["targetPort"]) == (9191, "metrics")


def test_pods_are_restricted(rendered):
    pods = dict(rendered.pods())
    assert len(pods) == 2
    for name, pod in pods.items():
        assert pod["securityContext"]["runAsNonRoot"] is True, name
        assert pod["securityContext"]["seccompProfile"]["type"] == "RuntimeDefault", name
        assert "hostNetwork" not in pod
        for container in pod["containers"]:
            context = container["securityContext"]
            assert context["allowPrivilegeEscalation"] is False, name
            assert context["readOnlyRootFilesystem"] is True, name
            assert context["capabilities"] == {"drop": ["ALL"]}, name
            assert container["resources"]["limits"]["memory"], name
            assert "cpu" not in container["resources"]["limits"], name


def test_labels_by_which_the_operator_is_selected_fit_nothing_else(helm):
    rendered = helm.template(EVERYTHING)
    selector = rendered.one("Service")["spec"]["selector"]
    assert rendered.one("Deployment")["spec"]["selector"]["matchLabels"] == selector
    assert rendered.one("PodDisruptionBudget")["spec"]["selector"]["matchLabels"] == selector
    assert rendered.one("PodMonitor")["spec"]["selector"]["matchLabels"] == selector
    assert rendered.one("NetworkPolicy")["spec"]["podSelector"]["matchLabels"] == selector
    template = rendered.one("Deployment")["spec"]["template"]["metadata"]["labels"]
    assert selector.items() <= template.items()
    (test,) = [made for made in rendered.hooks if made["kind"] == "Pod"]
    for other in (test["metadata"]["labels"], worker_labels("x"), job_labels("a" * 10, "b", 1)):
        assert not selector.items() <= other.items()


def test_every_object_is_labelled_as_ours(rendered):
    for made in rendered.objects:
        if not made["metadata"]["name"].endswith("-extra"):
            labels = made["metadata"]["labels"]
            assert labels["app.kubernetes.io/part-of"] == "awa"
            assert labels["app.kubernetes.io/instance"] == "awa"


def test_labels_of_the_users_are_on_every_object(helm):
    for made in helm.template({"commonLabels": {"team": "jobs"}}).objects:
        assert made["metadata"]["labels"]["team"] == "jobs"


def test_names_fit_for_the_longest_name_of_a_release(helm):
    for made in helm.template(EVERYTHING, release="r" * 53, namespace="n" * 63).objects:
        limit = 253 if made["kind"].startswith(("Cluster", "Validating")) else 63
        assert len(made["metadata"]["name"]) <= limit, made["metadata"]["name"]
        for value in made["metadata"].get("labels", {}).values():
            assert len(str(value)) <= 63


def test_names_do_not_repeat_the_chart(helm):
    assert helm.template(release="awa").one("Deployment")["metadata"]["name"] == "awa"
    assert helm.template(release="jobs").one("Deployment")["metadata"]["name"] == "jobs-awa"
    values = {"fullnameOverride": "queue-operator"}
    assert helm.template(values).one("Deployment")["metadata"]["name"] == "queue-operator"


def test_one_operator_is_replaced_and_several_roll(helm):
    one, two = helm.template(), helm.template({"replicas": 2})
    assert one.one("Deployment")["spec"]["strategy"]["type"] == "Recreate"
    assert two.one("Deployment")["spec"]["strategy"]["type"] == "RollingUpdate"


def test_a_budget_for_a_single_operator_would_only_block_drains(helm):
    values = {"podDisruptionBudget": {"enabled": True}}
    assert helm.template(values).of("PodDisruptionBudget") == []
    assert helm.template({**values, "replicas": 2}).one("PodDisruptionBudget")


def test_p42_what_the_cluster_serves_changes_nothing(helm):
    """P42: no guess from the API versions; what is asked for is rendered, the rest is not."""
    served = ("--api-versions", f"{MONITORING}/PodMonitor,{MONITORING}/PrometheusRule")
    for values in ({}, {"podMonitor": {"enabled": True}, "prometheusRule": {"enabled": True}}):
        assert helm.template(values) == helm.template(values, options=served)
    kinds = {made["kind"] for made in helm.template({}, options=served).objects}
    assert not kinds & {"PodMonitor", "ServiceMonitor", "PrometheusRule"}


def test_templates_of_the_user_are_filled_in(helm):
    made = helm.template(EVERYTHING).one("ConfigMap", "awa-extra")
    assert re.fullmatch(r"\d+\.\d+\.\d+", made["data"]["version"])


def test_the_tested_queue_is_suspended_and_where_the_operator_looks(helm):
    for mode, namespace in (("default", "jobs"), ("some namespaces", "mail")):
        hooks = helm.template(MODES[mode]).hooks
        (made,) = [hook for hook in hooks if hook["kind"] == "Queue"]
        assert made["metadata"]["namespace"] == namespace
        queue = parse_queue(made)
        assert queue.spec.suspend
        (pod,) = [hook for hook in hooks if hook["kind"] == "Pod"]
        assert pod["spec"]["containers"][0]["command"][2:4] == [namespace, queue.metadata.name]


def test_the_token_is_mounted_only_where_it_is_used(rendered):
    for name, pod in rendered.pods():
        assert pod["automountServiceAccountToken"] is True, name
    for made in rendered.objects:
        if made["kind"] == "ServiceAccount":
            assert made["automountServiceAccountToken"] is False
