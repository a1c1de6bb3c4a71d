"""P13: many Queues at once are served in time and with few requests."""

import asyncio
import json
import time
from datetime import timedelta

import pytest

from support.operating import Site, queue_manifest, took

pytestmark = pytest.mark.timeout(300)

MANY = 200


async def test_p13_many_queues_get_their_first_status_in_time_with_few_requests(
    site: Site, database
):
    await asyncio.to_thread(site.secret, database)
    operator = await site.start(LOG_LEVEL="info").until_leads()
    requests = "awa_operator_api_requests_total"
    before = operator.metric(requests)
    queues = [queue_manifest(f"q{number}", replicas=0) for number in range(MANY)]
    began = time.monotonic()
    listed = json.dumps({"apiVersion": "v1", "kind": "List", "items": queues})
    await asyncio.to_thread(
        site.namespace.kubectl, "create", "-f", "-", stdin=listed, limit=timedelta(seconds=110)
    )

    def with_status() -> bool:
        found = site.list("queues.awa.dev")
        return sum(bool((one.get("status") or {}).get("conditions")) for one in found) == MANY

    await site.until(with_status, timedelta(seconds=60), "each has a status")
    assert took(began) < timedelta(seconds=90)
    await site.until(lambda: len(site.list("deployments")) == MANY, timedelta(seconds=120))
    await site.until(
        lambda: operator.metric("awa_operator_workqueue_depth") == 0,
        timedelta(seconds=90),
        "nothing is in line",
    )
    assert operator.metric(requests) - before <= 6 * MANY + 50
