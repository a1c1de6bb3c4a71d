"""P04: liveness proves that the loop turns, that watches hear and that work gets done."""

import asyncio
from datetime import timedelta

import pytest

from support.operating import Site

pytestmark = pytest.mark.timeout(300)


def _is_about_a_queue(event) -> bool:
    return event.get("object", {}).get("kind") == "Queue"


async def test_p04_an_event_that_was_lost_is_found_by_the_next_audit(site: Site, database):
    await asyncio.to_thread(site.secret, database)
    with site.api_proxy() as proxy:
        operator = await site.start(
            proxy.address, AUDIT_SECONDS="4", AUDIT_GRACE_SECONDS="1"
        ).until_leads()
        with proxy.dropping(_is_about_a_queue):
            await asyncio.to_thread(site.queue)
            await site.until_deployed(limit=timedelta(seconds=20))
        mismatches = "awa_operator_watch_audit_mismatch_total"
        assert operator.metric(mismatches, resource="queues") >= 1
        assert operator.metric("awa_operator_watch_restarts_total") >= 1


async def test_p04_watches_that_stay_deaf_make_the_process_restart(site: Site, database):
    await asyncio.to_thread(site.secret, database)
    with site.api_proxy() as proxy:
        operator = await site.start(
            proxy.address, AUDIT_SECONDS="2", AUDIT_GRACE_SECONDS="0.5"
        ).until_leads()
        number = iter(range(1000))

        def keep_changing() -> bool:
            site.queue(worker={"image": f"awa.test/none:{next(number)}"})
            return operator.health() == 503

        with proxy.dropping(_is_about_a_queue):
            await site.until(keep_changing, timedelta(seconds=40), "liveness fails")


async def test_p04_a_healthy_operator_finds_no_difference(site: Site, database):
    await asyncio.to_thread(site.secret, database)
    operator = await site.start(AUDIT_SECONDS="1", AUDIT_GRACE_SECONDS="0.5").until_leads()
    await asyncio.to_thread(site.queue)
    await site.until_deployed()
    lists = lambda: operator.metric("awa_operator_api_requests_total", verb="list")  # noqa: E731
    before = lists()
    await site.until(lambda: lists() > before + 30, timedelta(seconds=30), "several audits")
    assert operator.metric("awa_operator_watch_audit_mismatch_total") == 0
    assert operator.health() == 200


async def test_p04_a_loop_that_stands_still_makes_the_probe_fail(site: Site, database):
    await asyncio.to_thread(site.secret, database)
    operator = await site.start(module="support.stuck_operator", LOOP_LAG_SECONDS="2").until_leads()
    # A start on a busy machine may count as standing still, and is remembered for 20 seconds.
    await site.until(lambda: operator.health() == 200, what="it is healthy")
    await asyncio.to_thread(site.queue)
    await site.until(lambda: operator.health() != 200, timedelta(seconds=10), "the probe fails")
    await site.until(lambda: operator.health() == 503, timedelta(seconds=20), "and says why")


async def test_p04_renewals_of_the_lease_come_back_through_a_watch(site: Site):
    operator = await site.start(
        LEASE_DURATION_SECONDS="4", LEASE_RENEW_SECONDS="1", LEASE_RETRY_SECONDS="0.5"
    ).until_leads()
    count = "awa_operator_watch_canary_roundtrip_seconds_count"
    await site.until(lambda: operator.metric(count) >= 3, what="three renewals were heard")
