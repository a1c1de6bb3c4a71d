"""Each alert fires in a real Prometheus when its fault is there.

How long a fault must last before anybody is told is left out or shortened here;
`tests/operator/chart` has that.
"""

import asyncio
from collections.abc import Iterator, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml

import awa
from cluster.handle import Namespace
from cluster.images import Images
from support.api_proxy import to
from support.charts import CHART
from support.command.command import Commands
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


SHORTENED = {"AwaWatchStale": ("> 180", "> 75"), "AwaOldTransaction": ("> 900", "> 5")}
"""Limits in seconds inside of expressions. A watch hears something once a minute at least."""
DRIVEN = {
    "database": {"connectionSecretRef": {"name": "driven"}},
    "scaling": {
        "mode": "Native", "minReplicas": 1, "maxReplicas": 4, "targetJobsPerReplica": 1,
        "pollIntervalSeconds": 1,
        "behavior": {
            way: {
                "stabilizationWindowSeconds": 0,
                "policies": [{"type": "Percent", "value": 100, "periodSeconds": 1}],
            }
            for way in ("scaleUp", "scaleDown")
        },
    },
}  # fmt: skip
"""What makes a Queue follow its depth without any damping."""


@pytest.fixture
def prometheus(tmp_path: Path) -> Iterator[Prometheus]:
    """A Prometheus with the rules, none of which waits."""
    rules = yaml.safe_load(ALERTS.read_text())
    for rule in rules["groups"][0]["rules"]:
        del rule["for"]
        given, short = SHORTENED.get(rule["alert"], ("", ""))
        assert rule["expr"].endswith(given)
        rule["expr"] = rule["expr"].removesuffix(given) + short
    file = tmp_path / "at-once.yaml"
    file.write_text(yaml.safe_dump(rules))
    with running_prometheus(tmp_path / "prometheus", file, {}, interval="1s") as server:
        yield server


@pytest.fixture
def commands(database: Database, tmp_path: Path) -> Iterator[Commands]:
    """Start workers on the test's database."""
    folder = tmp_path / "commands"
    folder.mkdir()
    made = Commands(database.dsn, folder)
    yield made
    made.close()


def scrape(prometheus: Prometheus, *operators: Operator, others: Sequence[int] = ()) -> None:
    """Scrape operators, and other ports of this machine."""
    ports = [*(one.metrics_port for one in operators), *others]
    prometheus.scrape(
        [
            {"targets": [f"127.0.0.1:{port}"], "labels": {"pod": f"pod-{number}"}}
            for number, port in enumerate(ports)
        ]
    )


async def until_firing(
    site: Site,
    prometheus: Prometheus,
    expected: set[tuple[str, str]],
    limit: timedelta = SOON,
) -> None:
    def differ() -> list[tuple[str, str]]:
        return sorted(prometheus.firing() ^ expected)

    await site.until(lambda: not prometheus.unscraped(), SOON, "all is scraped")
    try:
        await site.until(lambda: not differ(), limit)
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


def allow(namespace: Namespace, *, without: str) -> None:
    """Take away from the operator's rights what is said of a resource."""
    for role in namespace.get("roles")["items"]:
        rules = [rule for rule in role["rules"] if without not in rule.get("resources", ())]
        namespace.patch("role", role["metadata"]["name"], {"rules": rules})


async def swing(site: Site, client: awa.AsyncClient) -> None:
    """Have work come and go until the count of `flaps` has turned back seven times."""

    def count() -> int:
        found: int = site.get("deployment", "flaps-worker")["spec"]["replicas"]
        return found

    for _ in range(4):
        jobs = await client.insert_many([{}] * 4, kind="work", queue="flaps")
        await site.until(lambda: count() > 1, SOON, "more replicas")
        for job in jobs:
            await client.cancel(job.id)
        await site.until(lambda: count() == 1, SOON, "one replica")


@pytest.mark.timeout(300)
async def test_alerts_of_operator_scaling_and_database_fire_and_end_with_their_faults(
    site: Site,
    database: Database,
    make_database: Any,
    migrated_template: str,
    prometheus: Prometheus,
    commands: Commands,
    connect: Any,
):
    driven = make_database(template=migrated_template)
    await asyncio.to_thread(site.secret, driven, "driven")
    await asyncio.to_thread(site.secret, database)
    worker = commands.start(AWA_CLEANUP_INTERVAL_SECONDS="0.2")
    await worker.works()
    (health,) = await worker.said("serving health pages")
    with site.api_proxy() as proxy:
        operator = await site.start(proxy.address).until_leads()
        await asyncio.to_thread(site.queue, "flaps", **DRIVEN)
        await site.until_deployed("flaps")
        healthy = {(NOT_READY, "flaps")}  # There is no such image.
        scrape(prometheus, operator, others=[health["port"]])
        await until_firing(site, prometheus, healthy)

        reader = await connect(database.dsn)
        async with reader.transaction(isolation="repeatable_read"):
            await reader.fetchval("select count(*) from awa.queue_meta")
            with proxy.failing(503, lambda seen: to("jobs")(seen) and seen.method == "GET"):
                async with awa.AsyncClient(driven.dsn) as client:
                    await swing(site, client)
                await asyncio.to_thread(allow, site.namespace, without="networkpolicies")
                await asyncio.to_thread(
                    site.queue, "refused", replicas=0, networkPolicy={"enabled": True}
                )
                faults = {
                    ("AwaScalingFlaps", "flaps"),
                    ("AwaOldTransaction", ""),
                    ("AwaOperatorDegraded", ""),
                    ("AwaWatchStale", "jobs"),
                }
                await until_firing(site, prometheus, healthy | faults, timedelta(seconds=120))
        await asyncio.to_thread(grant, site.namespace)
        await asyncio.to_thread(site.namespace.delete, "queue", "refused")
        # What turned seven times within the hour has done so.
        await until_firing(site, prometheus, healthy | {("AwaScalingFlaps", "flaps")})
