"""What handlers in pods say themselves of their runs, outside of the database."""

import asyncio
import math
import time
from collections.abc import Sequence
from dataclasses import dataclass

HANDLERS = """
import asyncio
import os
from dataclasses import dataclass

import awa

client = awa.AsyncClient()
POD = os.environ["AWA_POD_NAME"]


@dataclass
class Note:
    seconds: float
    mebibytes: int = 0


async def tell(word, job):
    host, _, port = os.environ["TALLY"].partition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    try:
        writer.write(f"{word} {job.id} {job.attempt} {POD} VERSION\\n".encode())
        await writer.drain()
        await reader.readline()
    finally:
        writer.close()


@client.task(Note, queue="mail")
async def note(job: awa.Job[Note]) -> None:
    await tell("began", job)
    if job.attempt == 1:
        large = b"-" * (job.args.mebibytes * 1024**2)
        del large
    await asyncio.sleep(job.args.seconds)
    job.set_output({"pod": POD, "attempt": job.attempt, "version": VERSION})
    await tell("ended", job)
"""


@dataclass(frozen=True, slots=True)
class Run:
    """One word of a handler: that it began, or that it is about to return. `at` is wall time."""

    word: str
    job: int
    attempt: int
    pod: str
    version: int
    at: float


@dataclass(frozen=True, slots=True)
class Lost:
    """A pod that was taken from its jobs, and the wall time of that."""

    pod: str
    at: float


def waits(runs: Sequence[Run], lost: Lost) -> list[float]:
    """Return for how long each job that a lost pod had in hand waited until it began again."""
    last = {run.job: run for run in runs if run.word == "began" and run.at <= lost.at}
    ended = {(run.job, run.attempt, run.pod) for run in runs if run.word == "ended"}
    hand = {
        job
        for job, run in last.items()
        if run.pod == lost.pod and (job, run.attempt, run.pod) not in ended
    }
    again: dict[int, float] = {}
    for run in runs:
        if run.job in hand and run.word == "began" and run.at > lost.at:
            again.setdefault(run.job, run.at - lost.at)
    return [again.get(job, math.inf) for job in hand]


class Tally:
    """Takes the words of handlers."""

    def __init__(self) -> None:
        self.runs: list[Run] = []
        self.ended: set[int] = set()
        self.address = ""
        self._server: asyncio.Server | None = None

    async def open(self, host: str) -> "Tally":
        """Listen at an address that pods reach."""
        self._server = await asyncio.start_server(self._take, host)
        self.address = f"{host}:{self._server.sockets[0].getsockname()[1]}"
        return self

    def in_hand(self, lost: Lost) -> bool:
        """Whether a job that a lost pod had in hand has not begun again."""
        return math.inf in waits(self.runs, lost)

    def close(self) -> None:
        """Listen no more."""
        if self._server is not None:
            self._server.close()

    async def _take(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            words = (await reader.readline()).decode().split()
            if len(words) == 5:
                word, job, attempt, pod, version = words
                run = Run(word, int(job), int(attempt), pod, int(version), time.time())
                self.runs.append(run)
                if word == "ended":
                    self.ended.add(run.job)
                writer.write(b"noted\n")
                await writer.drain()
        except ConnectionError:
            pass
        finally:
            writer.close()
