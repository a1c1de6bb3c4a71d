"""Processes that own an embedded server, and a look at everything that runs."""

import json
import subprocess
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import asyncpg
import psutil

from awa._local.postgres import EmbeddedPostgres


class MakePostgres(Protocol):
    def __call__(self, folder: Path | None = None, **options: Any) -> EmbeddedPostgres: ...


class StartOwner(Protocol):
    def __call__(
        self, folder: Path, *, fork: bool = False, wrap: Callable[[list[str]], list[str]] = list
    ) -> "OwnerProcess": ...


@dataclass
class OwnerProcess:
    """Another process that owns a server."""

    process: "subprocess.Popen[str]"
    up: dict[str, Any] = field(default_factory=dict)

    def until_up(self) -> "OwnerProcess":
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, f"the owner ended with {self.process.wait()}"
        self.up = json.loads(line)
        return self

    @property
    def guard(self) -> psutil.Process:
        return psutil.Process(self.up["guard_pid"])

    @property
    def postmaster(self) -> psutil.Process:
        return self.guard.children()[0]

    def end(self) -> int:
        """Let it stop its server, and return its exit code."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        return self.process.wait(60)

    def kill(self) -> None:
        """Kill -9 it, as far as it still runs, and forget it."""
        self.process.kill()
        self.process.wait(60)
        for pipe in (self.process.stdin, self.process.stdout):
            assert pipe is not None
            pipe.close()


def processes_in(folder: Path) -> list[psutil.Process]:
    """Return every process that works in the folder, has a file of it open, or names it."""
    found = []
    for process in psutil.process_iter():
        # Those that end while we look, and those of others, which are none of ours.
        with suppress(psutil.NoSuchProcess, psutil.AccessDenied):
            names = [process.cwd(), *process.cmdline(), *(f.path for f in process.open_files())]
            if process.status() != psutil.STATUS_ZOMBIE and str(folder) in "\n".join(names):
                found.append(process)
    return found


def rights_in(folder: Path) -> set[tuple[int, int, int, int]]:
    """Return the user and group ids, real and effective, of the processes of a folder."""
    rights = set()
    for process in processes_in(folder):
        with suppress(psutil.NoSuchProcess):
            uids, gids = process.uids(), process.gids()
            rights.add((uids.real, uids.effective, gids.real, gids.effective))
    return rights


async def fetch(dsn: str, query: str) -> Any:
    """Return one value from a connection of its own."""
    connection = await asyncpg.connect(dsn)
    try:
        return await connection.fetchval(query)
    finally:
        await connection.close()


def shell(command: str) -> str:
    """Return what a command of a shell writes; it has to succeed."""
    done = subprocess.run(["sh", "-c", command], capture_output=True, text=True, check=True)
    return done.stdout


def data_of(folder: Path) -> Path:
    """Return the one data folder of a folder."""
    (data,) = folder.glob("postgres/*/data")
    return data


def is_clean(folder: Path) -> bool:
    """Say whether a folder has no database, nor a part of one."""
    return not list(folder.glob("postgres/*/data")) + list(folder.glob("postgres/*/unfinished"))
