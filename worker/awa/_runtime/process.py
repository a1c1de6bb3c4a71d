"""A worker process as its supervisor holds it: started, spoken to, seen to end.

Both speak lines of JSON over a pair of sockets. The supervisor says `{"do": "drain"}` or `"stop"`,
and asks `{"ask": "condition" | "metrics", "id": n}`; the process answers with the same `id`, and
says `{"loaded": true}` when its handlers are imported, `{"problem": text}` when they cannot be, and
`{"metrics": …}` once more at its end. Signals are for a process that cannot listen yet.
"""

import asyncio
import contextlib
import itertools
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from typing import Any

from awa._runtime.condition import Condition, Stage
from awa.metrics import Family

LONGEST_LINE = 64 * 1024 * 1024
LOADING_GRACE_SECONDS = 2.0
"""How long a process that still imports may take to end once it was asked to."""


class WorkerProcess:
    """One started worker process. `exited` becomes its exit code, negative for a signal."""

    def __init__(self, popen: "subprocess.Popen[bytes]", end: socket.socket, pipe: int) -> None:
        self._popen = popen
        self._socket = end
        self._pipe = pipe
        self._loop = asyncio.get_running_loop()
        self._writer: asyncio.StreamWriter | None = None
        self._listening: asyncio.Task[None] | None = None
        self._asked: dict[int, asyncio.Future[dict[str, Any]]] = {}
        self._numbers = itertools.count()
        self.pid = popen.pid
        self.started_at = time.monotonic()
        self.answered_at = time.monotonic()
        self.condition = Condition(stage=Stage.loading)
        self.metrics: list[Family] = []
        self.problem: str | None = None
        self.loaded = asyncio.Event()
        self.was_killed = False
        self.exited: asyncio.Future[int] = self._loop.create_future()

    @classmethod
    def start(
        cls, modules: Sequence[str], environ: Mapping[str, str], *, number: int
    ) -> "WorkerProcess":
        """Start a process; it imports the modules and works until it is told otherwise.

        Nothing is awaited, so that the caller knows the process before it can end.
        """
        ours, theirs = socket.socketpair()
        pipe_end, pipe = os.pipe()
        passed = (theirs.fileno(), pipe_end)
        words = [str(word) for word in (*passed, os.getpid(), number)]
        try:
            # A new interpreter in a session of its own: no state of ours, and what a terminal
            # sends reaches us alone. -P: no module of the working folder hides one of Python's.
            popen = subprocess.Popen(  # noqa: S603 - our own words
                [sys.executable, "-P", "-m", "awa._runtime.child", *words, *modules],
                env=dict(environ), pass_fds=passed, stdin=subprocess.DEVNULL,
                start_new_session=True,
            )  # fmt: skip
        finally:
            theirs.close()
            os.close(pipe_end)
        return cls(popen, ours, pipe)

    async def connect(self) -> None:
        """Start to listen to the process."""
        reader, self._writer = await asyncio.open_unix_connection(
            sock=self._socket, limit=LONGEST_LINE
        )
        self._listening = asyncio.create_task(self._listen(reader), name=f"awa process {self.pid}")

    def tell(self, word: str) -> None:
        """Say what to do: `drain` or `stop`."""
        if self.condition.stage is Stage.loading:
            self._signal(signal.SIGTERM)
            self._loop.call_later(LOADING_GRACE_SECONDS, self._kill_loading)
        self._write({"do": word})

    async def ask(self, what: str, limit: float, **details: object) -> dict[str, Any] | None:
        """Return the answer to a question, None when there is none in time."""
        if not self.loaded.is_set() or self.exited.done():
            return None
        number = next(self._numbers)
        answer = self._asked[number] = self._loop.create_future()
        self._write({"ask": what, "id": number, **details})
        try:
            async with asyncio.timeout(limit):
                answered: dict[str, Any] = await answer
        except TimeoutError:
            return None
        finally:
            del self._asked[number]
        return answered

    async def ask_condition(self, limit: float, *, at_database: bool) -> Condition | None:
        """Return how the process is now, None when it does not answer in time."""
        answer = await self.ask("condition", limit, at_database=at_database)
        if answer is None:
            return None
        self.condition = Condition.from_json(answer["condition"])
        return self.condition

    async def ask_metrics(self, limit: float) -> list[Family]:
        """Return what the process has counted, as far as it is known."""
        await self.ask("metrics", limit)
        return self.metrics

    def kill(self) -> None:
        """End the process and what its handlers started, at once."""
        self.was_killed = True
        self._signal(signal.SIGKILL, group=True)

    def check(self) -> None:
        """Look whether the process has ended, and if so how."""
        if self.exited.done():
            return
        status = os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        if status is None:
            return
        if status.si_code != os.CLD_EXITED or status.si_status != 0:
            # Nothing that a handler left behind may act any more. The process itself is not
            # reaped yet, so the number of its group is still its own.
            self._signal(signal.SIGKILL, group=True)
        self.exited.set_result(self._popen.wait())

    async def close(self) -> None:
        """Read what the process has said last, and close."""
        if self._listening is not None:
            await asyncio.wait((self._listening,), timeout=1)
            self._listening.cancel()
        if self._writer is not None:
            self._writer.close()
        os.close(self._pipe)

    async def _listen(self, reader: asyncio.StreamReader) -> None:
        with contextlib.suppress(ConnectionError):
            async for line in reader:
                self._heard(json.loads(line))

    def _heard(self, message: dict[str, Any]) -> None:
        self.answered_at = time.monotonic()
        if "metrics" in message:
            self.metrics = [Family.from_json(family) for family in message["metrics"]]
        if "problem" in message:
            self.problem = message["problem"]
        if "loaded" in message:
            self.condition = Condition(stage=Stage.waiting)
            self.loaded.set()
        answer = self._asked.get(message.get("id", -1))
        if answer is not None and not answer.done():
            answer.set_result(message)

    def _write(self, message: dict[str, object]) -> None:
        if self._writer is not None and not self._writer.is_closing():
            self._writer.write(json.dumps(message).encode() + b"\n")

    def _kill_loading(self) -> None:
        if self.condition.stage is Stage.loading:
            self._signal(signal.SIGKILL, group=True)

    def _signal(self, number: signal.Signals, *, group: bool = False) -> None:
        # Until we wait for it, an ended process keeps its number.
        if self.exited.done():
            return
        with contextlib.suppress(ProcessLookupError, PermissionError):
            if group:
                os.killpg(self.pid, number)
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, number)
