"""P09: at rest nothing is written: no annotation of ours on a Queue, no new version of anything."""

import asyncio
import time
from datetime import timedelta

import pytest

from support.operating import Site, took
from support.sizes import sized

pytestmark = pytest.mark.timeout(sized(300, 1500))

REST = sized(timedelta(seconds=20), timedelta(minutes=10))


async def test_p09_at_rest_nothing_is_written_however_often_it_is_looked_at(site: Site, database):
    await asyncio.to_thread(site.secret, database)
    # Every second what takes ten minutes otherwise.
    operator = await site.start(RESYNC_SECONDS="1", SECRET_SECONDS="2").until_leads()
    await asyncio.to_thread(site.queue, replicas=0)
    await site.until_deployed()
    await site.until(
        lambda: site.condition("Ready").get("status") == "True", what="it came to rest"
    )

    def versions() -> dict[str, str]:
        kinds = ("queues.awa.dev", "deployments", "poddisruptionbudgets", "jobs")
        return {
            f"{kind}/{one['metadata']['name']}": one["metadata"]["resourceVersion"]
            for kind in kinds
            for one in site.list(kind)
        }

    reconciles = operator.metric("awa_operator_reconcile_total")
    before, began = await asyncio.to_thread(versions), time.monotonic()
    await site.until(lambda: took(began) > REST, REST * 2, "time passes")
    assert operator.metric("awa_operator_reconcile_total") > reconciles + 10
    assert await asyncio.to_thread(versions) == before
    queue = await asyncio.to_thread(site.get, "queues.awa.dev", "mail")
    notes = set(queue["metadata"].get("annotations") or {})
    assert notes <= {"kubectl.kubernetes.io/last-applied-configuration"}
