"""A queue under measurement: how to start its driver, and with which settings."""

import asyncio
import json
import os
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

CALL_LIMIT_SECONDS = 900.0


class DriverError(Exception):
    """A driver failed; the message carries the end of what it wrote to standard error."""


@dataclass(frozen=True, slots=True)
class Contender:
    """One queue: its name, the command of its driver, and the settings it is measured with.

    `batch` is the number of jobs in one call of the bulk enqueue.
    """

    name: str
    command: tuple[str, ...]
    options: Mapping[str, object]
    batch: int


@dataclass(frozen=True, slots=True)
class Facts:
    """What a driver says about its queue.

    One of the two queries tells when a drain is over: `remaining_sql` counts the due jobs that
    are not yet durably finished, `done_sql` the jobs that are. `stored_sql` counts the jobs that
    wait.
    """

    version: str
    stored_sql: str
    remaining_sql: str | None
    done_sql: str | None

    def left_sql(self, jobs: int) -> str:
        """Return the query that says how many of `jobs` are not yet durably finished."""
        return self.remaining_sql or f"select {jobs:d} - ({self.done_sql})"


@dataclass(frozen=True, slots=True)
class Run:
    """One driver against one database, with a scratch folder to report in."""

    contender: Contender
    dsn: str
    folder: Path

    def environment(self, *, latency: bool = False) -> dict[str, str]:
        return {
            **os.environ,
            "BENCH_DSN": self.dsn,
            "BENCH_RUN_DIR": str(self.folder),
            "BENCH_OPTS": json.dumps(self.contender.options),
            "BENCH_LATENCY": "1" if latency else "0",
            "PYTHONUNBUFFERED": "1",
            "NODE_ENV": "production",
        }

    def error_log(self) -> int:
        """Open the file that collects the standard error of every driver process of the run."""
        return os.open(self.folder / "stderr", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)

    def failure(self, what: str) -> DriverError:
        path = self.folder / "stderr"
        lines = path.read_text(errors="replace").splitlines() if path.exists() else []
        return DriverError("\n".join([f"{self.contender.name}: {what}", *lines[-20:]]))

    async def call(self, *arguments: str) -> dict[str, Any]:
        """Run one command of the driver and return the object that it printed, if any."""
        log = self.error_log()
        try:
            process = await asyncio.create_subprocess_exec(
                *self.contender.command,
                *arguments,
                env=self.environment(),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=log,
            )
        finally:
            os.close(log)
        try:
            printed, _ = await asyncio.wait_for(process.communicate(), CALL_LIMIT_SECONDS)
        except TimeoutError:
            raise self.failure(f"{arguments[0]} did not end") from None
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
        if process.returncode:
            raise self.failure(f"{arguments[0]} exited {process.returncode}")
        objects = [line for line in printed.decode().splitlines() if line.startswith("{")]
        return dict(json.loads(objects[-1])) if objects else {}

    async def facts(self) -> Facts:
        said = await self.call("describe")
        return Facts(
            str(said["version"]),
            said["stored_sql"],
            said.get("remaining_sql"),
            said.get("done_sql"),
        )
