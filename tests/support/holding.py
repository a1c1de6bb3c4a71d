"""Handlers in pods that call the test, outside of the database, and go on when it lets them."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import asyncpg

import awa
from support.stories import LIMIT
from support.waiting import eventually

CALL = """
import asyncio
import os


async def call(job=0):
    host, _, port = os.environ["SWITCHBOARD"].partition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    writer.write(f"{job} {os.environ['AWA_POD_NAME']}\\n".encode())
    await writer.drain()
    await reader.readline()
    writer.close()
"""

HOLD = f"""{CALL}
import socket
from dataclasses import dataclass

import awa

client = awa.AsyncClient()


@dataclass
class Hold:
    pass


@dataclass
class Deaf:
    pass


@dataclass
class Stuck:
    pass


@client.task(Hold, queue="mail")
async def hold(job: awa.Job[Hold]) -> None:
    await call(job.id)
    job.set_output({{"pod": os.environ["AWA_POD_NAME"]}})


@client.task(Deaf, queue="mail")
async def deaf(job: awa.Job[Deaf]) -> None:
    calling = asyncio.ensure_future(call(job.id))
    while not calling.done():
        try:
            await asyncio.shield(calling)
        except asyncio.CancelledError:
            pass


@client.task(Stuck, queue="mail")
def stuck(job: awa.Job[Stuck]) -> None:
    host, _, port = os.environ["SWITCHBOARD"].partition(":")
    with socket.create_connection((host, int(port))) as line:
        line.sendall(f"{{job.id}} {{os.environ['AWA_POD_NAME']}}\\n".encode())
        line.recv(1)
"""
"""Kinds `hold`, `deaf` and `stuck`: jobs that call and end when they are let go: as others do, one
that cannot be cancelled, and one that holds a thread."""


@dataclass(slots=True)
class Call:
    """A run of a handler: its job and its pod, and when it called and was gone (monotonic)."""

    job: int
    pod: str
    began: float
    writer: asyncio.StreamWriter
    ended: float | None = None

    def release(self) -> None:
        """Let the handler go on."""
        self.writer.write(b"go\n")


class Switchboard:
    """Where handlers call."""

    def __init__(self) -> None:
        self.calls: list[Call] = []
        self.address = ""

    @property
    def environment(self) -> list[dict[str, str]]:
        """The variables of a worker that make it call here."""
        return [{"name": "SWITCHBOARD", "value": self.address}]

    async def until(self, count: int) -> list[Call]:
        """Wait until there were so many calls; return all."""

        def called() -> bool:
            return len(self.calls) >= count

        await eventually(called, LIMIT, what=f"{count} handlers have called")
        return list(self.calls)

    async def until_gone(self, *calls: Call) -> None:
        """Wait until these handlers, or their processes, have ended."""

        def gone() -> bool:
            return all(call.ended is not None for call in calls)

        await eventually(gone, LIMIT, what="the handlers have ended")

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve a call until the other side is gone."""
        job, _, pod = (await reader.readline()).decode().strip().partition(" ")
        call = Call(int(job), pod, time.monotonic(), writer)
        self.calls.append(call)
        try:
            await reader.read()
        except ConnectionError:
            pass
        finally:
            call.ended = time.monotonic()
            writer.close()


@asynccontextmanager
async def switchboard(host: str) -> AsyncIterator[Switchboard]:
    """Have a switchboard at an address of this machine."""
    made = Switchboard()
    server = await asyncio.start_server(made.answer, host)
    port = server.sockets[0].getsockname()[1]
    made.address = f"{host}:{port}"
    try:
        yield made
    finally:
        server.close()
        for call in made.calls:
            call.writer.close()


async def has_ended(client: awa.AsyncClient, job: int, attempt: int = 1) -> awa.Job[Any]:
    """Wait for the end of a job; return it."""

    async def is_over() -> bool:
        return (await client.get_job(job)).state.is_terminal

    await eventually(is_over, LIMIT, what="the job has ended")
    found = await client.get_job(job)
    assert (found.state, found.attempt) == (awa.JobState.Completed, attempt), found
    return found


async def until_started_is_known(session: asyncpg.Connection) -> None:
    """Wait for the heartbeat that names a started job: lost, it counts as an attempt from then on.

    What no heartbeat has named goes back as if it had not been claimed.
    """
    named = "select exists (select from awa.runtime_instances where started_claims <> '{}')"
    await eventually(lambda: session.fetchval(named), LIMIT, what="the start is known")
