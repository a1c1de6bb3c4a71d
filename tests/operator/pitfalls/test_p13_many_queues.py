"""P13: many Queues at once are served in time and with few requests."""

import asyncio
import json
import time
from datetime import timedelta
from typing import Any

import pytest

from support.operating import Site, queue_manifest, took

pytestmark = pytest.mark.timeout(600)

MANY = 200


async def test_p13_many_queues_get_their_first_status_in_time_with_few_requests(
    site: Site, database
):
    await asyncio.to_thread(site.secret, database)
    operator = await site.start(LOG_LEVEL="info").until_leads()
    requests = "awa_operator_api_requests_total"
    before = operator.metric(requests)
    conflicts = operator.metric(requests, code="409")
    pinned = {"image": f"awa.test/none@sha256:{'0' * 64}"}
    queues = [queue_manifest(f"q{n}", replicas=0, worker=pinned) for n in range(MANY)]
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

    def are_ready() -> bool:
        found = site.list("queues.awa.dev")
        return sum(is_ready(one) for one in found) == MANY

    await site.until(are_ready, timedelta(seconds=240), "each is ready")
    # Kubernetes writes to a new Deployment at the same time: then the count is asked for again.
    again = operator.metric(requests, code="409") - conflicts
    assert operator.metric(requests) - before <= 6 * MANY + 50 + again


def is_ready(queue: dict[str, Any]) -> bool:
    conditions = (queue.get("status") or {}).get("conditions") or ()
    return any(one["type"] == "Ready" and one["status"] == "True" for one in conditions)
