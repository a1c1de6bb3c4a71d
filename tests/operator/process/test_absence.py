"""An operator that comes back after a long time believes nothing of what it did not see."""

import asyncio
import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from support.operating import Site

pytestmark = pytest.mark.timeout(300)

LONG_AGO = (datetime.now(UTC) - timedelta(hours=1)).replace(microsecond=0)


def idle_since(site: Site) -> datetime | None:
    scaling = site.get("queues.awa.dev", "mail").get("status", {}).get("scaling", {})
    told = scaling.get("idleSince")
    return datetime.fromisoformat(told) if told else None


def merge(site: Site, what: str, patch: dict[str, Any], *words: str) -> None:
    site.namespace.kubectl("patch", what, "--type=merge", "-p", json.dumps(patch), *words)


async def test_time_without_an_operator_is_no_idleness_of_the_last_replica(site: Site, database):
    native = {
        "mode": "Native", "minReplicas": 0, "targetJobsPerReplica": 1, "pollIntervalSeconds": 1,
        "cooldownSeconds": 1200, "behavior": {"scaleDown": {"stabilizationWindowSeconds": 0}},
    }  # fmt: skip
    await asyncio.to_thread(site.secret, database)
    operator = await site.start().until_leads()
    await asyncio.to_thread(site.queue, replicas=None, scaling=native)
    await site.until_deployed()
    await asyncio.to_thread(
        site.namespace.kubectl, "scale", "deployment/mail-worker", "--replicas=1"
    )
    await site.until(lambda: idle_since(site), what="it is idle")
    operator.kill()
    moment = LONG_AGO.isoformat().replace("+00:00", "Z")
    idle = {"status": {"scaling": {"idleSince": moment}}}
    await asyncio.to_thread(merge, site, "queues.awa.dev/mail", idle, "--subresource=status")
    renewed = {"spec": {"renewTime": moment.replace("Z", ".000000Z")}}
    await asyncio.to_thread(merge, site, "lease/awa", renewed)
    await site.start().until_leads()
    await site.until(lambda: idle_since(site) != LONG_AGO, what="it looked itself")
    found = await asyncio.to_thread(idle_since, site)
    assert found is not None
    assert found > LONG_AGO + timedelta(minutes=30)
    assert site.get("deployment", "mail-worker")["spec"]["replicas"] == 1
