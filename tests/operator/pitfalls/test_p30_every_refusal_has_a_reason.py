"""P30: whatever is not done has a reason and words."""

import asyncio
import json
from typing import Any

import pytest

from awa.manifest import ConditionType
from awa_operator.observed import JobPhase
from awa_operator.plan import plan_queue
from awa_operator.plan.satellites import REFUSED_AGAIN
from support.operating import Site
from support.planning.world import World

REFUSALS = {
    "Secret": lambda world: world.secrets.clear(),
    "database": lambda world: world.lose_database(),
    "template": lambda world: world.invalid_images.update({"app:2": True}),
    "quota": lambda world: setattr(world, "job_refused", "exceeded quota"),
    "pause": lambda world: world.edit(rollout={"paused": True}),
    "suspension": lambda world: world.edit(suspend=True),
    "foreign scaler": lambda world: world.foreign_scaler.update({"email": "HPA mail"}),
}


@pytest.mark.parametrize("refusal", sorted(REFUSALS))
def test_p30_whatever_is_refused_has_a_reason_and_words(ready_world: World, refusal: str):
    world = ready_world
    REFUSALS[refusal](world)
    world.edit(worker={"image": "app:2"}, replicas=3)
    world.settle()
    if any(job.phase is JobPhase.ACTIVE for job in world.jobs.values()):
        world.end_job(version=53)
        world.settle()
    plan = plan_queue(world.observe(), world.now)
    assert plan.waiting
    assert all(one.message for one in plan.waiting)
    told = [one for one in plan.status.conditions if one.message]
    assert {one.reason for one in plan.waiting} & {one.reason for one in told}


def events_of(world: World, reason: str) -> list[str]:
    return [event.message for _, event in world.events if event.reason == reason]


POLICY: dict[str, Any] = {"networkPolicy": {"enabled": True}}
NO_RIGHT = "networkpolicies is forbidden"


def test_p30_an_object_beside_the_workers_that_is_refused_is_told_once(ready_world: World):
    world = ready_world
    world.satellites_refused["NetworkPolicy"] = NO_RIGHT
    world.edit(**POLICY)
    world.settle()
    ready = world.condition(ConditionType.READY)
    assert ready.status == "True"
    assert ready.message.endswith(f"NetworkPolicy email-worker cannot be written: {NO_RIGHT}")
    assert events_of(world, "Refused") == [
        f"NetworkPolicy email-worker cannot be written: {NO_RIGHT}"
    ]
    assert world.plan().waiting


def test_p30_what_is_refused_is_tried_again_after_minutes_and_not_before(ready_world: World):
    world = ready_world
    world.satellites_refused["NetworkPolicy"] = NO_RIGHT
    world.edit(**POLICY)
    world.settle()
    before = world.writes
    plan = world.plan()
    assert plan.actions == ()
    assert plan.requeue_after is not None
    assert plan.requeue_after <= REFUSED_AGAIN
    world.advance(REFUSED_AGAIN.total_seconds())
    world.settle()
    assert world.writes == before + 1
    world.advance(REFUSED_AGAIN.total_seconds())
    world.satellites_refused.clear()
    world.settle()
    assert world.condition(ConditionType.READY).message == "Enough workers are available"
    assert ("NetworkPolicy", "email-worker") in world.satellites
    assert len(events_of(world, "Refused")) == 1


def test_p30_another_spec_or_a_restart_tries_at_once(ready_world: World):
    world = ready_world
    world.satellites_refused["NetworkPolicy"] = NO_RIGHT
    world.edit(**POLICY)
    world.settle()
    for again in (lambda: world.edit(replicas=2), world.restart):
        before = [one for one in world.events if one[1].reason == "Refused"]
        again()
        world.look_at_database()
        assert any("NetworkPolicy" in repr(one) for one in world.plan().actions)
        world.settle()
        assert [one for one in world.events if one[1].reason == "Refused"] == before
    world.edit(networkPolicy={"enabled": False})
    world.settle()
    assert world.condition(ConditionType.READY).message == "Enough workers are available"
    assert world.plan().refusals == ()


