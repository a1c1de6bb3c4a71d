"""P06: two operators that act at the same time end in the same state as one."""

import asyncio
import time
from datetime import timedelta

import pytest

import awa
from support.operating import Operator, Site, took

pytestmark = pytest.mark.timeout(300)

MOST = 5
BACKLOG = 40


async def test_p06_two_operators_that_both_act_make_one_of_everything_and_come_to_rest(
    site: Site, make_database, migrated_template
):
    database = make_database(template=migrated_template)
    await asyncio.to_thread(site.secret, database)
    one, other = await site.start().until_leads(), await start_second(site)
    job = {"mode": "Job", "command": ["true"]}
    for name in ("a", "b", "c"):
        await asyncio.to_thread(site.queue, name, migration=job)
    await site.until(
        lambda: len(site.list("jobs", "app.kubernetes.io/component=migration")) == 1,
        what="one Job for the database",
    )
    await asyncio.to_thread(site.queue, "free", database={"connectionSecretRef": {"name": "db"}})
    await site.until_deployed("free")
    assert len(await asyncio.to_thread(site.list, "jobs")) == 1
    await until_at_rest(site)
    assert one.is_alive
    assert other.is_alive


async def test_p06_two_operators_change_a_count_as_often_as_one_would(
    site: Site, make_database, migrated_template
):
    database = make_database(template=migrated_template)
    await asyncio.to_thread(site.secret, database)
    async with awa.AsyncClient(database.dsn) as client:
        for name in ("first", "alone", "both"):
            await client.insert_many([{}] * BACKLOG, kind="task", queue=name)
    await site.start().until_leads()
    # With the first one the operator comes to know the database.
    await changes_until_scaled(site, "first")
    alone = await changes_until_scaled(site, "alone")
    await start_second(site)
    both = await changes_until_scaled(site, "both")
    await until_at_rest(site)
    assert both == alone == await asyncio.to_thread(generation, site, "both")


async def changes_until_scaled(site: Site, name: str) -> int:
    """Make the Queue of a backlog; return how often its Deployment was changed until it fits."""
    scaling = {
        "mode": "Native", "minReplicas": 1, "maxReplicas": MOST, "targetJobsPerReplica": 1,
        "pollIntervalSeconds": 1,
    }  # fmt: skip
    await asyncio.to_thread(site.queue, name, replicas=None, scaling=scaling)
    await site.until_deployed(name)

    def is_scaled() -> bool:
        return site.get("deployment", f"{name}-worker")["spec"]["replicas"] == MOST

    await site.until(is_scaled, what="as many as there may be")
    return await asyncio.to_thread(generation, site, name)


def generation(site: Site, name: str) -> int:
    """Return how often the spec of a Deployment was changed."""
    found: int = site.get("deployment", f"{name}-worker")["metadata"]["generation"]
    return found


async def until_at_rest(site: Site) -> None:
    """Wait until there are seconds in which nothing is written."""

    def versions() -> list[str]:
        kinds = ("queues.awa.dev", "deployments", "jobs")
        return [each["metadata"]["resourceVersion"] for kind in kinds for each in site.list(kind)]

    def rests() -> bool:
        before, began = versions(), time.monotonic()
        while took(began) < timedelta(seconds=4):
            if versions() != before:
                return False
        return True

    await site.until(rests, timedelta(seconds=60), "nothing changes any more")


async def start_second(site: Site) -> Operator:
    """Start an operator that leads beside another one: by a Lease of another name."""
    # The chart's right is for one Lease; the second operator uses one in another place.
    await asyncio.to_thread(_allow_second_lease, site)
    return await site.start(LEASE_NAME="awa-second").until_leads()


def _allow_second_lease(site: Site) -> None:
    site.namespace.apply(
        {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "Role",
            "metadata": {"name": "second"},
            "rules": [
                {
                    "apiGroups": ["coordination.k8s.io"],
                    "resources": ["leases"],
                    "verbs": ["create", "get", "watch", "update"],
                }
            ],
        }
    )
    site.namespace.kubectl(
        "create", "rolebinding", "second", "--role=second",
        f"--serviceaccount={site.namespace.name}:awa",
    )  # fmt: skip
