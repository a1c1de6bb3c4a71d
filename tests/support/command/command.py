"""Commands that tests start, what they say, and what their handlers did."""

import http.client
import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import psutil

from support.soak.journal import read_journals
from support.waiting import eventually

TESTS = Path(__file__).parents[2]
APP = Path(__file__).with_name("app")
START_LIMIT = timedelta(seconds=45)

QUICK = {
    "AWA_POLL_INTERVAL_SECONDS": "0.1",
    "AWA_HEARTBEAT_INTERVAL_SECONDS": "0.5",
    "AWA_PROMOTE_INTERVAL_SECONDS": "0.1",
    "AWA_LEADER_LEASE_SECONDS": "1.5",
    "AWA_LEADER_CHECK_INTERVAL_SECONDS": "0.3",
    "AWA_DRAIN_TIMEOUT_SECONDS": "1",
    # What is handed on is handed on by those who know, never because of silence.
    "AWA_HEARTBEAT_STALENESS_SECONDS": "600",
    "AWA_LOG_FORMAT": "json",
}
"""An environment in which everything that takes minutes elsewhere takes moments."""


@dataclass(frozen=True)
class Note:
    """What a handler noted."""

    word: str
    key: str
    attempt: str
    pid: str
    at_ns: str


class WorkerCommand:
    """One `awa worker`."""

    def __init__(self, arguments: Sequence[str], environ: Mapping[str, str], log: Path) -> None:
        self._log = log
        with log.open("wb") as opened:
            self._popen = subprocess.Popen(
                [sys.executable, "-m", "awa", "worker", *arguments],
                cwd=APP, env=dict(environ), stdin=subprocess.DEVNULL, stdout=opened, stderr=opened,
            )  # fmt: skip
        self.pid = self._popen.pid

    @property
    def output(self) -> str:
        """Everything it has printed, its processes included."""
        return self._log.read_text(errors="replace")

    @property
    def has_ended(self) -> bool:
        """Whether the supervisor has ended."""
        return self._popen.poll() is not None

    def lines(self, message: str = "") -> list[dict[str, Any]]:
        """Return log lines, those with a certain message if given."""
        found = []
        for text in self.output.splitlines():
            with suppress(ValueError):
                line = json.loads(text)
                if isinstance(line, dict) and message in ("", line.get("message")):
                    found.append(line)
        return found

    def children(self) -> list[int]:
        """Return the worker processes that live."""
        with suppress(psutil.NoSuchProcess):
            return [
                child.pid
                for child in psutil.Process(self.pid).children()
                if child.status() != psutil.STATUS_ZOMBIE
            ]
        return []

    def send(self, number: signal.Signals) -> None:
        """Send a signal to the supervisor."""
        self._popen.send_signal(number)

    async def said(self, message: str, *, times: int = 1) -> list[dict[str, Any]]:
        """Wait until a log line has come up, or several."""

        def found() -> list[dict[str, Any]]:
            lines = self.lines(message)
            if len(lines) < times and self.has_ended:
                raise AssertionError(f"ended without saying {message!r}:\n{self.output}")
            return lines if len(lines) >= times else []

        return await eventually(found, START_LIMIT, what=f"{message!r} in\n{self._log}")

    async def works(self, processes: int = 1) -> None:
        """Wait until every process has started to work."""
        await self.said("worker started", times=processes)

    async def ended(self, limit: float = 20) -> int:
        """Wait for the end and return the exit code."""
        await eventually(
            lambda: self.has_ended, timedelta(seconds=limit), what=f"the end of\n{self.output}"
        )
        return self._popen.wait()

    async def get(self, path: str, *, method: str = "GET") -> tuple[int, str]:
        """Return status and body of a page."""
        (line,) = await self.said("serving health pages")
        return fetch(line["port"], path, method=method)

    async def json_of(self, path: str) -> tuple[int, Any]:
        """Return status and document of a page."""
        status, body = await self.get(path)
        return status, json.loads(body)

    def close(self) -> None:
        """Kill it, and its processes with it."""
        pids = self.children()
        self._popen.kill()
        self._popen.wait()
        gone = [psutil.Process(pid) for pid in pids if psutil.pid_exists(pid)]
        psutil.wait_procs(gone, timeout=10)


class Commands:
    """The commands of a test, with one database and one folder."""

    def __init__(self, database_url: str, folder: Path) -> None:
        self.folder = folder
        self._environ = {
            **os.environ,
            **QUICK,
            "PYTHONPATH": str(TESTS),
            "AWA_DATABASE_URL": database_url,
            "AWA_STATE_FOLDER": str(folder / "state"),
            "AWA_HEALTH_ADDRESS": "127.0.0.1:0",
            "TEST_FOLDER": str(folder),
        }
        self._started: list[WorkerCommand] = []

    def start(self, *arguments: str, **environ: str | None) -> WorkerCommand:
        """Start `awa worker` with arguments, `work` by default; None takes a variable away."""
        changed = {**self._environ, **environ}
        command = WorkerCommand(
            arguments or ("work",),
            {name: value for name, value in changed.items() if value is not None},
            self.folder / f"command{len(self._started)}.log",
        )
        self._started.append(command)
        return command

    def open_gate(self) -> None:
        """Let jobs that wait go on."""
        (self.folder / "gate").touch()

    def close_gate(self) -> None:
        """Let jobs that wait, wait again."""
        (self.folder / "gate").unlink()

    def notes(self, word: str, key: str | None = None) -> list[Note]:
        """Return what handlers noted."""
        found = (Note(*line) for line in read_journals(self.folder, "runs") if len(line) == 5)
        return [one for one in found if one.word == word and key in (None, one.key)]

    async def noted(self, word: str, *keys: str, limit: float = 30) -> None:
        """Wait until handlers have noted something of every key."""
        wanted = set(keys)
        await eventually(
            lambda: wanted <= {one.key for one in self.notes(word)},
            timedelta(seconds=limit),
            what=f"{word}: {sorted(wanted)}",
        )

    def recordings(self) -> list[Path]:
        """Return the recordings in the state folder."""
        return sorted((self.folder / "state").glob("*/*.attempts"))

    def close(self) -> None:
        """End every command."""
        for command in self._started:
            command.close()


def fetch(port: int, path: str, *, method: str = "GET") -> tuple[int, str]:
    """Return status and body of a page of a server on this machine."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    try:
        connection.request(method, path)
        answer = connection.getresponse()
        return answer.status, answer.read().decode()
    finally:
        connection.close()


def is_alive(pid: int) -> bool:
    """Whether a process exists and is no zombie."""
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
