"""P06: two operators that act at the same time end in the same state as one."""

import asyncio
import time
from datetime import timedelta

import pytest

from support.operating import Site, took

pytestmark = pytest.mark.timeout(300)


async def test_p06_two_operators_that_both_act_make_one_of_everything_and_come_to_rest(
    site: Site, make_database, migrated_template
):
    database = make_database(template=migrated_template)
    await asyncio.to_thread(site.secret, database)
    # The chart's right is for one Lease; the second operator uses one in another place.
    await asyncio.to_thread(_allow_second_lease, site)
    one = await site.start().until_leads()
    other = await site.start(LEASE_NAME="awa-second").until_leads()
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
    assert one.is_alive
    assert other.is_alive


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
