"""P14: another writer of the same object costs no entry and no time of a condition."""

import asyncio
import json
from datetime import timedelta

import pytest

from awa.manifest.status import ConditionType
from support.api_proxy import to
from support.operating import Site

pytestmark = pytest.mark.timeout(300)


async def add_foreign_condition(site: Site) -> None:
    foreign = {
        "type": "example.org/Approved", "status": "True", "reason": "ByHand", "message": "",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }  # fmt: skip
    apply = {
        "apiVersion": "awa.dev/v1alpha1", "kind": "Queue",
        "metadata": {"name": "mail", "namespace": site.namespace.name},
        "status": {"conditions": [foreign]},
    }  # fmt: skip
    await asyncio.to_thread(
        site.namespace.kubectl, "apply", "--server-side", "--subresource=status",
        "--field-manager=somebody", "-f", "-", stdin=json.dumps(apply),
    )  # fmt: skip


async def test_p14_conditions_lose_no_entry_while_somebody_else_writes_all_the_time(
    site: Site, database
):
    await asyncio.to_thread(site.secret, database)
    await site.start().until_leads()
    await asyncio.to_thread(site.queue)
    await site.until_status()
    await add_foreign_condition(site)
    expected = {one.value for one in ConditionType} | {"example.org/Approved"}
    for number in range(6):
        label = json.dumps({"metadata": {"labels": {"n": str(number)}}})
        image = {"image": f"awa.test/none:{number + 2}"}
        await asyncio.gather(
            asyncio.to_thread(
                site.namespace.kubectl, "patch", "queues.awa.dev/mail", "--type=merge", "-p", label
            ),
            asyncio.to_thread(site.queue, worker=image),
        )
        found = await site.until_status()
        conditions = found["status"]["conditions"]
        assert {one["type"] for one in conditions} == expected
        assert len(conditions) == len(expected)


async def test_p14_a_conflict_is_met_with_another_look_and_the_time_of_a_condition_stays(
    site: Site, database
):
    await asyncio.to_thread(site.secret, database)
    with site.api_proxy() as proxy:
        await site.start(proxy.address).until_leads()
        await asyncio.to_thread(site.queue, replicas=0)
        await site.until(
            lambda: site.condition("Ready").get("status") == "True", what="it is ready"
        )
        before = await asyncio.to_thread(site.condition, "DatabaseReachable")
        is_status = lambda seen: to("queues")(seen) and seen.path.endswith("/status")  # noqa: E731
        with proxy.failing(409, is_status, reason="Conflict"):
            count = len(proxy.seen)
            await asyncio.to_thread(site.queue, replicas=0, suspend=True)
            await site.until(
                lambda: sum(is_status(one) for one in proxy.seen[count:]) >= 3, what="it tries"
            )
        await site.until_status(limit=timedelta(seconds=10))
        after = await asyncio.to_thread(site.condition, "DatabaseReachable")
        assert after["status"] == before["status"]
        assert after["lastTransitionTime"] == before["lastTransitionTime"]


async def test_p14_a_condition_of_somebody_else_costs_no_write_at_rest(site: Site, database):
    await asyncio.to_thread(site.secret, database)
    with site.api_proxy() as proxy:
        operator = await site.start(proxy.address, RESYNC_SECONDS="1").until_leads()
        await asyncio.to_thread(site.queue, replicas=0)
        await site.until(
            lambda: site.condition("Ready").get("status") == "True", what="it is ready"
        )
        await add_foreign_condition(site)

        async def passes(more: int) -> None:
            name = "awa_operator_reconcile_total"
            before = operator.metric(name)
            await site.until(lambda: operator.metric(name) >= before + more, what="it looks again")

        await passes(2)
        count = len(proxy.seen)
        await passes(5)
        written = [one.path for one in proxy.seen[count:] if one.is_write and "queues" in one.path]
        assert written == []
        assert site.condition("example.org/Approved")["reason"] == "ByHand"
