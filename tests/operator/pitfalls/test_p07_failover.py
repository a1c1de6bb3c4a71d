"""P07: another replica acts within the lease's time after a kill, and at once after SIGTERM."""

import asyncio
import time
from datetime import timedelta
from typing import Any

import pytest

from support.operating import Site, took

pytestmark = pytest.mark.timeout(300)


async def test_p07_after_a_kill_another_acts_within_twenty_seconds(site: Site, database):
    await asyncio.to_thread(site.secret, database)
    first = await site.start().until_leads()
    second = await site.start().until_ready()
    first.kill()
    began = time.monotonic()
    await asyncio.to_thread(site.queue)
    await site.until_deployed(limit=timedelta(seconds=25))
    assert took(began) < timedelta(seconds=20)
    assert second.ready()["leader"] is True


async def test_p07_after_sigterm_another_acts_within_three_seconds(site: Site, database):
    await asyncio.to_thread(site.secret, database)
    first = await site.start().until_leads()
    second = await site.start().until_ready()
    await asyncio.to_thread(site.queue)
    await site.until_deployed()
    began = time.monotonic()
    assert await asyncio.to_thread(first.stop) == 0
    await site.until(lambda: second.ready().get("leader"), what="the next leads")
    # The lease was given up: its time is longer than this.
    assert took(began) < timedelta(seconds=3)


async def test_p07_a_replica_that_was_stopped_does_not_act_when_it_goes_on(site: Site, database):
    await asyncio.to_thread(site.secret, database)
    quick: dict[str, Any] = {
        "LEASE_DURATION_SECONDS": "4", "LEASE_RENEW_SECONDS": "1.5", "LEASE_RETRY_SECONDS": "0.5",
    }  # fmt: skip
    with site.api_proxy() as proxy:
        first = await site.start(proxy.address, **quick).until_leads()
        second = await site.start(**quick).until_ready()
        first.freeze()
        await site.until(lambda: second.ready().get("leader"), what="the second leads")
        await asyncio.to_thread(site.queue)
        await site.until_deployed()
        thawed = time.monotonic()
        first.thaw()
        await asyncio.to_thread(site.queue, worker={"image": "awa.test/none:2"})
        await site.until(
            lambda: "none:2" in str(site.get("deployment", "mail-worker")), what="the second acted"
        )
        await site.until(lambda: first.ready().get("leader") is False, what="the first knows")
        assert proxy.writes(thawed) == []
        assert second.ready()["leader"] is True


async def test_p07_a_container_that_starts_again_goes_on_without_waiting(site: Site):
    first = await site.start(IDENTITY="pod-1").until_leads()
    first.kill()
    began = time.monotonic()
    await site.start(IDENTITY="pod-1").until_leads()
    assert took(began) < timedelta(seconds=14)
