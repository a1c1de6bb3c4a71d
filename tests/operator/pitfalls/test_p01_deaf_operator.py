"""P01: a watch that fails for longer than any budget of retries leaves no deaf operator behind."""

import asyncio
import time
from contextlib import suppress
from datetime import timedelta
from itertools import pairwise

import pytest

from awa_operator.watching import insist_on_cancels
from support.api_proxy import Seen, to
from support.operating import Site

pytestmark = pytest.mark.timeout(300)


@pytest.mark.parametrize("status", [503, 403, 500, 401])
async def test_p01_an_operator_whose_watch_was_refused_hears_again_and_never_ended(
    site: Site, database, status
):
    await asyncio.to_thread(site.secret, database)
    with site.api_proxy() as proxy:
        operator = await site.start(proxy.address).until_leads()
        await asyncio.to_thread(site.queue)
        await site.until_deployed()

        def refused(seen: Seen) -> bool:
            return to("queues")(seen) and seen.method == "GET"

        with proxy.failing(status, refused):
            began = time.monotonic()
            # While nobody can hear it.
            await asyncio.to_thread(site.queue, worker={"image": "awa.test/none:2"})

            def tries() -> list[float]:
                return [one.at for one in proxy.seen if refused(one) and one.at > began]

            await site.until(lambda: len(tries()) > 10, what="more attempts than a budget has")
            assert operator.is_alive
            # It does not ask as fast as it is refused: the waits have grown to 0.5 to 1 s.
            last = tries()[8:11]
            assert min(after - before for before, after in pairwise(last)) > 0.4
            # Each watch is tried again on its own.
            assert operator.metric("awa_operator_watch_restarts_total") == 0

        def is_new() -> bool:
            found = site.get("deployment", "mail-worker")
            image: str = found["spec"]["template"]["spec"]["containers"][0]["image"]
            return image == "awa.test/none:2"

        await site.until(is_new, timedelta(seconds=15), "the missed change was acted on")
        assert operator.is_alive
        assert operator.health() == 200


async def test_p01_an_error_inside_of_a_stream_begins_the_watches_anew(site: Site, database):
    await asyncio.to_thread(site.secret, database)
    with site.api_proxy() as proxy:
        operator = await site.start(proxy.address).until_leads()
        error = {"kind": "Status", "code": 500, "reason": "InternalError"}
        assert proxy.inject({"type": "ERROR", "object": error}) > 0
        await asyncio.to_thread(site.queue)
        await site.until_deployed(limit=timedelta(seconds=15))
        assert operator.is_alive


async def test_p01_a_cancel_that_a_watch_has_lost_is_made_again():
    begins, is_lost, never = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def lose_one() -> None:
        begins.set()
        with suppress(asyncio.CancelledError):
            await never.wait()
        is_lost.set()
        await never.wait()

    task = asyncio.create_task(lose_one())
    await begins.wait()
    task.cancel()
    await is_lost.wait()
    insisting = asyncio.create_task(insist_on_cancels())
    await asyncio.wait({task}, timeout=20)
    insisting.cancel()
    assert task.cancelled()
