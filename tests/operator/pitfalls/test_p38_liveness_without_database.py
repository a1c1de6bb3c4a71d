"""P38: liveness has nothing to do with the database."""

import asyncio
from datetime import timedelta

import pytest

import awa_migrations
from support.operating import Site

pytestmark = pytest.mark.timeout(300)


async def test_p38_the_operator_is_live_and_ready_while_a_database_is_away(site: Site, make_server):
    server = make_server(fsync="off")
    database = server.create_database()
    await awa_migrations.migrate(database.dsn)
    await asyncio.to_thread(site.secret, database)
    operator = await site.start().until_leads()
    await asyncio.to_thread(site.queue, scaling={"pollIntervalSeconds": 1})
    await site.until(
        lambda: site.condition("DatabaseReachable").get("status") == "True", what="it is reached"
    )
    before = await site.until_deployed()
    server.stop()
    await site.until(
        lambda: site.condition("DatabaseReachable").get("status") == "False",
        timedelta(seconds=30),
        "it is away",
    )
    for _ in range(3):
        assert operator.health() == 200
        assert operator.ready()["ready"] is True
    server.start()
    await site.until(
        lambda: site.condition("DatabaseReachable").get("status") == "True",
        timedelta(seconds=40),
        "it is back",
    )
    assert operator.is_alive
    after = await site.until_deployed()
    assert after["spec"] == before["spec"]


async def test_p38_workers_are_probed_for_liveness_where_no_database_is_asked(site: Site, database):
    await asyncio.to_thread(site.secret, database)
    await site.start().until_leads()
    await asyncio.to_thread(site.queue)
    found = await site.until_deployed()
    (container,) = found["spec"]["template"]["spec"]["containers"]
    assert container["livenessProbe"]["httpGet"]["path"] == "/healthz"
    assert container["readinessProbe"]["httpGet"]["path"] == "/readyz"
