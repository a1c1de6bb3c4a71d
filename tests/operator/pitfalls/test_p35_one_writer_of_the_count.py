"""P35: one writer of the replica count."""

import asyncio
import json
from datetime import timedelta

import pytest
import yaml

from awa.manifest import ConditionType
from awa.scaling import Signals
from awa_operator.conditions import Reason
from support.charts import ROOT
from support.operating import Site
from support.planning.stories import SCALING, count
from support.planning.world import World

EXAMPLE = ROOT / "crds" / "examples" / "external-scaler.yaml"
POLICY = {"type": "Pods", "value": 10, "periodSeconds": 1}
AUTOSCALER = {
    "apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler",
    "metadata": {"name": "by-cpu"},
    "spec": {
        "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "mail-worker"},
        "minReplicas": 3, "maxReplicas": 5,
    },
}  # fmt: skip


def test_p35_an_external_count_survives_a_new_image(ready_world: World):
    world = ready_world
    world.edit(scaling={"mode": "External"})
    world.settle()
    world.edit(replicas=7)
    world.settle()
    world.edit(worker={"image": "app:2"})
    world.settle()
    world.end_job(version=53)
    world.settle()
    assert count(world) == 7
    assert world.deployments["email"].managers == {"awa-operator/scale"}


def test_p35_removing_the_count_hands_it_over(ready_world: World):
    ready_world.edit(replicas=7)
    ready_world.settle()
    ready_world.edit(replicas=None)
    ready_world.settle()
    assert count(ready_world) == 7


def test_p35_changing_who_scales_drops_nothing(ready_world: World):
    world = ready_world
    world.edit(replicas=7)
    world.settle()
    world.edit(scaling={"mode": "External"})
    world.settle()
    assert count(world) == 7
    world.edit(replicas=None, scaling=SCALING)
    world.settle()
    world.poll(signals=Signals(ready=1))
    world.settle()
    assert count(world) == 7
    world.edit(scaling={"mode": "Fixed"})
    world.settle()
    assert count(world) == 7


def test_p35_a_scaler_of_the_deployment_itself_is_reported_and_not_fought(ready_world: World):
    world = ready_world
    world.edit(replicas=None, scaling=SCALING)
    world.settle()
    world.foreign_scaler["email"] = "HorizontalPodAutoscaler mail"
    world.deployments["email"].scale_by_hand(9, "hpa")
    world.poll(signals=Signals())
    world.settle()
    assert count(world) == 9
    condition = world.condition(ConditionType.SCALING_ACTIVE)
    assert condition.reason == Reason.CONFLICTING_SCALER
    assert "HorizontalPodAutoscaler mail" in condition.message


def test_p35_a_template_that_is_applied_never_resets_the_count():
    world = World()
    world.create(spec={"replicas": 4})
    world.settle()
    world.end_job()
    world.settle(pods=False)
    # Made by the template's manager, and the template changes before anything else happens.
    live = world.deployments["email"]
    live.managers = frozenset({"awa-operator/template"})
    world.edit(worker={"image": "app:1", "args": ["-v"]})
    for _ in range(5):
        world.reconcile()
        assert count(world) == 4
    assert "args" in live.template["spec"]["containers"][0]


@pytest.mark.timeout(300)
async def test_p35_scaling_goes_on_when_a_scaler_of_the_deployment_is_removed(site: Site, database):
    at_once = {"stabilizationWindowSeconds": 0, "policies": [POLICY]}
    native = {
        "mode": "Native", "minReplicas": 1, "maxReplicas": 5, "targetJobsPerReplica": 1,
        "pollIntervalSeconds": 1, "behavior": {"scaleDown": at_once},
    }  # fmt: skip
    await asyncio.to_thread(site.secret, database)
    await site.start(AUDIT_SECONDS="1", AUDIT_GRACE_SECONDS="1").until_leads()
    await asyncio.to_thread(site.queue, replicas=None, scaling=native)
    await site.until_deployed()
    await asyncio.to_thread(site.namespace.apply, AUTOSCALER)

    def replicas() -> int:
        return site.get("deployment", "mail-worker")["spec"]["replicas"]

    def reason() -> str:
        return site.condition("ScalingActive").get("reason", "")

    limit = timedelta(seconds=90)
    await site.until(lambda: replicas() == 3 and reason() == "ConflictingScaler", limit)
    named = "HorizontalPodAutoscaler by-cpu"
    await site.until(lambda: named in site.condition("ScalingActive")["message"], what="its name")
    await asyncio.to_thread(site.namespace.kubectl, "delete", "hpa/by-cpu")
    await site.until(lambda: reason() == "Scaling", what="the conflict ends")
    await site.until(lambda: replicas() == 1, what="the planner decides again")


@pytest.mark.timeout(300)
async def test_p35_the_autoscaler_of_the_example_sets_the_count_and_a_new_image_keeps_it(
    site: Site, database
):
    _, autoscaler = yaml.safe_load_all(EXAMPLE.read_text())
    # An autoscaler raises to its minimum without any metric.
    autoscaler["spec"]["minReplicas"] = 3
    await asyncio.to_thread(site.secret, database)
    await site.start().until_leads()
    await asyncio.to_thread(site.queue, "reports", scaling={"mode": "External"})
    await site.until_deployed("reports")
    await asyncio.to_thread(site.namespace.apply, autoscaler)

    def counts() -> tuple[int, int]:
        wanted, live = site.get("queues.awa.dev", "reports"), site.get("deploy", "reports-worker")
        return wanted["spec"]["replicas"], live["spec"]["replicas"]

    def changes() -> int:
        return site.get("deploy", "reports-worker")["metadata"]["generation"]

    await site.until(lambda: counts() == (3, 3), timedelta(seconds=90), "its minimum")
    before = await asyncio.to_thread(changes)
    image = {"spec": {"worker": {"image": "awa.test/none:2"}}}
    await asyncio.to_thread(
        site.namespace.kubectl, "patch", "queues.awa.dev/reports", "--type=merge",
        "-p", json.dumps(image),
    )  # fmt: skip

    def is_applied() -> bool:
        return "none:2" in str(site.get("deploy", "reports-worker")["spec"]["template"])

    await site.until(is_applied, what="the new image")
    await site.until_status("reports")
    assert await asyncio.to_thread(counts) == (3, 3)
    assert await asyncio.to_thread(changes) == before + 1, "the template, and never the count"
