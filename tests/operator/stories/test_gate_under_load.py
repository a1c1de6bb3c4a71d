"""The gate under load: whatever a migration does, the old workers stay and finish jobs."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

import asyncpg
import pytest

import awa
from awa_migrations.schema_name import SchemaName
from cluster.databases import KubeDatabase
from support.holding import has_ended
from support.migrating import header
from support.operating import Site
from support.postgres import Connect
from support.stories import (
    LIMIT,
    WORKERS,
    Apply,
    MakeImage,
    evict,
    pods,
    template_image,
    until_migration_pod,
    until_ready,
    until_reason,
)
from support.waiting import eventually

pytestmark = pytest.mark.timeout(900)

IN_HAND = 5
MORE = 20
"""Jobs that have to end to show that the workers go on."""

HANDLERS = """
import asyncio
import os
from dataclasses import dataclass

import asyncpg

import awa

client = awa.AsyncClient()


@dataclass
class Note:
    number: int


@client.task(Note, queue="mail")
async def note(job: awa.Job[Note]) -> None:
    await asyncio.sleep(0.2)  # what takes time and no processor, so that pods can start beside it
    session = await asyncpg.connect(os.environ["AWA_DATABASE_URL"])
    try:
        await session.execute("insert into ran values ($1, $2)", job.id, VERSION)
    finally:
        await session.close()
    job.set_output({"version": VERSION})
"""

LATER = """
import shutil
import sys
from pathlib import Path

import awa_migrations
from awa_migrations.__main__ import main

folder = Path("/tmp/sql")
shutil.copytree(Path(awa_migrations.__path__[0]) / "sql", folder)
number = awa_migrations.packaged_catalog().latest + 1
(folder / f"{number:04d}_note.sql").write_text(sys.argv[1])
sys.exit(main(sys.argv[2:], catalog=lambda: awa_migrations.Catalog.read(folder)))
"""
"""The migrations of a later release: ours and one more file."""

FILE = f"{header()}alter table {{schema}}.ready_entries add column note text;\n"
"""It locks a table that every job is written to."""

IS_ASKED_FOR = """
    select exists (
        select from pg_locks
         where relation = 'awa.ready_entries'::regclass and mode = 'AccessExclusiveLock'
           and not granted
    )
"""

IS_APPLIED = """
    select exists (
        select from pg_attribute
         where attrelid = 'awa.ready_entries'::regclass and attname = 'note'
    )
