"""Values: all of them known, described, and refused when they make no sense."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from support.charts import CHART, CI_VALUES, CRD_CHART, ROOT, ChartRefused

VERSION = (ROOT / "VERSION").read_text().strip()
VALUES: dict[str, Any] = yaml.safe_load((CHART / "values.yaml").read_text())
SCHEMA: dict[str, Any] = json.loads((CHART / "values.schema.json").read_text())
# Passed on to Kubernetes as they are.
PASSED_ON = {"resources", "podSecurityContext", "securityContext", "affinity"}


def objects(values: dict[str, Any], path: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield every object of our own within values, with its path."""
    yield path, values
    for name, value in values.items():
        if isinstance(value, dict) and name not in PASSED_ON and not is_map(f"{path}.{name}"):
            yield from objects(value, f"{path}.{name}".removeprefix("."))


def schema_of(path: str) -> dict[str, Any]:
    found = SCHEMA
    for step in filter(None, path.split(".")):
        found = found["properties"][step]
    reference = found.get("$ref", "")
    return SCHEMA["definitions"][reference.rpartition("/")[2]] if reference else found


def is_map(path: str) -> bool:
    return isinstance(schema_of(path).get("additionalProperties"), dict)


def put(path: str, value: Any) -> dict[str, Any]:
    for step in reversed(path.split(".")):
        value = {step: value}
    return value


@pytest.mark.parametrize("chart", [CHART, CRD_CHART], ids=lambda path: path.name)
def test_a_chart_is_without_reproach(helm, chart):
    assert "0 chart(s) failed" in helm.lint(chart)


@pytest.mark.parametrize("values", CI_VALUES, ids=lambda path: path.stem)
def test_other_values_are_without_reproach(helm, values):
    assert "0 chart(s) failed" in helm.lint(CHART, values)


def test_the_schema_is_closed_and_knows_every_value():
    for path, values in objects(VALUES):
        described = schema_of(path)
        assert described["additionalProperties"] is False, path
        assert set(described["properties"]) - {"global"} == set(values), path


def test_every_value_is_turned_on_somewhere():
    """The values that are tested with everything on differ from the defaults in every switch."""
    everything = yaml.safe_load(CI_VALUES[1].read_text())
    for path, values in objects(VALUES):
        if values.get("enabled") is False:
            assert schema_value(everything, path)["enabled"] is True


def schema_value(values: dict[str, Any], path: str) -> dict[str, Any]:
    for step in path.split("."):
        values = values[step]
    return values


@pytest.mark.parametrize("path", [path for path, _ in objects(VALUES)])
def test_an_unknown_value_is_refused(helm, path):
    name = f"{path}.replicaCount".removeprefix(".")
    with pytest.raises(ChartRefused, match="replicaCount"):
        helm.template(put(name, 1))


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("replicas", -1),
        ("replicas", "2"),
        ("image.repository", ""),
        ("image.repository", "a b"),
        ("image.tag", "a b"),
        ("image.digest", "sha256:abc"),
        ("image.pullPolicy", "Sometimes"),
        ("watch.namespaces", ["Mail"]),
        ("watch.namespaces", "mail"),
        ("watch.allNamespaces", "yes"),
        ("logLevel", "trace"),
        ("ports.health", 0),
        ("rbac.secretNames", [5]),
        ("imagePullSecrets", ["registry"]),
        ("env", [{"value": "x"}]),
        ("volumes", [{"secret": {"secretName": "x"}}]),
        ("volumes", [{"name": "tmp", "emptyDir": {}}]),
        ("volumeMounts", [{"name": "x"}]),
        ("volumeMounts", [{"name": "x", "mountPath": "/tmp"}]),
        ("podLabels", {"a": 1}),
        ("terminationGracePeriodSeconds", 1),
        ("podMonitor.interval", "often"),
        ("prometheusRule.disabled", ["operator down"]),
        ("networkPolicy.databasePorts", [0]),
        ("podDisruptionBudget.maxUnavailable", 0),
        ("podDisruptionBudget.maxUnavailable", "0%"),
        ("admissionPolicy.imagePrefixes", [""]),
        ("extraManifests", "text"),
    ],
)
def test_a_value_that_makes_no_sense_is_refused_by_name(helm, path, value):
    with pytest.raises(ChartRefused, match=path.rpartition(".")[2]):
        helm.template(put(path, value))


def test_some_namespaces_and_all_exclude_each_other(helm):
    with pytest.raises(ChartRefused, match="exclude each other: set one of them"):
        helm.template({"watch": {"allNamespaces": True, "namespaces": ["mail"]}})


@pytest.mark.parametrize("chart", [CHART, CRD_CHART], ids=lambda path: path.name)
def test_charts_and_images_have_the_version_of_the_release(chart):
    described = yaml.safe_load((chart / "Chart.yaml").read_text())
    assert described["version"] == VERSION
    assert described["appVersion"] == VERSION
    for image in yaml.safe_load(described["annotations"].get("artifacthub.io/images", "[]")):
        assert image["image"] == f"{image['name']}:{VERSION}"


def test_images_of_the_release_are_the_default(helm):
    rendered = helm.template()
    (container,) = rendered.one("Deployment")["spec"]["template"]["spec"]["containers"]
    assert container["image"] == f"awa-operator:{VERSION}"
    (queue,) = [made for made in rendered.hooks if made["kind"] == "Queue"]
    assert queue["spec"]["worker"]["image"] == f"awa-worker:{VERSION}"


def test_a_digest_wins_over_a_tag(helm):
    digest = "sha256:" + "0" * 64
    values = {"image": {"repository": "registry.example/op", "tag": "1", "digest": digest}}
    (container,) = helm.template(values).one("Deployment")["spec"]["template"]["spec"]["containers"]
    assert container["image"] == f"registry.example/op@{digest}"
