"""P13: many Queues at once are served in time and with few requests."""

import asyncio
import json
import time
from datetime import timedelta

import pytest

from support.operating import Site, queue_manifest, took
from support.sizes import sized

pytestmark = pytest.mark.timeout(300)

MANY = sized(200, 1000)


async def test_p13_many_queues_get_their_first_status_in_time_with_few_requests(
    site: Site, database
):
    await asyncio.to_thread(site.secret, database)
    operator = await site.start(LOG_LEVEL="info").until_leads()
    # The database is known by then, so that no Queue has to tell first that it is not yet.
    await asyncio.to_thread(site.queue, "first", replicas=0)
    await site.until(
        lambda: site.condition("Ready", "first").get("status") == "True", what="one is ready"
    )
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
        # The definition gives every Queue conditions; only the operator says what it has seen.
        seen = [(one.get("status") or {}).get("observedGeneration") for one in found]
        return sum(generation is not None for generation in seen) == MANY + 1

    await site.until(with_status, timedelta(seconds=60), "each has a status")
    assert took(began) < timedelta(seconds=90)
    await site.until(lambda: len(site.list("deployments")) == MANY + 1, timedelta(seconds=120))
    await site.until(
        lambda: operator.metric("awa_operator_workqueue_depth") == 0,
        timedelta(seconds=90),
        "nothing is in line",
    )
    assert operator.metric(requests) - before <= 6 * MANY + 50
