"""Worker processes of one run, and what their handlers report."""

import asyncio
import os
import struct
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from bench.contender import Run

PREPARE_LIMIT_SECONDS = 60.0
STOP_LIMIT_SECONDS = 40.0

# Written by every worker process: jobs handled, first and last handler start (seconds).
PROGRESS = struct.Struct("<Qdd")


@dataclass(frozen=True, slots=True)
class Progress:
    """What all handlers of a run have done: how many, when the first and the last started."""

    handled: int
    first_start: float
    last_start: float

    @classmethod
    def read(cls, folder: Path) -> "Progress":
        parts = [part for part in map(_parse, folder.glob("progress.*")) if part and part[0]]
        if not parts:
            return cls(0, 0.0, 0.0)
        counts, firsts, lasts = zip(*parts, strict=True)
        return cls(sum(counts), min(firsts), max(lasts))


def _parse(path: Path) -> tuple[int, float, float] | None:
    content = path.read_bytes()
    if len(content) != PROGRESS.size:
        return None
    handled, first, last = PROGRESS.unpack(content)
    return handled, first, last


@dataclass(slots=True)
class Crew:
    """Some worker processes of one driver: prepared first, started together, always stopped.

    Use as an asynchronous context manager; `go` lets the prepared workers take jobs.
    """

    run: Run
    size: int
    latency: bool = False
    _processes: list[asyncio.subprocess.Process] = field(default_factory=list)

    async def __aenter__(self) -> "Crew":
        try:
            for _ in range(self.size):
                self._processes.append(await self._start())
            async with asyncio.timeout(PREPARE_LIMIT_SECONDS):
                for process in self._processes:
                    await self._prepared(process)
        except BaseException:
            await self.stop()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    @property
    def pids(self) -> list[int]:
        return [process.pid for process in self._processes]

    def go(self) -> None:
        for process in self._processes:
            if process.stdin is not None:
                process.stdin.write(b"GO\n")

    def progress(self) -> Progress:
        """Read the progress; raises DriverError when a worker has ended by itself."""
        if any(process.returncode is not None for process in self._processes):
            raise self.run.failure("a worker ended before it was told to")
        return Progress.read(self.run.folder)

    async def stop(self) -> None:
        """Ask every worker to end, and see that each has ended."""
        for process in self._running():
            process.terminate()
        for process in self._running():
            try:
                await asyncio.wait_for(process.wait(), STOP_LIMIT_SECONDS)
            except TimeoutError:
                process.kill()
                await process.wait()

    def _running(self) -> Iterator[asyncio.subprocess.Process]:
        return (process for process in self._processes if process.returncode is None)

    async def _start(self) -> asyncio.subprocess.Process:
        log = self.run.error_log()
        try:
            return await asyncio.create_subprocess_exec(
                *self.run.contender.command,
                "work",
                env=self.run.environment(latency=self.latency),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
            )
        finally:
            os.close(log)

    async def _prepared(self, process: asyncio.subprocess.Process) -> None:
        if process.stdout is None:
            raise self.run.failure("a worker has no standard output")
        async for line in process.stdout:
            if line.strip() == b"PREPARED":
                return
        raise self.run.failure("a worker ended before it was prepared")
