"""The owner's end of a guard: starts it, hears from it, tells it to stop."""

import asyncio
import json
import socket
import subprocess
import sys
from datetime import timedelta
from pathlib import Path
from typing import Self

from awa._local.account import clean_environment
from awa._local.guard import Task

GUARD = Path(__file__).with_name("guard.py")


class GuardedServer:
    """A server with its guard. Made by `launch`; everything else may be called at any time."""

    def __init__(
        self,
        process: "subprocess.Popen[bytes]",
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
    ) -> None:
        self.guard_pid = process.pid
        self.postmaster_pid: int | None = None
        self.failed_to_make_data = False
        self._process = process
        self._writer = writer
        self._watch = asyncio.create_task(self._listen(reader), name="embedded-postgres-guard")

    @classmethod
    async def launch(cls, lock: int, guard_lock: int, log: int) -> Self:
        """Start a guard that waits for its task; it keeps both locks, the server only `lock`."""
        ours, theirs = socket.socketpair()
        with theirs:
            handed_down = (theirs.fileno(), lock, guard_lock)
            process = subprocess.Popen(  # noqa: ASYNC220, S603 - returns at once; our own script
                [sys.executable, "-I", "-S", str(GUARD), *map(str, handed_down)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd="/",
                env=clean_environment(),
                pass_fds=handed_down,
                start_new_session=True,
            )
        reader, writer = await asyncio.open_unix_connection(sock=ours)
        return cls(process, reader, writer)

    @property
    def has_ended(self) -> bool:
        """Whether guard and server are gone."""
        return self._watch.done()

    def begin(self, task: Task) -> None:
        """Give the guard its task."""
        self._writer.write(task.to_line())

    def tell_to_stop(self) -> None:
        """Ask for a fast shutdown without waiting for it. Safe to repeat."""
        if not self._writer.is_closing():
            self._writer.write(b"stop\n")

    async def ended(self) -> None:
        """Return when the guard has ended, for whatever reason."""
        await asyncio.shield(self._watch)

    async def stop(self, limit: timedelta) -> None:
        """Shut down and return when the guard is gone; after `limit` it is killed."""
        self.tell_to_stop()
        try:
            async with asyncio.timeout(limit.total_seconds()):
                await self.ended()
        except TimeoutError:
            self._process.kill()
            await self.ended()

    async def _listen(self, reader: asyncio.StreamReader) -> None:
        try:
            while line := await reader.readline():
                event = json.loads(line)
                if event["event"] == "started":
                    self.postmaster_pid = event["pid"]
                elif event["event"] == "initdb failed":
                    self.failed_to_make_data = True
        except ConnectionError:
            pass  # killed with words of ours unread: ended all the same
        self._writer.close()
        await asyncio.to_thread(self._process.wait)
