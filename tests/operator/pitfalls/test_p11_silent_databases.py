"""P11: fifty databases that take connections and never answer disturb no other."""

import asyncio
import statistics
from datetime import timedelta

import pytest

from awa.scaling import Signals
from awa_operator.observed import DatabaseProblem
from support.watched import served, watching

SILENT = 50


@pytest.fixture
async def silence():
    """The addresses of servers that accept connections and say nothing."""
    taken = []

    async def answer(reader, writer):
        taken.append(writer)
        await reader.read()

    servers = [await asyncio.start_server(answer, "127.0.0.1", 0) for _ in range(SILENT)]
    ports = [server.sockets[0].getsockname()[1] for server in servers]
    yield [f"postgresql://app@127.0.0.1:{port}/app?sslmode=disable" for port in ports]
    for writer in taken:
        writer.close()
    for server in servers:
        server.close()


async def looks_of(watched, healthy, rounds):
    """Return how long each look at the healthy databases took."""
    before = {dsn: watched.probes.looks(dsn) for dsn in healthy}
    for dsn in healthy:
        await watched.looks_again(dsn, rounds)
    return [seconds for dsn in healthy for seconds in watched.probes.seconds[dsn][before[dsn] :]]


async def test_healthy_databases_are_looked_at_as_before(make_database, migrated_template, silence):
    healthy = [make_database(migrated_template).dsn for _ in range(3)]
    async with watching() as watched:
        for number, dsn in enumerate(healthy):
            watched.serve(f"good{number}", served(dsn))
            await watched.reads(f"good{number}")
        alone = await looks_of(watched, healthy, 10)
        for number, dsn in enumerate(silence):
            watched.serve(f"bad{number}", served(dsn))
        beside = await looks_of(watched, healthy, 10)
        late = timedelta(seconds=10)
        for number in range(SILENT):
            view = await watched.sees(f"bad{number}", lambda view: view.failures > 0, late)
            assert view.problem is DatabaseProblem.TIMEOUT
        beside += await looks_of(watched, healthy, 10)
        # A database that comes while all of them fail waits for none of them either.
        loop, dsn = asyncio.get_running_loop(), make_database(migrated_template).dsn
        began = loop.time()
        watched.serve("late", served(dsn))
        assert await watched.reads("late") == Signals()
        assert loop.time() - began < 1.5
    assert statistics.median(beside) < 2 * statistics.median(alone) + 0.02
    assert max(beside) < 1.0
