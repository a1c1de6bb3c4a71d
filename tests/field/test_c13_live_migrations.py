"""C13: migrations run beside live producers and workers.

Kill -9 at every step (line 4) is in tests/migrations/test_interruption.py; a worker that meets a
schema above it (line 3) in tests/worker/process/test_configuration.py.
"""

import asyncio
import contextlib
import logging
import shutil
from collections import Counter
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path

import pytest

import awa_migrations
from awa_migrations import Catalog
from support.fleet.tasks import QUEUE, Task
from support.migrating import begin_command, end, header
from support.waiting import eventually

COUNT = 20
RECIPES = (
    "alter table {schema}.ready_entries add column note_%(n)s text;",
    "alter table {schema}.claim_batches add column note_%(n)s text;",
    "alter table {schema}.runtime_instances add column note_%(n)s text;",
    "alter table {schema}.receipt_completion_batches add column note_%(n)s text;",
    "create or replace function {schema}.current_slot() returns smallint language plpgsql stable\n"
    "as $$ begin return (select slot from {schema}.ring_rotations r order by r.generation desc"
    " limit 1); end $$; -- %(n)s",
    "alter table {schema}.deferred_jobs add column note_%(n)s text;",
    "create index done_entries_%(n)s on {schema}.done_entries (kind, job_id);",
)
"""What releases do to a schema in use, one busy table per file as the rules say."""


@pytest.fixture
def later_files(tmp_path: Path) -> Path:
    """The packaged files, and twenty more of a later release."""
    folder = tmp_path / "sql"
    shutil.copytree(Path(str(awa_migrations.__path__[0])) / "sql", folder)
    latest = awa_migrations.packaged_catalog().latest
    for at in range(COUNT):
        number = latest + 1 + at
        body = RECIPES[at % len(RECIPES)] % {"n": number}
        (folder / f"{number:04d}_step_{at}.sql").write_text(f"{header()}{body}\n")
    return folder


class Producer:
    """Enqueues without end and knows how long the slowest call took at the server."""

    def __init__(self, session, name: str) -> None:
        self.keys: list[str] = []
        self.slowest = timedelta()
        self.stopping = False
        self._session = session
        self._name = name

    async def run(self) -> None:
        """Enqueue one job after the other until told to stop."""
        while not self.stopping:
            key = f"{self._name}{len(self.keys)}"
            took: timedelta = await self._session.fetchval(
                "with made as materialized (select awa.enqueue_v1($1, 2::smallint, array['task'],"
                " array[jsonb_build_object('key', $2::text, 'does', 'ok')]) as ids)"
                " select clock_timestamp() - statement_timestamp() from made where ids is not null",
                QUEUE, key,
            )  # fmt: skip
            self.keys.append(key)
            self.slowest = max(self.slowest, took)
            await asyncio.sleep(0.005)

    async def goes_on(self, by: int) -> None:
        """Wait until it has enqueued some more jobs."""
        count = len(self.keys)
        await eventually(lambda: len(self.keys) >= count + by, what="a producer to go on")


@contextlib.asynccontextmanager
async def producing(database, connect) -> AsyncIterator[list[Producer]]:
    """Let three producers work while the block runs; what stops one ends the test."""
    made = [Producer(await connect(database.dsn), f"p{number}.") for number in range(3)]
    tasks = [asyncio.create_task(producer.run()) for producer in made]
    yield made
    for producer in made:
        producer.stopping = True
    await asyncio.gather(*tasks)


async def test_a_reader_in_the_way_ends_the_migration_and_producers_wait_for_its_limit_at_most(
    database, connect, fleet, later_files
):
    limit = timedelta(seconds=1)
    reader = await connect(database.dsn, server_settings={"application_name": "night dump"})
    await fleet.embedded("w")
    async with producing(database, connect) as producers:
        await eventually(lambda: len(fleet.completions()) > 20)
        await reader.execute("begin; select from awa.ready_entries limit 1")
        ended = await end(
            await begin_command(
                "up", "--json", f"--lock-timeout={limit.total_seconds():g}", "--lock-attempts=3",
                folder=later_files, AWA_DATABASE_URL=database.dsn,
            )
        )  # fmt: skip
        assert ended.code == 75
        assert ended.line["error"] == "LockTimeout"
        assert f"pid {reader.get_server_pid()} (application 'night dump'" in ended.line["message"]
        for producer in producers:
            await producer.goes_on(5)
    slowest = max(producer.slowest for producer in producers)
    assert limit / 2 < slowest < limit + timedelta(seconds=1)
    await reader.execute("rollback")
    await fleet.quiet(seconds=40)
    assert fleet.completions() == Counter(key for producer in producers for key in producer.keys)


@pytest.mark.slow
async def test_twenty_migrations_under_load_cost_no_job_no_error_and_no_deadlock(
    database, connect, fleet, later_files, caplog
):
    caplog.set_level(logging.WARNING, "awa")
    observer = await connect(database.dsn)
    deadlocks = "select deadlocks from pg_stat_database where datname = current_database()"
    before = await observer.fetchval(deadlocks)
    await fleet.embedded("w1", max_workers=40)
    await fleet.embedded("w2", max_workers=40)
    async with producing(database, connect) as producers:
        await eventually(lambda: len(fleet.completions()) > 20)
        for number in range(1, COUNT + 1):
            to = awa_migrations.packaged_catalog().latest + number
            report = await awa_migrations.migrate(
                database.dsn, catalog=Catalog.read(later_files), to=to
            )
            assert report.applied == (to,)
            # Everybody meets each step: with plans and types from before it.
            count = len(fleet.completions())
            await eventually(lambda count=count: len(fleet.completions()) > count + 5)
            await fleet.client.insert(Task(f"o{number}", "fail_at_gate"), queue=QUEUE)
    fleet.open_gate()
    await fleet.quiet(seconds=60)
    keys = [key for producer in producers for key in producer.keys]
    assert fleet.completions() == Counter([*keys, *(f"o{n}" for n in range(1, COUNT + 1))])
    assert fleet.ends("stale") == []
    started = fleet.keys_started()
    assert {started[key] for key in keys} == {1}
    assert await observer.fetchval(deadlocks) == before
    assert f"{database.name} ERROR:  deadlock" not in database.server.log
    assert "cached plan" not in database.server.log
    assert [r.getMessage() for r in caplog.records if r.levelno >= logging.ERROR] == []
