"""Running a soak: start everything, break everything, wait until it is quiet, judge."""

import asyncio
import json
import math
import os
import random
import signal
import sys
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import asyncpg

from awa_migrations import migrate
from support.postgres import DURABLE_SETTINGS, Server
from support.soak.verdict import judge

QUIET_LIMIT_SECONDS = 120.0
"""For so long nothing may end at the end, once nobody produces and nothing is broken any more."""


@dataclass(frozen=True)
class Plan:
    """What to run. `jobs` ends production early, whichever comes first."""

    seed: int
    seconds: float
    jobs: int = 10**9
    workers: int = 3
    producers: int = 2
    fault_every: float = 2.0


class Soak:
    """One soak on one server of its own."""

    def __init__(self, plan: Plan, folder: Path, binaries: Path) -> None:
        self.plan = plan
        self.folder = folder
        self.chance = random.Random(plan.seed)  # noqa: S311 - chance, not secrets
        self.server = Server(folder / "server", binaries, DURABLE_SETTINGS)
        self.faults: Counter[str] = Counter()
        self.timeline: list[str] = []
        self.worst_updates = 0
        self._workers: list[asyncio.subprocess.Process] = []
        self._producers: list[asyncio.subprocess.Process] = []
        self._begun = time.monotonic()
        self._dsn = ""

    async def run(self) -> dict[str, Any]:
        """Run it and return the verdict: `broken` is empty when every promise was kept."""
        await asyncio.to_thread(self.server.create)
        await asyncio.to_thread(self.server.start)
        try:
            self._dsn = self.server.create_database().dsn
            await migrate(self._dsn)
            await self._work()
            broken, figures = await judge(self._dsn, self.folder)
            if self.worst_updates:
                broken.append(f"{self.worst_updates} updates or deletes of partitioned tables")
            return {"broken": broken, "faults": dict(self.faults), "seed": self.plan.seed,
                    **figures, "timeline": self.timeline if broken else []}  # fmt: skip
        finally:
            for process in (*self._producers, *self._workers):
                with suppress(ProcessLookupError):
                    process.kill()
                await process.wait()
            await asyncio.to_thread(self.server.destroy)

    async def _work(self) -> None:
        for _ in range(self.plan.workers):
            self._workers.append(await self._worker())
        for number in range(self.plan.producers):
            self._producers.append(
                await self._python(
                    "produce", f"p{number}", self.plan.seed * 100 + number,
                    self.plan.jobs // self.plan.producers,
                )
            )  # fmt: skip
        end = self._begun + self.plan.seconds
        while time.monotonic() < end and any(p.returncode is None for p in self._producers):
            await asyncio.sleep(self.chance.random() * 2 * self.plan.fault_every)
            await self._fault()
        for process in self._producers:
            await self._end(process)
        await self._until_quiet()
        for process in self._workers:
            await self._end(process)
        await self._look_at_updates()

    async def _worker(self) -> asyncio.subprocess.Process:
        return await self._python("work", self.plan.seconds)

    async def _python(self, module: str, *arguments: object) -> asyncio.subprocess.Process:
        with (self.folder / f"{module}.log").open("ab") as log:
            return await asyncio.create_subprocess_exec(
                sys.executable, "-m", f"support.soak.{module}", self._dsn, str(self.folder),
                *map(str, arguments), stdout=log, stderr=log,
                env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])},
            )  # fmt: skip

    async def _fault(self) -> None:
        faults: list[tuple[Callable[[], Awaitable[None]], int]] = [
            (self.kill_worker, 5), (self.suspend_worker, 2), (self.kill_server, 2),
            (self.pin_snapshot, 2), (self.restart_worker, 2),
        ]  # fmt: skip
        fault = self.chance.choices([f for f, _ in faults], [weight for _, weight in faults])[0]
        self.faults[fault.__name__] += 1
        self.timeline.append(f"{time.monotonic() - self._begun:.1f}s {fault.__name__}")
        await fault()
        for number, process in enumerate(self._workers):
            if process.returncode is not None:
                self._workers[number] = await self._worker()

    async def kill_worker(self) -> None:
        """A worker is gone from one instruction to the next."""
        process = self.chance.choice(self._workers)
        with suppress(ProcessLookupError):
            process.kill()
        await process.wait()

    async def restart_worker(self) -> None:
        """A worker is replaced as a deploy does it."""
        await self._end(self.chance.choice(self._workers))

    async def suspend_worker(self) -> None:
        """A worker stands still until it has been declared dead, then goes on."""
        process = self.chance.choice(self._workers)
        with suppress(ProcessLookupError):
            process.send_signal(signal.SIGSTOP)
            await asyncio.sleep(2.5)
            process.send_signal(signal.SIGCONT)

    async def kill_server(self) -> None:
        """The server is gone from one instruction to the next, and comes back."""
        await self._look_at_updates()
        await asyncio.to_thread(self.server.kill)
        await asyncio.to_thread(self.server.start)

    async def pin_snapshot(self) -> None:
        """Somebody holds an old snapshot open for a while."""
        with suppress(asyncpg.PostgresError, OSError, asyncpg.InterfaceError):
            session = await asyncpg.connect(self._dsn)
            async with session.transaction(isolation="repeatable_read"):
                await session.fetchval("select count(*) from pg_class")
                await asyncio.sleep(2)
            await session.close()

    async def _end(self, process: asyncio.subprocess.Process) -> None:
        with suppress(ProcessLookupError):
            process.terminate()
        try:
            async with asyncio.timeout(30):
                await process.wait()
        except TimeoutError:
            self.faults["did_not_stop"] += 1
            process.kill()
            await process.wait()

    async def _until_quiet(self) -> None:
        least = math.inf
        limit = time.monotonic() + QUIET_LIMIT_SECONDS
        session = await asyncpg.connect(self._dsn)
        try:
            while time.monotonic() < limit:
                for number, process in enumerate(self._workers):
                    if process.returncode is not None:
                        self._workers[number] = await self._worker()
                left = await session.fetchval(
                    "select sum(scheduled + available + running + retryable)"
                    " from awa.queue_counts_v1()"
                )
                if not left:
                    return
                if left < least:
                    least, limit = left, time.monotonic() + QUIET_LIMIT_SECONDS
                await asyncio.sleep(0.3)
        finally:
            await session.close()

    async def _look_at_updates(self) -> None:
        session = await asyncpg.connect(self._dsn)
        try:
            await session.execute("select pg_stat_force_next_flush()")
            found = await session.fetchval(
                "select coalesce(sum(n_tup_upd + n_tup_del), 0) from pg_stat_user_tables s"
                " join pg_class c on c.oid = s.relid where c.relispartition"
            )
            self.worst_updates = max(self.worst_updates, int(found))
        finally:
            await session.close()


async def soak(plan: Plan, folder: Path, binaries: Path) -> dict[str, Any]:
    """Run a soak; the folder keeps journals and logs."""
    await asyncio.to_thread(folder.chmod, 0o755)
    verdict = await Soak(plan, folder, binaries).run()
    await asyncio.to_thread((folder / "verdict.json").write_text, json.dumps(verdict, indent=1))
    return verdict
