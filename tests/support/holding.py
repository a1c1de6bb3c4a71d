"""Jobs in pods that end when a test lets them, and where they ran by their own account."""

from dataclasses import dataclass
from typing import Any

import asyncpg

import awa
from support.stories import LIMIT
from support.waiting import eventually

WAIT = """
import os

import asyncpg


async def wait(key, *, said=None):
    session = await asyncpg.connect(os.environ["AWA_DATABASE_URL"])
    try:
        if said is not None:
            pod = os.environ["AWA_POD_NAME"]
            await session.execute("insert into ran (job_id, pod) values ($1, $2)", said, pod)
        await session.execute("select pg_advisory_lock_shared($1)", key)
    finally:
        await session.close()
"""

HOLD = f"""{WAIT}
from dataclasses import dataclass

import awa

client = awa.AsyncClient()


@dataclass
class Hold:
    key: int


@client.task(Hold, queue="mail")
async def hold(job: awa.Job[Hold]) -> None:
    await wait(job.args.key, said=job.id)
    job.set_output({{"pod": os.environ["AWA_POD_NAME"]}})
"""
"""A job of it notes where it runs, and ends when nobody holds the lock of its key any more."""


@dataclass
class Hold:
    key: int


class Gates:
    """The advisory locks for which handlers wait, held by a session of the test."""

    def __init__(self, session: asyncpg.Connection) -> None:
        self.session = session

    async def make(self) -> "Gates":
        """Make the table of runs; return these."""
        await self.session.execute(
            "create table ran (job_id bigint, pod text, at timestamptz default clock_timestamp())"
        )
        return self

    async def shut(self, *keys: int) -> None:
        """Hold up whoever waits for these."""
        for key in keys:
            await self.session.execute("select pg_advisory_lock($1)", key)

    async def open(self, *keys: int) -> None:
        """Let those go on that wait for these."""
        for key in keys:
            await self.session.execute("select pg_advisory_unlock($1)", key)

    async def runs(self) -> list[tuple[int, str]]:
        """Return the job and the pod of every run that has begun."""
        rows = await self.session.fetch("select job_id, pod from ran order by at")
        return [(row["job_id"], row["pod"]) for row in rows]

    async def until_runs(self, count: int) -> list[tuple[int, str]]:
        """Wait until so many runs have begun."""

        async def begun() -> list[tuple[int, str]]:
            found = await self.runs()
            return found if len(found) >= count else []

        return await eventually(begun, LIMIT, what=f"{count} runs have begun")


async def has_ended(client: awa.AsyncClient, job: int, attempt: int = 1) -> awa.Job[Any]:
    """Wait for the end of a job; return it."""

    async def ended() -> awa.Job[Any] | None:
        found = await client.get_job(job)
        return found if found.state.is_terminal else None

    found = await eventually(ended, LIMIT, what="the job has ended")
    assert (found.state, found.attempt) == (awa.JobState.Completed, attempt), found
    return found