"""


@dataclass
class Traffic:
    """Jobs that come in all the time, and what the handlers say themselves that they ran."""

    client: awa.AsyncClient
    session: asyncpg.Connection
    ids: list[int] = field(default_factory=list)
    is_over: bool = False
    alone: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def flow(self) -> None:
        """Enqueue until it is over, so that a few jobs are always in hand."""
        while not self.is_over:
            job = await self.client.insert({"number": len(self.ids)}, kind="note", queue="mail")
            self.ids.append(job.id)
            await eventually(self._is_room, LIMIT, what="workers go on")

    async def ran(self) -> list[tuple[int, int]]:
        """Return the job and the version of the handler, for each run."""
        async with self.alone:
            rows = await self.session.fetch("select job_id, version from ran")
        return [(row["job_id"], row["version"]) for row in rows]

    async def until_more(self, what: str) -> None:
        """Wait until some more have ended."""
        enough = await self._count() + MORE

        async def is_more() -> bool:
            return await self._count() >= enough

        await eventually(is_more, LIMIT, what=what)

    async def _is_room(self) -> bool:
        return len(self.ids) - await self._count() < IN_HAND

    async def _count(self) -> int:
        async with self.alone:
            found: int = await self.session.fetchval("select count(*) from ran")
        return found


@dataclass
class Workers:
    """Two pods of the first version, and traffic: what a migration must not disturb."""

    site: Site
    images: tuple[str, str]
    before: dict[str, str]
    traffic: Traffic
    flowing: asyncio.Task[None]

    async def go_on(self) -> None:
        """Prove that they are still the same, and work."""
        assert not self.flowing.done(), self.flowing.result()
        await self.traffic.until_more("the old workers go on")
        assert template_image(self.site) == self.images[0]
        assert pods(self.site) == self.before

    async def until_followed(self) -> None:
        """Wait until those of the second version work alone; each job has run once."""
        await until_ready(self.site, "mail")
        assert template_image(self.site) == self.images[1]
        assert set(pods(self.site)).isdisjoint(self.before)
        await until_gone(self.site, self.before)
        await self.traffic.until_more("the new workers work")
        self.traffic.is_over = True
        await self.flowing
        versions = await each_ran_once(self.traffic)
        assert versions[self.traffic.ids[0]] == 1
        assert versions[self.traffic.ids[-1]] == 2


@pytest.fixture
async def session(kube_database: KubeDatabase, connect: Connect) -> asyncpg.Connection:
    made = await connect(kube_database.dsn)
    await made.execute("create table ran (job_id bigint, version int)")
    return made


@pytest.fixture
async def client(kube_database: KubeDatabase) -> AsyncIterator[awa.AsyncClient]:
    async with awa.AsyncClient(kube_database.dsn) as made:
        yield made


@pytest.fixture
async def workers(
    site: Site,
    image: MakeImage,
    apply: Apply,
    session: asyncpg.Connection,
    client: awa.AsyncClient,
) -> Workers:
    """The workers, at it."""
    first, second = (image(version, HANDLERS, "gate") for version in (1, 2))
    await site.start().until_leads()
    apply(worker={"image": first}, replicas=2)
    await until_ready(site, "mail")
    traffic = Traffic(client, session)
    flowing = asyncio.create_task(traffic.flow())
    made = Workers(site, (first, second), pods(site), traffic, flowing)
    await made.go_on()
    return made


async def test_whatever_a_migration_does_the_old_workers_finish_jobs(
    site: Site, apply, workers, kube_database, connect
):
    second = workers.images[1]

    # It fails.
    fails = {"command": ["python", "-c", "raise SystemExit('no')"], "permanentExitCodes": [1]}
    apply(worker={"image": second}, replicas=2, migration=fails)
    await until_reason(site, "Stalled", "MigrationFailed")
    await workers.go_on()

    # It hangs, and is evicted meanwhile; then somebody loses patience.
    hangs = {"command": ["sh", "-c", "trap 'exit 75' TERM; sleep 3600 & wait"], "maxAttempts": 1}
    apply(worker={"image": second}, replicas=2, migration=hangs)
    pod = await until_migration_pod(site)
    evict(site, pod)
    await until_migration_pod(site, other_than=pod)
    await workers.go_on()
    apply(worker={"image": second}, replicas=2, migration={**hangs, "activeDeadlineSeconds": 30})
    await until_reason(site, "Stalled", "AttemptsExhausted")
    await workers.go_on()

    # Another migrator holds it off.
    holder = await connect(kube_database.dsn)
    await holder.execute(f"select pg_advisory_lock({SchemaName('second').lock_key})")
    up = ["python", "-m", "awa_migrations", "up", "--schema", "second"]
    held = {"command": [*up, "--other-migrator-timeout", "2"]}
    apply(worker={"image": second}, replicas=2, migration=held)
    await until_reason(site, "SchemaMigrated", "LockTimeout")
    await workers.go_on()

    # It succeeds: only now the new ones come.
    await holder.close()
    await workers.until_followed()


async def test_a_reader_in_the_way_of_a_migration_stops_no_worker_and_it_succeeds_when_he_is_gone(
    site: Site, apply, workers, kube_database, connect
):
    reader = await connect(kube_database.dsn, server_settings={"application_name": "night dump"})
    await reader.execute("begin; select from awa.ready_entries limit 1")
    command = ["python", "-c", LATER, FILE, "up", "--lock-timeout=1", "--lock-attempts=8"]
    apply(worker={"image": workers.images[1]}, replicas=2, migration={"command": command})
    await eventually(lambda: reader.fetchval(IS_ASKED_FOR), LIMIT, what="it asks for its lock")
    await workers.go_on()
    said = await until_reason(site, "SchemaMigrated", "LockTimeout")
    assert "ended with exit code 75" in said["message"]
    assert "night dump" in said["message"]
    await workers.go_on()
    assert await reader.fetchval(IS_APPLIED) is False

    await reader.execute("rollback")
    await workers.until_followed()
    assert await reader.fetchval(IS_APPLIED)


async def until_gone(site: Site, before: dict[str, str]) -> None:
    """Wait until none of these pods is left: those on their way out may still claim."""

    def are_gone() -> bool:
        found = site.list("pods", WORKERS)
        return all(one["metadata"]["uid"] not in before for one in found)

    await site.until(are_gone, LIMIT, "the old workers are gone")


async def each_ran_once(traffic: Traffic) -> dict[int, int]:
    """Wait for the end of all jobs; return the version of the handler that each ran in."""

    async def all_ended() -> bool:
        return {job for job, _ in await traffic.ran()} >= {*traffic.ids}

    await eventually(all_ended, LIMIT, what="all have run")
    assert Counter(job for job, _ in await traffic.ran()) == Counter(traffic.ids)
    versions = dict(await traffic.ran())
    for number in traffic.ids:
        job = await has_ended(traffic.client, number)
        assert job.output == {"version": versions[number]}
    return versions
