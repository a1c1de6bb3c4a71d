"""Dashboards and alerts speak of metrics that exist, in a form that fits any installation."""

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from awa.metrics import GAUGES, FleetMetrics, SupervisorMetrics, WorkerMetrics
from awa_operator.metrics import Metrics
from support.charts import CHART, CI_VALUES, ROOT

DASHBOARDS = sorted((CHART / "dashboards").glob("*.json"))
ALERTS = CHART / "files" / "alerts.yaml"
EVERYTHING = CI_VALUES[1]
TROUBLESHOOTING = ROOT / "docs" / "operations" / "kubernetes-troubleshooting.md"
# Words of PromQL, and what is chosen by variables.
NAME = re.compile(r"\b(?:awa|process)_[a-z_]+\b")
SELECTION = re.compile(r"\{[^}]*\}")
GROUPING = re.compile(r"\b(?:by|on|ignoring|group_left|group_right)\s*\([^)]*\)")
SUFFIX = re.compile(r"_(?:bucket|sum|count)$")


def metrics_in(expression: str) -> set[str]:
    """Return the names of metrics in a query."""
    plain = GROUPING.sub("", SELECTION.sub("", expression))
    plain = re.sub(r"label_values\(\s*([^,{(]+)[^)]*\)", r"\1", plain)
    return {SUFFIX.sub("", name) for name in NAME.findall(plain)}


def declared() -> set[str]:
    """Return the names that the operator and the workers serve."""
    families = [*Metrics().registry.collect(), *WorkerMetrics().collect()]
    families += [*SupervisorMetrics(1).collect(), *FleetMetrics().collect()]
    names = {f"{one.name}_total" if one.type == "counter" else one.name for one in families}
    return names | set(GAUGES)


def rules() -> list[dict[str, Any]]:
    (group,) = yaml.safe_load(ALERTS.read_text())["groups"]
    found: list[dict[str, Any]] = group["rules"]
    return found


def queries(dashboard: dict[str, Any]) -> Iterator[str]:
    for panel in dashboard["panels"]:
        for target in panel["targets"]:
            yield target["expr"]
    for variable in dashboard["templating"]["list"]:
        if variable["type"] == "query":
            yield variable["definition"]
    for annotation in dashboard["annotations"]["list"]:
        yield annotation["expr"]


def load(path: Path) -> dict[str, Any]:
    dashboard: dict[str, Any] = json.loads(path.read_text())
    return dashboard


def test_the_dashboards_are_up_to_date():
    command = [sys.executable, str(ROOT / "tools" / "dashboards.py"), "--check"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_there_are_three_dashboards():
    assert [path.stem for path in DASHBOARDS] == ["fleet", "operator", "queue"]


@pytest.mark.parametrize("path", DASHBOARDS, ids=lambda path: path.stem)
def test_panels_ask_for_metrics_that_exist(path):
    known = declared()
    for expression in queries(load(path)):
        asked = metrics_in(expression)
        assert asked, expression
        assert asked <= known, expression


@pytest.mark.parametrize("path", DASHBOARDS, ids=lambda path: path.stem)
def test_a_dashboard_fits_any_grafana(path):
    dashboard = load(path)
    sources = re.findall(r'"uid": "([^"]*)"', json.dumps(dashboard))
    assert set(sources) == {"${datasource}", f"awa-{path.stem}"}
    first, *others = dashboard["templating"]["list"]
    assert (first["name"], first["type"]) == ("datasource", "datasource")
    known = {"datasource", "__rate_interval", *(variable["name"] for variable in others)}
    assert set(re.findall(r"\$\{?(\w+)", json.dumps(dashboard))) <= known


@pytest.mark.parametrize("path", DASHBOARDS, ids=lambda path: path.stem)
def test_panels_are_described_and_do_not_overlap(path):
    taken: set[tuple[int, int]] = set()
    for panel in load(path)["panels"]:
        assert panel["description"]
        assert panel["fieldConfig"]["defaults"]["unit"]
        place = panel["gridPos"]
        cells = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert not taken & cells, panel["title"]
        assert max(x for x, _ in cells) < 24
        taken |= cells


def test_every_metric_of_a_queue_is_on_a_dashboard():
    asked = set().union(
        *(metrics_in(query) for path in DASHBOARDS for query in queries(load(path)))
    )
    of_queues = {name for name in declared() if name.startswith("awa_operator_queue_")}
    assert len(of_queues) >= 5
    assert of_queues <= asked


def test_each_dashboard_is_a_config_map_that_the_sidecar_finds(helm):
    rendered = helm.template({"dashboards": {"enabled": True, "namespace": "monitoring"}})
    maps = rendered.of("ConfigMap")
    assert {made["metadata"]["labels"]["grafana_dashboard"] for made in maps} == {"1"}
    assert {made["metadata"]["namespace"] for made in maps} == {"monitoring"}
    found = {name: text for made in maps for name, text in made["data"].items()}
    assert found == {f"awa-{path.name}": path.read_text() for path in DASHBOARDS}


def test_alerts_ask_for_metrics_that_exist():
    known = declared()
    for rule in rules():
        asked = metrics_in(rule["expr"])
        assert asked
        assert asked <= known, rule["alert"]


def test_every_alert_says_what_it_means_and_has_its_place_in_the_documentation():
    page = TROUBLESHOOTING.read_text()
    for rule in rules():
        assert rule["labels"]["severity"] in {"warning", "critical"}
        assert rule["annotations"]["summary"]
        assert rule["annotations"]["description"]
        assert f"### {rule['alert']}\n" in page
        assert rule["alert"].startswith("Awa")
    assert set(re.findall(r"^### (Awa\w+)$", page, re.MULTILINE)) == {
        rule["alert"] for rule in rules()
    }


def test_the_rules_of_the_chart_are_those_of_the_file(helm):
    made = helm.template({"prometheusRule": {"enabled": True}}).one("PrometheusRule")
    (group,) = made["spec"]["groups"]
    assert (group["name"], group["rules"]) == ("awa", rules())


def test_an_alert_can_be_left_out(helm):
    made = helm.template(EVERYTHING).one("PrometheusRule")
    names = [rule["alert"] for rule in made["spec"]["groups"][0]["rules"]]
    assert names == [rule["alert"] for rule in rules() if rule["alert"] != "AwaOperatorDown"]
    assert made["metadata"]["labels"]["release"] == "prometheus"
