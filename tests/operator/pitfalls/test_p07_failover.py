"""P07: another replica acts within the lease's time after a kill, and at once after SIGTERM."""

import asyncio
import time
from datetime import datetime, timedelta
from typing import Any

import pytest

from support.api_proxy import Seen
from support.operating import Operator, Site, took

pytestmark = pytest.mark.timeout(300)

LONG: dict[str, Any] = {"LEASE_DURATION_SECONDS": "60"}
"""A lease that nobody takes within these tests' limits unless it is given up."""


def said_at(operator: Operator, message: str) -> datetime:
    """Return when an operator last logged this."""
    lines = [line for line in operator.lines() if line.get("message") == message]
    return datetime.fromisoformat(lines[-1]["time"])


async def test_p07_after_a_kill_another_acts_within_twenty_seconds(site: Site, database):
    await asyncio.to_thread(site.secret, database)
    first = await site.start().until_leads()
    second = await site.start().until_ready()
    first.kill()
    began = time.monotonic()
    await asyncio.to_thread(site.queue)
    await site.until_deployed(limit=timedelta(seconds=25))
    assert took(began) < timedelta(seconds=20)
    await site.until(lambda: second.ready().get("leader"), what="the second leads")


async def test_p07_after_sigterm_another_acts_within_three_seconds(site: Site, database):
    await asyncio.to_thread(site.secret, database)
    first = await site.start(**LONG).until_leads()
    second = await site.start(**LONG).until_ready()
    await asyncio.to_thread(site.queue)
    await site.until_deployed()
    assert await asyncio.to_thread(first.stop) == 0
    await site.until(lambda: second.ready().get("leader"), timedelta(seconds=20), "the next leads")
    # By their own words, as the end of a process and looking at the other take time too.
    waited = said_at(second, "leads now") - said_at(first, "leads no more")
    assert waited < timedelta(seconds=3)


async def test_p07_a_leader_that_ends_while_it_renews_gives_the_lease_up_for_good(site: Site):
    with site.api_proxy() as proxy, proxy.late_answers(timedelta(seconds=0.3), is_lease_write):
        # A renewal is always on its way, and its watch tells of a release before the answer does.
        first = await site.start(
            proxy.address, LEASE_RENEW_SECONDS="0.1", LEASE_DURATION_SECONDS="60"
        ).until_leads()
        second = await site.start(**LONG).until_ready()
        assert await asyncio.to_thread(first.stop) == 0
    await site.until(lambda: second.ready().get("leader"), timedelta(seconds=20), "the next leads")


def is_lease_write(seen: Seen) -> bool:
    return seen.is_write and "/leases" in seen.path


async def test_p07_a_replica_that_was_stopped_does_not_act_when_it_goes_on(site: Site, database):
    await asyncio.to_thread(site.secret, database)
    # Renewals have seconds to spare, so that a slow one ends nobody's leading.
    terms: dict[str, Any] = {
        "LEASE_DURATION_SECONDS": "12", "LEASE_RENEW_SECONDS": "3", "LEASE_RETRY_SECONDS": "0.5",
    }  # fmt: skip
    with site.api_proxy() as proxy:
        first = await site.start(proxy.address, **terms).until_leads()
        second = await site.start(**terms).until_ready()
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
        await site.until(lambda: second.ready().get("leader"), what="the second still leads")


async def test_p07_a_container_that_starts_again_goes_on_without_waiting(site: Site):
    first = await site.start(IDENTITY="pod-1", **LONG).until_leads()
    first.kill()
    began = time.monotonic()
    await site.start(IDENTITY="pod-1", **LONG).until_leads()
    assert took(began) < timedelta(seconds=14)
