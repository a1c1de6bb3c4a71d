"""P02: an API server that is away for a while costs no restart, and is heard at once afterwards."""

import asyncio
import time
from datetime import timedelta

import pytest

from support.operating import Site, took

pytestmark = pytest.mark.timeout(300)

AWAY = timedelta(seconds=120)
FROZEN = timedelta(seconds=25)


async def test_p02_an_api_server_that_is_away_costs_no_restart(site: Site, database):
    await asyncio.to_thread(site.secret, database)
    with site.wire_proxy() as proxy:
        server = f"https://{proxy.address}"
        operator = await site.start(server).until_leads()
        await asyncio.to_thread(site.queue)
        await site.until_deployed()
        proxy.refuse()
        began = time.monotonic()
        await asyncio.to_thread(site.queue, worker={"image": "awa.test/none:2"})
        await site.until(lambda: took(began) > AWAY, AWAY * 2, "the outage outlasts the lease")
        assert operator.is_alive
        assert operator.health() == 200
        assert operator.ready().get("leader") is False
        proxy.forward()
        back = time.monotonic()

        def is_new() -> bool:
            found = site.get("deployment", "mail-worker")
            return "none:2" in str(found["spec"]["template"])

        await site.until(is_new, timedelta(seconds=15), "the change was acted on")
        assert took(back) < timedelta(seconds=15)
        assert operator.is_alive


async def test_p02_an_api_server_that_is_frozen_is_waited_for(site: Site, database):
    await asyncio.to_thread(site.secret, database)
    with site.wire_proxy() as proxy:
        operator = await site.start(
            f"https://{proxy.address}", REQUEST_TIMEOUT_SECONDS="3"
        ).until_leads()
        proxy.black_hole()
        began = time.monotonic()
        await asyncio.to_thread(site.queue)
        await site.until(lambda: took(began) > FROZEN, FROZEN * 2, "longer than the lease")
        assert operator.is_alive
        assert operator.health() == 200
        proxy.forward()
        await site.until_deployed(limit=timedelta(seconds=15))
        assert operator.is_alive


async def test_p02_an_api_server_that_asks_for_patience_is_given_it(site: Site, database):
    await asyncio.to_thread(site.secret, database)
    with site.api_proxy() as proxy:
        operator = await site.start(proxy.address).until_leads()
        # Without its lease it would not write at all.
        others = lambda seen: seen.is_write and "/leases" not in seen.path  # noqa: E731
        with proxy.failing(429, others, retry_after=2):
            began = time.monotonic()
            await asyncio.to_thread(site.queue)
            await site.until(lambda: len(proxy.writes(began)) >= 3, what="it tried again")
        first, second, third = [one.at for one in proxy.writes(began)][:3]
        assert second - first >= 1.9
        assert third - second >= 1.9
        await site.until_deployed()
        assert operator.is_alive
