"""P22: a database that was away is noticed when it is back, without a restart of the operator."""

from datetime import timedelta

import awa_migrations
from support.waiting import eventually
from support.watched import served, watching

SECOND = timedelta(seconds=1)


async def test_the_return_of_a_server_is_told_within_a_poll_and_so_is_its_schema(make_server):
    server = make_server(fsync="off")
    server.stop()
    async with watching() as watched:
        watched.serve("a", served(server.dsn(), poll_interval=2 * SECOND))
        await watched.sees("a", lambda view: view.failures >= 4, 15 * SECOND)
        told = watched.told["a"]
        server.start()
        looks = watched.probes.looks(server.dsn())
        back = await watched.sees("a", lambda view: view.is_reachable, 4 * SECOND)
        # One may have begun before the start; the next one is a poll later at most.
        assert watched.probes.looks(server.dsn()) <= looks + 2
        assert back.reachable_since is not None
        assert back.schema_version == 0
        assert watched.told["a"] > told
        told = watched.told["a"]
        await awa_migrations.migrate(server.dsn(), schema="awa")
        watched.poller.probe_soon(("ns", "a"))
        await watched.sees("a", lambda view: view.schema_version == newest())
        assert watched.told["a"] > told
        await watched.reads("a")


async def test_a_hundred_databases_that_come_back_together_are_not_asked_in_one_moment(
    make_server, make_proxy
):
    server = make_server(fsync="off")
    proxy = make_proxy(server)
    proxy.refuse()
    dsns = [f"postgresql://postgres@{proxy.address}/postgres?x.n={n}" for n in range(100)]
    async with watching() as watched:
        for number, dsn in enumerate(dsns):
            watched.serve(f"q{number}", served(dsn, poll_interval=3 * SECOND))
        for number in range(100):
            await watched.sees(f"q{number}", lambda view: view.failures >= 5, 40 * SECOND)
        proxy.forward()

        def all_back() -> bool:
            views = [watched.view(f"q{number}") for number in range(100)]
            return all(view is not None and view.is_reachable for view in views)

        await eventually(all_back, 6 * SECOND)
        # Between the third failure and the fourth: three seconds, by chance down to half of them.
        pauses = sorted(ends[3] - ends[2] for ends in watched.probes.ends.values())
        assert pauses[10] < 2.2
        # Without the outermost tenths: a moment in which nothing runs here lengthens some.
        assert pauses[89] - pauses[10] > 0.8


def newest() -> int:
    return awa_migrations.packaged_catalog().latest