@pytest.mark.parametrize("kind", ["PodDisruptionBudget", "NetworkPolicy", "PodMonitor"])
def test_p30_an_object_of_somebody_else_is_left_alone_and_told(ready_world: World, kind: str):
    world = ready_world
    world.edit(replicas=2, monitoring={"podMonitor": {"enabled": True}}, **POLICY)
    world.settle()
    theirs = world.satellites[(kind, "email-worker")] = {"metadata": {"labels": {}}, "spec": {}}
    world.foreign.add(kind)
    world.settle()
    words = f"{kind} email-worker belongs to someone else"
    assert words in world.condition(ConditionType.READY).message
    assert [one for one in events_of(world, "NameConflict") if one.startswith(words)]
    assert world.satellites[(kind, "email-worker")] is theirs


def test_p30_three_long_refusals_fit_behind_what_ready_says_itself(ready_world: World):
    world = ready_world
    kinds = ("PodDisruptionBudget", "NetworkPolicy", "PodMonitor")
    world.satellites.clear()
    world.satellites_refused = dict.fromkeys(kinds, "so " * 400)
    world.edit(replicas=2, monitoring={"podMonitor": {"enabled": True}}, **POLICY)
    world.settle()
    message = world.condition(ConditionType.READY).message
    assert message.startswith("Enough workers are available. ")
    assert all(f"{kind} email-worker cannot be written: so" in message for kind in kinds)
    assert len(events_of(world, "Refused")) == 3


async def test_p30_a_missing_right_is_told_by_the_queue_and_by_the_operator(site: Site, database):
    """A real API server: the right is taken away, and the object follows when it is back."""
    rights = await asyncio.to_thread(site.namespace.get, "roles")
    role = next(
        one for one in rights["items"]
        if any("networkpolicies" in rule["resources"] for rule in one["rules"])
    )  # fmt: skip
    name = role["metadata"]["name"]
    allowed = role["rules"]
    lacking = [rule for rule in allowed if "networkpolicies" not in rule["resources"]]

    async def give(rules: list[object]) -> None:
        patch = [{"op": "replace", "path": "/rules", "value": rules}]
        await asyncio.to_thread(
            site.namespace.kubectl, "patch", "role", name, "--type=json", f"-p={json.dumps(patch)}"
        )

    def degraded() -> float:
        return operator.metric("awa_operator_degraded", reason="cannot write NetworkPolicy")

    def writes() -> float:
        return operator.metric(
            "awa_operator_api_requests_total", resource="networkpolicies", verb="patch"
        )

    await give(lacking)
    site.secret(database)
    operator = await site.start().until_leads()
    site.queue(migration={"mode": "None"}, networkPolicy={"enabled": True})
    await site.until(
        lambda: "NetworkPolicy mail-worker cannot be written" in site.condition("Ready")["message"],
        what="the refusal is told",
    )
    assert degraded() == 1
    told = await site.until(lambda: [
        one for one in site.list("events") if one["reason"] == "Refused"
    ], what="an event")  # fmt: skip
    assert "NetworkPolicy mail-worker" in told[0]["message"]

    asked = writes()
    site.queue(migration={"mode": "None"}, networkPolicy={"enabled": True}, replicas=0)
    await site.until(lambda: site.condition("WorkersAvailable")["reason"] == "NoneWanted")
    assert writes() == asked + 1

    await give(allowed)
    site.queue(migration={"mode": "None"}, networkPolicy={"enabled": True}, replicas=1)
    await site.until_deployed()
    await site.until(lambda: site.get("networkpolicy", "mail-worker"), what="the policy is there")
    await site.until(
        lambda: "NetworkPolicy" not in site.condition("Ready")["message"], what="all is said"
    )
    assert degraded() == 0
