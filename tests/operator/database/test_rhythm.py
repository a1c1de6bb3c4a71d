"""When a database is looked at, and what is told of it."""

import asyncio
from dataclasses import replace
from datetime import timedelta

import pytest

from awa.scaling import Signals, Unknown
from awa_operator.database_watch import LEAST_GAP
from awa_operator.dsn import Dsn
from awa_operator.observed import DatabaseProblem as Problem
from support.proxy import FaultProxy
from support.waiting import eventually
from support.watched import served, sessions_of, slept

SECOND = timedelta(seconds=1)


@pytest.fixture
def proxy(database):
    """A proxy before this test's server."""
    with FaultProxy(database.server.host, database.server.port) as started:
        yield started


async def test_nothing_is_known_of_a_queue_before_the_first_look_or_after_the_last(watched, engine):
    assert (watched.view("a"), watched.signals("a")) == (None, None)
    watched.serve("a", served(engine.database.dsn))
    await watched.reads("a")
    watched.serve("a", None)
    assert (watched.view("a"), watched.signals("a")) == (None, None)
    watched.serve("a", None)


async def test_a_queue_is_told_once_of_a_database_that_stays_as_it_is(watched, engine):
    dsn = engine.database.dsn
    watched.serve("a", served(dsn))
    await watched.reads("a")
    told = watched.told["a"]
    assert told == 2  # of the database, and of its signals
    await watched.looks_again(dsn, 3)
    assert watched.told["a"] == told


async def test_work_is_told_at_every_look_and_its_end_once(watched, engine):
    dsn = engine.database.dsn
    watched.serve("a", served(dsn))
    await watched.reads("a")
    told = watched.told["a"]
    await engine.enqueue(engine.admin, 1)
    await watched.reads("a", lambda found: found.ready == 1)
    await watched.looks_again(dsn, 2)
    assert watched.told["a"] >= told + 2
    await engine.drain()
    await watched.reads("a", lambda found: found == Signals())
    told = watched.told["a"]
    await watched.looks_again(dsn, 2)
    assert watched.told["a"] == told


async def test_a_queue_that_joins_is_looked_at_at_once_and_without_another_session(watched, engine):
    dsn, rarely = engine.database.dsn, timedelta(minutes=5)
    watched.serve("a", served(dsn, poll_interval=rarely))
    await watched.reads("a")
    await engine.enqueue(engine.admin, 1, queue="b")
    watched.serve("b", served(dsn, "b", poll_interval=rarely))
    assert (await watched.reads("b", limit=2 * SECOND)).ready == 1
    assert watched.poller.sessions <= 1


async def test_serving_the_same_again_asks_for_nothing(watched, engine):
    dsn = engine.database.dsn
    watched.serve("a", served(dsn, poll_interval=timedelta(minutes=1)))
    await watched.reads("a")
    looks = watched.probes.looks(dsn)
    for _ in range(100):
        watched.serve("a", served(dsn, poll_interval=timedelta(minutes=1)))
        await asyncio.sleep(0)
    watched.serve("b", served(dsn, "b", poll_interval=timedelta(minutes=1)))
    await watched.reads("b")
    assert watched.probes.looks(dsn) == looks + 1


async def test_many_who_ask_for_a_probe_get_one(watched, engine):
    dsn = engine.database.dsn
    watched.serve("a", served(dsn, poll_interval=timedelta(minutes=1)))
    await watched.reads("a")
    looks, loop = watched.probes.looks(dsn), asyncio.get_running_loop()
    began = loop.time()
    while loop.time() - began < 5 * LEAST_GAP.total_seconds():
        watched.poller.probe_soon(("ns", "a"))
        await asyncio.sleep(0.005)
    assert 1 <= watched.probes.looks(dsn) - looks <= 7


