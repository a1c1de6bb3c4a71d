"""The workers of one test."""

import asyncio
import json
import os
import signal
import sys
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import asyncpg

import awa
from support.fleet.tasks import Handlers, quick
from support.soak.journal import clock_offset, read_journals
from support.waiting import eventually

TESTS = Path(__file__).parents[2]


@dataclass(frozen=True)
class Run:
    """One run of a handler. `ended_ns` is None while it runs, or when it was killed."""

    key: str
    worker: str
    attempt: int
    started_ns: int
    ended_ns: int | None


class WorkerProcess:
    """One worker in a process of its own."""

    def __init__(self, process: asyncio.subprocess.Process, name: str) -> None:
        self._process = process
        self.name = name
        self.pid = process.pid

    def freeze(self) -> None:
        """Suspend it from one instruction to the next."""
        os.kill(self.pid, signal.SIGSTOP)

    def thaw(self) -> None:
        """Let it go on."""
        os.kill(self.pid, signal.SIGCONT)

    async def kill(self) -> None:
        """Kill -9."""
        with suppress(ProcessLookupError):
            self._process.kill()
        await self._process.wait()

    async def stop(self) -> int:
        """Ask it to end and return its exit code."""
        with suppress(ProcessLookupError):
            self._process.terminate()
        async with asyncio.timeout(20):
            return await self._process.wait()


class Fleet:
    """Starts workers and knows what they ran."""

    def __init__(self, dsn: str, folder: Path) -> None:
        self.dsn = dsn
        self.folder = folder
        self.client = awa.AsyncClient(dsn, 4)
        self._clients: list[awa.AsyncClient] = []
        self._processes: list[WorkerProcess] = []

    async def process(
        self, name: str, environ: Mapping[str, str] | None = None, **knobs: Any
    ) -> WorkerProcess:
        """Start a worker process; `knobs` are those of `quick`, durations as `…_ms`."""
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "support.fleet.program", self.dsn, str(self.folder), name,
            json.dumps(knobs),
            env={**os.environ, "PYTHONPATH": str(TESTS), **(environ or {})},
        )  # fmt: skip
        self._processes.append(WorkerProcess(process, name))
        return self._processes[-1]

    async def embedded(
        self, name: str, dsn: str | None = None, kind: str | None = None, **knobs: Any
    ) -> awa.AsyncClient:
        """Start a worker in this process, through `dsn` if given; see `Handlers.register`."""
        client = awa.AsyncClient(dsn or self.dsn, 6)
        self._clients.append(client)
        handlers = Handlers(self.folder, name)
        handlers.register(client, kind)
        await client.start(settings=quick(**knobs), name=name)
        assert client.worker is not None
        handlers.watch(client.worker)
        return client

    def open_gate(self) -> None:
        """Let the jobs that wait at the gate go on."""
        (self.folder / "gate").touch()

    def runs(self) -> list[Run]:
        """Return every run so far, in the order of their starts."""
        ends = {tuple(line[1:4]): int(line[4]) for line in self._lines() if line[0] == "ended"}
        runs = [
            Run(line[1], line[2], int(line[3]), int(line[4]), ends.get(tuple(line[1:4])))
            for line in self._lines()
            if line[0] == "started"
        ]
        return sorted(runs, key=lambda run: run.started_ns)

    def _lines(self) -> list[list[str]]:
        return [line for line in read_journals(self.folder, "runs") if len(line) == 5]

    def clock_errors(self) -> dict[tuple[str, str], timedelta]:
        """Return by how much the clock was ahead of this process's, by key and worker."""
        found = (line for line in read_journals(self.folder, "clocks") if len(line) == 3)
        return {
            (key, worker): timedelta(seconds=float(offset) - clock_offset())
            for key, worker, offset in found
        }

    def keys_started(self) -> Counter[str]:
        """Return how often each job was started."""
        return Counter(run.key for run in self.runs())

    def ends(self, word: str = "accepted") -> list[tuple[str, str, str]]:
        """Return key, worker and outcome of the ends that were `accepted` or `stale`."""
        found = (line for line in read_journals(self.folder, "ends") if len(line) == 4)
        return [(line[1], line[2], line[3]) for line in found if line[0] == word]

    def completions(self) -> Counter[str]:
        """Return how often a completion of each job was accepted."""
        return Counter(key for key, _, outcome in self.ends() if outcome == "Completed")

    async def started(self, *keys: str, seconds: float = 20) -> None:
        """Wait until jobs have been started."""
        wanted = set(keys)
        await eventually(
            lambda: wanted <= set(self.keys_started()),
            timedelta(seconds=seconds),
            what=f"{len(wanted)} jobs to start",
        )

    async def known_started(self, *keys: str) -> None:
        """Wait until jobs have been started and the database knows it from a heartbeat."""
        await self.started(*keys)
        session = await asyncpg.connect(self.dsn)

        async def known() -> bool:
            found: bool = await session.fetchval(
                "select coalesce(sum(cardinality(started_claims)), 0) >= $1"
                " from awa.runtime_instances where dead_at is null", len(keys),
            )  # fmt: skip
            return found

        try:
            await eventually(known, timedelta(seconds=20))
        finally:
            await session.close()

    async def counts(self) -> Any:
        """Return the counts of the queue; all zero when it is not known yet."""
        (found,) = await self.client.queue_counts("q")
        return found

    async def quiet(self, seconds: float = 20) -> None:
        """Wait until nothing waits and nothing runs."""

        async def nothing() -> bool:
            counts = await self.counts()
            return not (counts.scheduled + counts.available + counts.running + counts.retryable)

        await eventually(nothing, timedelta(seconds=seconds), what="an empty queue")

    async def close(self) -> None:
        """End every worker, whatever state it is in."""
        for process in self._processes:
            with suppress(ProcessLookupError):
                process.thaw()
            await process.kill()
        self.open_gate()
        for client in (*self._clients, self.client):
            await client.shutdown(timeout_ms=0)
            await client.close()
