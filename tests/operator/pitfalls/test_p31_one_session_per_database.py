"""P31: one session for each database, however many Queues there are and whatever happens."""

import random
from datetime import timedelta

import pytest

import awa_migrations
from awa.scaling import Signals
from support.sizes import sized
from support.waiting import eventually
from support.watched import served, sessions_of, watching

QUEUES, DATABASES = 1000, 3
RESTARTS = sized(10, 100)
LONG = timedelta(seconds=30)
HIGH_WATER = (
    "select coalesce(max(n), 0) from (select count(*) as n from pg_stat_activity"
    " where application_name = 'awa operator' group by datname) s"
)


@pytest.fixture
def server(make_server):
    return make_server(fsync="off")


@pytest.fixture
async def dsns(server):
    """The addresses of three databases on one server, where nobody else opens sessions."""
    found = [server.create_database().dsn for _ in range(DATABASES)]
    for dsn in found:
        await awa_migrations.migrate(dsn, schema="awa")
    return found


async def test_a_thousand_queues_on_three_databases_take_three_sessions(server, dsns):
    async with watching() as watched:
        for number in range(QUEUES):
            watched.serve(f"q{number}", served(dsns[number % DATABASES], f"q{number}"))
        for number in range(QUEUES):
            assert await watched.reads(f"q{number}", limit=LONG) == Signals()
        assert sessions_of(server) == watched.poller.sessions == DATABASES
        for dsn in dsns:
            await watched.looks_again(dsn, 3)
        assert sessions_of(server) == DATABASES
        for number in range(QUEUES):
            watched.serve(f"q{number}", None)
        await eventually(lambda: sessions_of(server) == 0)


@pytest.mark.timeout(sized(300, 1500))
async def test_churn_and_restarts_of_the_server_leave_no_session_behind(server, dsns):
    chance = random.Random(31)  # noqa: S311 - no secret
    async with watching() as watched:
        for _ in range(RESTARTS):
            for name in chance.sample(range(60), 40):
                dsn = chance.choice([*dsns, None])
                watched.serve(f"q{name}", None if dsn is None else served(dsn, f"q{name}"))
            server.restart()
            for dsn in dsns:
                watched.serve(f"stays {dsn}", served(dsn, "stays"))
            for dsn in dsns:
                await watched.reads(f"stays {dsn}", limit=LONG)
                await watched.looks_again(dsn)
            await eventually(lambda: sessions_of(server) == DATABASES)
            with server.admin() as admin:
                assert admin.execute(HIGH_WATER).fetchone()[0] == 1