async def test_an_outage_is_told_and_its_end_too(watched, engine, proxy):
    dsn = engine.database.dsn_through(proxy)
    watched.serve("a", served(dsn))
    await watched.reads("a")
    proxy.refuse()
    view = await watched.sees("a", lambda view: view.problem is not None)
    assert view.problem is Problem.CONNECTION_REFUSED
    assert view.schema_version is not None  # what was known is kept
    assert view.reachable_since is None
    await watched.reads("a", lambda found: isinstance(found, Unknown))
    failing = await watched.sees("a", lambda view: view.failures >= 2)
    assert failing.at > view.at
    proxy.forward()
    back = await watched.sees("a", lambda view: view.problem is None)
    assert back.failures == 0
    assert back.reachable_since == back.at
    await watched.reads("a")
    later = await watched.sees("a", lambda view: view.at > back.at)
    assert later.reachable_since == back.at


async def test_a_server_that_stops_answering_is_noticed_within_its_limits(watched, engine, proxy):
    dsn = engine.database.dsn_through(proxy)
    watched.serve("a", served(dsn))
    await watched.reads("a")
    proxy.black_hole()
    # Three for an answer, three for another session.
    limits = asyncio.create_task(slept(3, 3))
    view = await watched.sees("a", lambda view: view.problem is not None, 20 * SECOND)
    assert view.problem is Problem.TIMEOUT
    assert watched.probes.ends[dsn][-1] < await limits + 2
    proxy.forward()
    await watched.sees("a", lambda view: view.problem is None)


async def test_failing_looks_grow_rare_up_to_the_poll_interval(watched, engine, proxy):
    dsn = engine.database.dsn_through(proxy)
    proxy.refuse()
    watched.serve("a", served(dsn, poll_interval=2 * SECOND))
    await watched.sees("a", lambda view: view.failures >= 1)
    longest = asyncio.create_task(slept(1, 2, 2, 2, 2))  # by chance down to their halves
    await watched.sees("a", lambda view: view.failures >= 6, 30 * SECOND)
    ends = watched.probes.ends[dsn]
    assert ends[5] - ends[0] >= 4.5
    assert ends[5] < await longest + 1
    assert isinstance(watched.signals("a"), Unknown)


async def test_failed_looks_do_not_count_as_polls_that_were_not_due(watched, engine, proxy):
    dsn = engine.database.dsn_through(proxy)
    proxy.refuse()
    watched.serve("a", served(dsn, poll_interval=timedelta(minutes=1)))
    await watched.sees("a", lambda view: view.failures == 1)
    first = watched.poller.signals(("ns", "a"))
    await watched.sees("a", lambda view: view.failures == 2)
    assert watched.poller.signals(("ns", "a")) is first


async def test_a_queue_that_wants_no_signals_is_not_asked_for_any(watched, engine):
    watched.serve("a", served(engine.database.dsn, wants_signals=False))
    await watched.sees("a", lambda view: view.is_reachable)
    watched.serve("b", served(engine.database.dsn, "b"))
    await watched.reads("b")
    assert watched.signals("a") is None


async def test_a_session_that_would_be_idle_for_long_is_closed(watched, engine):
    database = engine.database
    watched.serve("a", served(database.dsn, poll_interval=timedelta(minutes=5)))
    await watched.reads("a")
    await eventually(lambda: watched.poller.sessions == 0)
    await eventually(lambda: sessions_of(database.server, database) == 0)
    watched.poller.probe_soon(("ns", "a"))
    await watched.looks_again(database.dsn)
    assert watched.view("a").problem is None


async def test_the_session_ends_with_the_last_queue(watched, engine):
    database = engine.database
    for name in "abc":
        watched.serve(name, served(database.dsn, name))
    await watched.reads("c")
    assert sessions_of(database.server, database) == 1
    for name in "ab":
        watched.serve(name, None)
    await watched.looks_again(database.dsn)
    assert sessions_of(database.server, database) == 1
    watched.serve("c", None)
    await eventually(lambda: sessions_of(database.server, database) == 0)
    assert watched.poller.sessions == 0


async def test_a_queue_that_moves_takes_its_session_along(
    watched, engine, make_database, migrated_template
):
    old, new = engine.database, make_database(migrated_template)
    watched.serve("a", served(old.dsn))
    await watched.reads("a")
    watched.serve("a", served(new.dsn))
    await eventually(lambda: sessions_of(new.server, new) == 1)
    await eventually(lambda: sessions_of(old.server, old) == 0)


