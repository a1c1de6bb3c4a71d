"""P43: after a Queue is deleted no series names it, also when nobody watched it go."""

import asyncio

import pytest

from support.operating import Site

pytestmark = pytest.mark.timeout(300)


def named(operator, name: str) -> list[str]:
    text = operator.ask("/metrics")[1]
    return [line for line in text.splitlines() if f'name="{name}"' in line]


def of_database(operator, identity: str = "") -> list[str]:
    text = operator.ask("/metrics")[1]
    return [line for line in text.splitlines() if f'database="{identity}' in line]


async def delete(site: Site, name: str) -> None:
    await asyncio.to_thread(site.namespace.kubectl, "delete", f"queues.awa.dev/{name}")


async def test_p43_no_series_of_a_queue_is_left_after_it_is_deleted(site: Site, database):
    for secret in ("db", "another"):
        await asyncio.to_thread(site.secret, database, secret)
    operator = await site.start().until_leads()
    await asyncio.to_thread(site.queue, "mail")
    another = {"connectionSecretRef": {"name": "another"}}
    await asyncio.to_thread(site.queue, "stays", database=another)
    found = await site.until_status("mail")
    identity = found["status"]["database"]["identity"]
    await site.until_deployed("stays")
    await site.until(lambda: named(operator, "mail"), what="it has series")
    assert operator.metric("awa_operator_db_connections", database=identity) == 1
    await delete(site, "mail")
    await site.until(lambda: not named(operator, "mail"), what="they went")
    await site.until(lambda: not of_database(operator, identity), what="its database's went")
    assert named(operator, "stays") != []
    assert operator.metric("awa_operator_db_connections") == 1


async def test_p43_nor_when_leading_ends(site: Site, database):
    await asyncio.to_thread(site.secret, database)
    with site.api_proxy() as proxy:
        operator = await site.start(proxy.address).until_leads()
        await asyncio.to_thread(site.queue)
        await site.until_deployed()
        await site.until(lambda: of_database(operator), what="there are series")
        with proxy.failing(503):
            await site.until(
                lambda: operator.ready().get("leader") is False, what="it leads no more"
            )
            await site.until(
                lambda: not (named(operator, "mail") or of_database(operator)), what="they went"
            )
        await site.until(
            lambda: operator.metric("awa_operator_db_connections") == 1, what="it leads again"
        )


async def test_p43_nor_when_it_was_deleted_while_the_operator_was_down(site: Site, database):
    await asyncio.to_thread(site.secret, database)
    operator = await site.start().until_leads()
    for name in ("mail", "stays"):
        await asyncio.to_thread(site.queue, name)
        await site.until_status(name)
    operator.kill()
    await delete(site, "mail")
    # Under the same name, as a container that starts again.
    again = await site.start(IDENTITY="operator-1").until_leads()
    await site.until(lambda: named(again, "stays"), what="there are series")
    assert named(again, "mail") == []


async def test_p43_nor_when_it_was_deleted_while_watches_were_cut(site: Site, database):
    await asyncio.to_thread(site.secret, database)
    with site.api_proxy() as proxy:
        operator = await site.start(proxy.address).until_leads()
        for name in ("mail", "stays"):
            await asyncio.to_thread(site.queue, name)
            await site.until_status(name)
        with proxy.failing(503):
            await delete(site, "mail")
        # All series go when the deletion takes so long that leading ends, and then these return.
        await site.until(
            lambda: named(operator, "stays") and not named(operator, "mail"), what="they went"
        )
