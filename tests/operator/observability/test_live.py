"""Dashboards and alerts on what an operator and its workers really serve."""

import json
import math
import os
import re
import time
from collections.abc import Iterator, Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml

import awa
from cluster.databases import KubeDatabase
from cluster.handle import Namespace
from cluster.images import Images
from support.charts import CHART
from support.panel_picture import Drawn, Line, picture
from support.prometheus import Prometheus, running_prometheus
from support.queue_manifest import changed
from support.waiting import eventually_sync

ALERTS = CHART / "files" / "alerts.yaml"
DASHBOARDS = sorted((CHART / "dashboards").glob("*.json"))
PICTURES = os.environ.get("AWA_TEST_PICTURES")
COUNTED = {"Migration", "Rollout"}
"""Panels of what has happened once at least; others may have no percentiles of the last seconds."""
LIMIT = timedelta(seconds=240)
IMAGE = "registry.example/watched:1"
HANDLERS = """
import asyncio
from dataclasses import dataclass

import awa

client = awa.AsyncClient()


@dataclass
class Work:
    seconds: float
    fails: bool = False


@client.task(Work, queue="email")
async def work(job: awa.Job[Work]) -> None:
    await asyncio.sleep(job.args.seconds)
    if job.args.fails:
        raise awa.TerminalError("it was asked to")
    job.set_output({"seconds": job.args.seconds})
"""
QUEUE = changed(
    {
        "spec.worker": {
            "image": IMAGE,
            "command": ["awa", "worker", "handlers"],
            "concurrency": 4,
        },
        "spec.migration": {"command": ["awa", "migrate"]},
        "spec.rollout": {"minReadySeconds": 0},
        "spec.scaling": {
            "mode": "Native",
            "minReplicas": 1,
            "maxReplicas": 2,
            "targetJobsPerReplica": 4,
            "targetLagSeconds": 30,
            "pollIntervalSeconds": 1,
        },
    }
)
READER: list[dict[str, Any]] = [
    {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "prometheus"}},
    {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "Role",
        "metadata": {"name": "prometheus"},
        "rules": [{"apiGroups": [""], "resources": ["pods/proxy"], "verbs": ["get"]}],
    },
    {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "RoleBinding",
        "metadata": {"name": "prometheus"},
        "roleRef": {
            "apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "prometheus",
        },
        "subjects": [{"kind": "ServiceAccount", "name": "prometheus"}],
    },
]  # fmt: skip


@pytest.fixture
def prometheus(namespace: Namespace, tmp_path: Path) -> Iterator[Prometheus]:
    """A Prometheus that reaches the namespace's pods through the API server."""
    namespace.apply(READER)
    file = namespace.cluster.kubeconfig_of(namespace.name, "prometheus", tmp_path / "reader.yaml")
    config = yaml.safe_load(file.read_text())
    authorization = {
        "scheme": "https",
        "authorization": {"credentials": config["users"][0]["user"]["token"]},
        "tls_config": {"ca_file": config["clusters"][0]["cluster"]["certificate-authority"]},
    }
    with running_prometheus(tmp_path / "prometheus", ALERTS, authorization) as server:
        yield server


def targets(namespace: Namespace) -> list[dict[str, Any]]:
    """Return a target for every pod that runs, with the labels that a PodMonitor gives."""
    address = namespace.cluster.server.removeprefix("https://")
    root = f"/api/v1/namespaces/{namespace.name}/pods"
    running = [
        pod["metadata"]["name"]
        for pod in namespace.get("pods", "--field-selector=status.phase=Running")["items"]
    ]
    return [
        {
            "targets": [address],
            "labels": {
                "__metrics_path__": f"{root}/{name}:9090/proxy/metrics",
                "namespace": namespace.name,
                "pod": name,
                "instance": name,
            },
        }
        for name in running
    ]