async def test_another_connection_string_is_used_at_once(
    watched, engine, make_database, migrated_template
):
    old, new = engine.database, make_database(migrated_template)
    wanted = served(old.dsn, identity="one", poll_interval=timedelta(seconds=50))
    watched.serve("a", wanted)
    await watched.reads("a")
    watched.serve("a", replace(wanted, dsn=Dsn(new.dsn)))
    await eventually(lambda: sessions_of(new.server, new) == 1, 2 * SECOND)
    await eventually(lambda: sessions_of(old.server, old) == 0, 2 * SECOND)


async def test_a_wrong_monitor_secret_of_one_queue_disturbs_no_other(watched, engine):
    right, problem = engine.database.dsn, Problem.CONNECTION_REFUSED
    watched.serve("b", served(right, "b", identity="one"))
    watched.serve("c", served(right, "c", identity="one"))
    await watched.reads("c")
    before = await watched.sees("b", lambda view: view.is_reachable)
    wrong = "postgresql://app@127.0.0.1:1/app"
    watched.serve("a", served(wrong, "a", identity="one", monitor="wrong/url"))
    await watched.sees("a", lambda view: view.problem is problem and view.failures == 2)
    await watched.looks_again("one", 5)
    for name in "bc":
        view = watched.view(name)
        assert (view.problem, view.reachable_since) == (None, before.reachable_since)
    assert watched.poller.sessions == sessions_of(engine.database.server, engine.database) == 1


async def test_the_first_job_of_a_queue_without_workers_is_told_at_once(watched, engine):
    rarely = timedelta(seconds=50)
    watched.serve("a", served(engine.database.dsn, poll_interval=rarely, is_waiting=True))
    watched.serve("b", served(engine.database.dsn, "b", poll_interval=rarely))
    await watched.reads("a")
    producer = await engine.session()
    loop = asyncio.get_running_loop()
    began = loop.time()
    await engine.enqueue(producer, 1)
    await watched.reads("a", lambda found: found.ready == 1, SECOND)
    assert loop.time() - began < 1.0


async def test_notifications_end_with_the_work_that_they_told_of(watched, engine, connect):
    """Once the work is known nobody needs to be told of more, and once workers run neither."""
    dsn, rarely = engine.database.dsn, timedelta(seconds=50)
    locks = (
        "select count(*) from pg_locks where locktype = 'advisory' and mode = 'ShareLock'"
        " and database = (select oid from pg_database where datname = current_database())"
    )

    async def sleeping() -> int:
        return int(await engine.admin.fetchval(locks))

    watched.serve("a", served(dsn, poll_interval=rarely, is_waiting=True))
    await watched.reads("a")
    assert await sleeping() == 1
    await engine.enqueue(engine.admin, 1)
    await watched.reads("a", lambda found: found.ready == 1)
    watched.poller.probe_soon(("ns", "a"))
    await watched.looks_again(dsn)
    assert await sleeping() == 0
    await engine.drain()
    watched.poller.probe_soon(("ns", "a"))
    await watched.reads("a", lambda found: found == Signals())
    watched.poller.probe_soon(("ns", "a"))
    await watched.looks_again(dsn)
    assert await sleeping() == 1
    watched.serve("a", served(dsn, poll_interval=rarely))
    await watched.looks_again(dsn)
    assert await sleeping() == 0


async def test_a_notification_that_came_while_the_session_was_gone_is_made_up_for(
    watched, engine, proxy
):
    dsn = engine.database.dsn_through(proxy)
    watched.serve("a", served(dsn, poll_interval=timedelta(seconds=50), is_waiting=True))
    await watched.reads("a")
    proxy.refuse()  # which the session's end tells
    await watched.sees("a", lambda view: view.problem is not None)
    await engine.enqueue(engine.admin, 1)
    proxy.forward()
    await watched.reads("a", lambda found: found.ready == 1, timedelta(seconds=5))
