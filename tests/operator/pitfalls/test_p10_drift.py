"""P10: what somebody else changes is put right within two seconds, the Queue untouched."""

import asyncio
from datetime import timedelta

import pytest

from support.operating import Site

pytestmark = pytest.mark.timeout(300)

SOON = timedelta(seconds=2)


@pytest.fixture
async def at_rest(site: Site, database) -> Site:
    await asyncio.to_thread(site.secret, database)
    await site.start().until_leads()
    await asyncio.to_thread(
        site.queue, replicas=2, podDisruptionBudget={"enabled": True, "maxUnavailable": 1}
    )
    await site.until_deployed()
    await site.until(lambda: site.get("pdb", "mail-worker"), what="there is a budget")
    return site


async def repaired(site: Site, is_so, change, *arguments) -> None:
    await asyncio.to_thread(change, *arguments)
    await site.until(is_so, SOON, "it was repaired")


async def test_p10_a_deployment_that_was_deleted_is_made_again(at_rest: Site):
    old = at_rest.get("deployment", "mail-worker")["metadata"]["uid"]

    def is_new() -> bool:
        found = at_rest.get("deployment", "mail-worker")
        return bool(found) and found["metadata"]["uid"] != old

    await repaired(at_rest, is_new, at_rest.namespace.delete, "deployment", "mail-worker")


async def test_p10_a_deployment_that_was_scaled_is_scaled_back(at_rest: Site):
    await repaired(
        at_rest,
        lambda: at_rest.get("deployment", "mail-worker")["spec"]["replicas"] == 2,
        at_rest.namespace.patch,
        "deployment",
        "mail-worker",
        {"spec": {"replicas": 5}},
        "scale",
    )


async def test_p10_a_template_that_was_edited_is_put_back(at_rest: Site):
    foreign = {"name": "worker", "image": "awa.test/foreign:1"}
    await repaired(
        at_rest,
        lambda: "none:1" in str(at_rest.get("deployment", "mail-worker")["spec"]["template"]),
        at_rest.namespace.patch,
        "deployment",
        "mail-worker",
        {"spec": {"template": {"spec": {"containers": [foreign]}}}},
    )


async def test_p10_a_budget_that_was_deleted_is_made_again(at_rest: Site):
    await repaired(
        at_rest,
        lambda: at_rest.get("pdb", "mail-worker"),
        at_rest.namespace.delete,
        "pdb",
        "mail-worker",
    )


async def test_p10_a_budget_that_was_edited_is_put_back(at_rest: Site):
    await repaired(
        at_rest,
        lambda: at_rest.get("pdb", "mail-worker")["spec"]["maxUnavailable"] == 1,
        at_rest.namespace.patch,
        "pdb",
        "mail-worker",
        {"spec": {"maxUnavailable": 9}},
    )


async def test_p10_a_job_that_was_deleted_on_its_way_is_made_again(site: Site, database):
    await asyncio.to_thread(site.secret, database)
    await site.start().until_leads()
    # No such image, so it stays on its way.
    job = {"mode": "Job", "image": "awa.test/none:1", "command": ["migrate"]}
    await asyncio.to_thread(site.queue, migration=job)
    first = await site.until(lambda: site.list("jobs"), what="there is a Job")
    old = first[0]["metadata"]["uid"]
    await asyncio.to_thread(
        site.namespace.kubectl, "delete", "jobs", "--all", "--cascade=foreground", "--wait=false"
    )
    await site.until(
        lambda: any(one["metadata"]["uid"] != old for one in site.list("jobs")),
        timedelta(seconds=60),
        "there is a new Job when no pod of the old one is left",
    )
