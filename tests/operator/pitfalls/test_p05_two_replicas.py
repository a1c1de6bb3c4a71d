"""P05: of two replicas exactly one acts; the other stands by, warm."""

import asyncio

import pytest

from support.operating import Site

pytestmark = pytest.mark.timeout(300)


async def test_p05_of_two_replicas_exactly_one_acts(site: Site, database):
    await asyncio.to_thread(site.secret, database)
    first = await site.start().until_leads()
    second = await site.start().until_ready()
    await asyncio.to_thread(site.queue)
    await site.until_deployed()
    assert first.ready()["leader"] is True
    assert second.ready()["leader"] is False
    writes = "awa_operator_api_requests_total"
    for verb in ("patch", "create", "delete"):
        assert second.metric(writes, verb=verb, resource="deployments") == 0
        assert second.metric(writes, verb=verb, resource="queues/status") == 0
    assert second.metric("awa_operator_leader") == 0
    assert first.metric("awa_operator_leader") == 1