def panels(namespace: Namespace) -> Iterator[tuple[str, str, str]]:
    """Yield dashboard, panel and query of everything that is drawn."""
    for path in DASHBOARDS:
        for panel in json.loads(path.read_text())["panels"]:
            for target in panel["targets"]:
                yield path.stem, panel["title"], filled(target["expr"], namespace)


def empty_panels(namespace: Namespace, prometheus: Prometheus) -> list[tuple[str, str, str]]:
    """Return what has no data now. Percentiles of nothing are numbers that are none."""

    def has_data(title: str, query: str) -> bool:
        found = prometheus.query(query)
        return any(title not in COUNTED or math.isfinite(one.value) for one in found)

    return [one for one in panels(namespace) if not has_data(*one[1:])]


def filled(query: str, namespace: Namespace) -> str:
    """Return a query with the variables of its dashboard filled in."""
    chosen = {"namespace": namespace.name, "name": "email", "queue": "email"}
    query = query.replace("$__rate_interval", "30s")
    return re.sub(r"\$(\w+)", lambda found: chosen[found[1]], query)


def has_scraped_the_end(namespace: Namespace, prometheus: Prometheus) -> bool:
    """Scrape; tell whether all jobs were seen to have ended."""
    prometheus.scrape(targets(namespace))
    left = prometheus.query(
        filled('sum(awa_operator_queue_jobs{namespace="$namespace"})', namespace)
    )
    return [one.value for one in left] == [0]


def draw(namespace: Namespace, prometheus: Prometheus, start: float) -> None:
    """Draw the dashboards for the documentation, when AWA_TEST_PICTURES names a folder."""
    end = time.time()
    if PICTURES is None:
        return
    for path in DASHBOARDS:
        drawn = []
        for panel in json.loads(path.read_text())["panels"]:
            lines = [
                Line(legend(target["legendFormat"], labels), points)
                for target in panel["targets"]
                for labels, points in prometheus.history(
                    filled(target["expr"], namespace), start, end
                )
            ]
            place = panel["gridPos"]
            where = place["x"], place["y"], place["w"], place["h"]
            unit = panel["fieldConfig"]["defaults"]["unit"]
            drawn.append(Drawn(panel["title"], panel["type"], unit, where, lines))
        file = Path(PICTURES) / f"dashboard-{path.stem}.svg"
        file.write_text(picture(drawn, start, end).replace(namespace.name, "jobs"))


def legend(form: str, labels: Mapping[str, str]) -> str:
    """Return the legend of a series."""
    return re.sub(r"\{\{(\w+)\}\}", lambda found: labels.get(found[1], ""), form).strip()


@pytest.mark.timeout(900)
async def test_every_panel_has_data_and_no_alert_fires_while_all_is_well(
    install_operator: Any,
    namespace: Namespace,
    images: Images,
    kube_database: KubeDatabase,
    prometheus: Prometheus,
):
    image = images.derive(IMAGE, {"handlers.py": HANDLERS})
    namespace.cluster.load(image.archive)
    install_operator()
    namespace.apply([kube_database.secret("app-db"), QUEUE])
    namespace.wait("jobq/email", "condition=Ready")
    async with awa.AsyncClient(kube_database.dsn) as client:
        started, count = time.time(), 120 if PICTURES is None else 1000
        work = [{"seconds": 0.5, "fails": number % 10 == 0} for number in range(count)]
        await client.insert_many(work, kind="work", queue="email")

        def all_panels_have_data() -> bool:
            prometheus.scrape(targets(namespace))
            return not empty_panels(namespace, prometheus)

        try:
            eventually_sync(all_panels_have_data, LIMIT)
        except AssertionError:
            assert empty_panels(namespace, prometheus) == []
        if PICTURES is not None:
            eventually_sync(lambda: has_scraped_the_end(namespace, prometheus), LIMIT)
    draw(namespace, prometheus, started)
    # A pod that has just come may not have been asked yet.
    eventually_sync(lambda: not prometheus.unscraped(), LIMIT, what="every pod is scraped")
    assert prometheus.broken_rules() == []
    assert prometheus.firing() == set()
