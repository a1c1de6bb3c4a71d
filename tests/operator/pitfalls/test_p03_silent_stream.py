"""P03: a stream that stays open and says nothing is given up after a while."""

import asyncio
import time
from datetime import timedelta

import pytest

from support.api_proxy import to
from support.operating import Site

pytestmark = pytest.mark.timeout(300)


async def test_p03_a_silent_watch_is_opened_again(site: Site, database):
    await asyncio.to_thread(site.secret, database)
    with site.api_proxy() as proxy:
        # The API server sends a bookmark each minute; the default waits for more than one.
        operator = await site.start(proxy.address, WATCH_SILENCE_SECONDS="4").until_leads()
        with proxy.silent(to("queues")):
            began = time.monotonic()
            await asyncio.to_thread(site.queue)
            await site.until(
                lambda: any(
                    one.at > began and one.is_watch and to("queues")(one) for one in proxy.seen
                ),
                timedelta(seconds=10),
                "the watch was opened again",
            )
        await site.until_deployed(limit=timedelta(seconds=15))
        assert operator.is_alive
