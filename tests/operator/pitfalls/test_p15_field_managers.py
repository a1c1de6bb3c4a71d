"""P15: one field manager for each concern, objects made by apply, nothing applied that is there."""

import asyncio
import json
from typing import Any

import pytest

from support.operating import Site

pytestmark = pytest.mark.timeout(300)


def managers(body) -> dict[str, Any]:
    return {
        one["manager"]: one["fieldsV1"]
        for one in body["metadata"]["managedFields"]
        if one["operation"] == "Apply" and one.get("subresource") is None
    }


def deployment(site: Site):
    return json.loads(
        site.namespace.kubectl(
            "get", "deployment", "mail-worker", "-o", "json", "--show-managed-fields"
        )
    )


async def test_p15_in_mode_external_the_template_does_not_own_the_replica_count(
    site: Site, database
):
    await asyncio.to_thread(site.secret, database)
    await site.start().until_leads()
    await asyncio.to_thread(site.queue, replicas=2, scaling={"mode": "External"})
    await site.until_deployed()
    await asyncio.to_thread(site.namespace.kubectl, "scale", "queues.awa.dev/mail", "--replicas=7")
    await site.until(lambda: deployment(site)["spec"]["replicas"] == 7, what="it was scaled")
    await asyncio.to_thread(
        site.namespace.kubectl, "patch", "queues.awa.dev/mail", "--type=merge",
        "-p", '{"spec":{"worker":{"image":"awa.test/none:2"}}}',
    )  # fmt: skip
    await site.until(lambda: "none:2" in str(deployment(site)["spec"]), what="a new template")
    found = await asyncio.to_thread(deployment, site)
    assert found["spec"]["replicas"] == 7
    owned = managers(found)
    assert "f:template" in owned["awa-operator/template"]["f:spec"]
    assert "f:replicas" not in owned["awa-operator/template"]["f:spec"]
    assert owned["awa-operator/scale"]["f:spec"] == {"f:replicas": {}}


async def test_p15_everything_is_made_by_apply(site: Site, database):
    await asyncio.to_thread(site.secret, database)
    await site.start().until_leads()
    await asyncio.to_thread(site.queue, replicas=2)
    found = await site.until_deployed()
    found = await asyncio.to_thread(deployment, site)
    ours = [
        one
        for one in found["metadata"]["managedFields"]
        if one["manager"].startswith("awa-operator") and one["operation"] != "Apply"
    ]
    assert ours == []


async def test_p15_a_look_that_finds_everything_in_place_sends_no_write(site: Site, database):
    await asyncio.to_thread(site.secret, database)
    operator = await site.start(RESYNC_SECONDS="1").until_leads()
    await asyncio.to_thread(site.queue, replicas=0)
    await site.until(lambda: site.condition("Ready").get("status") == "True", what="it is ready")
    requests = "awa_operator_api_requests_total"

    def writes() -> float:
        kinds = ("deployments", "poddisruptionbudgets", "queues/status", "jobs", "events")
        return sum(operator.metric(requests, resource=kind) for kind in kinds) - sum(
            operator.metric(requests, resource=kind, verb=verb)
            for kind in kinds
            for verb in ("list", "watch", "get")
        )

    async def passes(more: int) -> None:
        name = "awa_operator_reconcile_total"
        before = operator.metric(name)
        await site.until(lambda: operator.metric(name) >= before + more, what="it looks again")

    # The pass that wrote the status tells events of it afterwards.
    await passes(2)
    before = writes()
    await passes(9)
    assert writes() == before
