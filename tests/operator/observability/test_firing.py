"""Each alert that needs no quarter of an hour fires in a real Prometheus when its fault is there.

How long a fault must last before anybody is told is left out here; `tests/operator/chart` has that.
"""

import asyncio
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml

import awa
from cluster.images import Images
from support.charts import CHART
from support.operating import Operator, Site, grant, site
from support.postgres import Database
from support.prometheus import Prometheus, running_prometheus

__all__ = ["site"]

ALERTS = CHART / "files" / "alerts.yaml"
SOON = timedelta(seconds=60)
NOT_READY = "AwaQueueNotReady"
FAULTS = {
    "failed": {NOT_READY, "AwaMigrationFailed"},
    "hangs": {NOT_READY, "AwaMigrationRunning"},
    "stalled": {NOT_READY, "AwaRolloutStalled"},
    "lost": {NOT_READY, "AwaDatabaseUnreachable"},
    "late": {NOT_READY, "AwaLagAboveTarget"},
}
"""The alerts of each Queue that something is wrong with."""


@pytest.fixture
def prometheus(tmp_path: Path) -> Iterator[Prometheus]:
    """A Prometheus with the rules, none of which waits."""
    rules = yaml.safe_load(ALERTS.read_text())
    for rule in rules["groups"][0]["rules"]:
        del rule["for"]
    file = tmp_path / "at-once.yaml"
    file.write_text(yaml.safe_dump(rules))
    with running_prometheus(tmp_path / "prometheus", file, {}, interval="1s") as server:
        yield server


def scrape(prometheus: Prometheus, *operators: Operator) -> None:
    targets = [
        {"targets": [f"127.0.0.1:{one.metrics_port}"], "labels": {"pod": f"operator-{number}"}}
        for number, one in enumerate(operators)
    ]
    prometheus.scrape(targets)


async def until_firing(site: Site, prometheus: Prometheus, expected: set[tuple[str, str]]) -> None:
    def differ() -> list[tuple[str, str]]:
        return sorted(prometheus.firing() ^ expected)

    await site.until(lambda: not prometheus.unscraped(), SOON, "all is scraped")
    try:
        await site.until(lambda: not differ(), SOON)
    except AssertionError:
        assert differ() == []


def job_of(command: str, images: Images) -> dict[str, Any]:
    return {"mode": "Job", "image": images.worker.name, "command": ["python3", "-c", command]}


def break_everything(site: Site, database: Database, images: Images) -> None:
    """Apply the Queues of `FAULTS`."""
    for name in ("failed", "hangs"):
        site.secret(database, name)
    of = {name: {"connectionSecretRef": {"name": name}} for name in FAULTS}
    site.queue("failed", database=of["failed"], migration=job_of("raise SystemExit(65)", images))
    site.queue(
        "hangs", database=of["hangs"], migration=job_of("import signal; signal.pause()", images)
    )
    site.queue("stalled", rollout={"minReadySeconds": 0, "progressDeadlineSeconds": 2})
    site.queue("lost", database=of["lost"], replicas=0)
    site.queue(
        "late",
        scaling={
            "mode": "Native", "minReplicas": 1, "maxReplicas": 1, "targetLagSeconds": 1,
            "pollIntervalSeconds": 1,
        },
    )  # fmt: skip


@pytest.mark.timeout(300)
async def test_each_alert_fires_for_the_queue_that_it_is_about_and_ends_with_its_fault(
    site: Site, database: Database, images: Images, prometheus: Prometheus
):
    await asyncio.to_thread(site.secret, database)
    operator = await site.start().until_leads()
    await asyncio.to_thread(site.queue, "well", replicas=0)
    await site.until(lambda: site.condition("Ready", "well").get("status") == "True")
    scrape(prometheus, operator)
    await until_firing(site, prometheus, set())

    await asyncio.to_thread(break_everything, site, database, images)
    async with awa.AsyncClient(database.dsn) as client:
        await client.insert_many([{}], kind="work", queue="late")
    expected = {(alert, name) for name, alerts in FAULTS.items() for alert in alerts}
    await until_firing(site, prometheus, expected)
    for stage in ("observe", "plan", "act", "report"):
        timed = "awa_operator_reconcile_stage_duration_seconds_count"
        assert operator.metric(timed, stage=stage) > 0

    await asyncio.to_thread(site.namespace.kubectl, "delete", "jobq", *FAULTS)
    await until_firing(site, prometheus, set())

    standby = await site.start().until_ready()
    await asyncio.to_thread(site.namespace.kubectl, "delete", "rolebinding/awa-lease")
    operator.kill()
    scrape(prometheus, standby)
    await until_firing(site, prometheus, {("AwaNoLeader", "")})
    await asyncio.to_thread(grant, site.namespace)
    await standby.until_leads()
    await until_firing(site, prometheus, set())
    standby.kill()
    await site.until(lambda: prometheus.firing() == {("AwaOperatorDown", "")})
