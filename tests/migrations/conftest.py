"""Fixtures for the migrator: files, catalogs, commands, and somebody who is in the way."""

from asyncio.subprocess import Process
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import asyncpg
import psycopg
import pytest

from awa_migrations import Catalog, SchemaName
from support.migrating import (
    THREE_STEPS,
    Begin,
    Ended,
    Hold,
    Leftovers,
    MakeCatalog,
    Run,
    Waiting,
    WriteFiles,
    begin_command,
    end,
    header,
)
from support.postgres import Connect, Database
from support.waiting import eventually


@pytest.fixture
def write_files(tmp_path: Path) -> WriteFiles:
    """Write migration files with a proper header; `write_files(THREE_STEPS, folder="two")`."""

    def write(
        bodies: dict[str, str] = THREE_STEPS, *, folder: str = "sql", kind: str = "expand"
    ) -> Path:
        path = tmp_path / folder
        path.mkdir(exist_ok=True)
        for name, body in bodies.items():
            (path / f"{name}.sql").write_text(header(kind) + body + "\n")
        return path

    return write


@pytest.fixture
def make_catalog(write_files: WriteFiles) -> MakeCatalog:
    """A catalog of such files."""

    def make(bodies: dict[str, str] = THREE_STEPS, **how: str) -> Catalog:
        return Catalog.read(write_files(bodies, **how))

    return make


@pytest.fixture
async def begin() -> AsyncIterator[Begin]:
    """Start the command line in a process of its own; killed after the test if it still runs."""
    begun: list[Process] = []

    async def start(*arguments: str, folder: Path | None = None, **environment: str) -> Process:
        begun.append(await begin_command(*arguments, folder=folder, **environment))
        return begun[-1]

    yield start
    for process in begun:
        if process.returncode is None:
            process.kill()
            await process.communicate()


@pytest.fixture
def run(begin: Begin) -> Run:
    """Run the command line to its end: `await run("up", "--json", folder=folder)`."""

    async def run(*arguments: str, folder: Path | None = None, **environment: str) -> Ended:
        return await end(await begin(*arguments, folder=folder, **environment))

    return run


@pytest.fixture
def hold(connect: Connect, empty_database: Database) -> Hold:
    """Run a statement in a transaction that stays open, in a session named `night dump`."""

    async def begin_holding(statement: str) -> asyncpg.Connection:
        holder = await connect(
            empty_database.dsn, server_settings={"application_name": "night dump"}
        )
        await holder.execute("begin")
        await holder.execute(statement)
        return holder

    return begin_holding


@pytest.fixture
async def waiting(connect: Connect, empty_database: Database) -> Waiting:
    """Return the pid of the migrator once it waits for a lock (of the named relation)."""
    watcher = await connect(empty_database.dsn)

    async def find(relation: str | None = None) -> int:
        return await eventually(
            lambda: watcher.fetchval(
                """
                select l.pid
                from pg_locks l join pg_stat_activity a using (pid)
                where not l.granted and a.application_name = 'awa_migrations'
                and a.datname = current_database()
                and ($1::text is null or l.relation = to_regclass($1))
                """,
                relation,
            ),
            what=f"the migrator waits for {relation or 'a lock'}",
        )

    return find


@pytest.fixture
async def leftovers(connect: Connect, empty_database: Database) -> Leftovers:
    """Wait until no session of a migrator is left, and return the advisory locks still held."""
    watcher = await connect(empty_database.dsn)

    async def look() -> list[asyncpg.Record]:
        gone = """
            select not exists (
                select from pg_stat_activity
                where datname = current_database() and application_name = 'awa_migrations')
        """
        await eventually(lambda: watcher.fetchval(gone), what="the migrator's sessions end")
        return await watcher.fetch(
            """
            select l.* from pg_locks l join pg_database d on d.oid = l.database
            where l.locktype = 'advisory' and d.datname = current_database()
            """
        )

    return look


@pytest.fixture
def lock_key() -> int:
    """The advisory lock of migrators of schema `awa`."""
    return SchemaName("awa").lock_key


@pytest.fixture
def role(empty_database: Database) -> Iterator[str]:
    """A role without any right beyond what everybody has."""
    name = f"app_{empty_database.name}"
    with empty_database.server.admin() as admin:
        admin.execute(f"create role {name} login")
    yield name
    with psycopg.connect(empty_database.dsn, autocommit=True) as session:
        session.execute(f"drop owned by {name} cascade")
        session.execute(f"drop role {name}")
