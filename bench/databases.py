"""Fresh databases for every run, cloned from one that a driver has set up once."""

import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import asyncpg

from bench.cluster import Cluster
from bench.contender import Contender, Facts, Run
from bench.meter import Connection
from bench.scenario import HOUR, MONTH

FIRST_FUTURE_JOB = 10_000_000
FUTURE_BATCH = 1_000
RUN_DATABASE = "bench_run"


@dataclass(slots=True)
class Databases:
    """Makes databases on one server. `folder` takes the scratch folders of the runs."""

    cluster: Cluster
    control: Connection
    folder: Path

    @asynccontextmanager
    async def fresh(self, contender: Contender, future_jobs: int = 0) -> AsyncIterator[Run]:
        """Give a run on a new database that is set up and holds `future_jobs`; drop it after."""
        template = await self._template(contender, future_jobs)
        await self._drop(RUN_DATABASE)
        await self.control.execute(
            f"create database {RUN_DATABASE} template {template} strategy file_copy"
        )
        await self.control.execute("checkpoint")
        run = self._run(contender, RUN_DATABASE)
        try:
            yield run
        finally:
            await self._drop(RUN_DATABASE)
            shutil.rmtree(run.folder)

    async def describe(self, contender: Contender) -> Facts:
        """Ask the contender's driver what there is to know about its queue."""
        run = self._run(contender, "postgres")
        try:
            return await run.facts()
        finally:
            shutil.rmtree(run.folder)

    async def _template(self, contender: Contender, future_jobs: int) -> str:
        name = f"bench_{contender.name}_{future_jobs}"
        if await self.control.fetchval("select 1 from pg_database where datname = $1", name):
            return name
        await self.control.execute(f"create database {name}")
        run = self._run(contender, name)
        await run.call("setup")
        if future_jobs:
            await run.call(
                "enqueue", "--start", str(FIRST_FUTURE_JOB), "--count", str(future_jobs),
                "--batch", str(FUTURE_BATCH),
                "--delay-min", str(HOUR), "--delay-max", str(MONTH),
            )  # fmt: skip
            await _vacuum(run.dsn)
        return name

    def _run(self, contender: Contender, database: str) -> Run:
        folder = self.folder / database
        folder.mkdir()
        return Run(contender, self.cluster.dsn(database), folder)

    async def _drop(self, name: str) -> None:
        await self.control.execute(f"drop database if exists {name} with (force)")


async def _vacuum(dsn: str) -> None:
    connection = await asyncpg.connect(dsn)
    try:
        await connection.execute("vacuum analyze")
    finally:
        await connection.close()
