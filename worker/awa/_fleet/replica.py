"""One local worker: what the manifest's command has started, as a process group of its own.

The group gets no signals of the terminal; it is told to drain by SIGTERM and ends before its
replica does: whoever is left of it after its time is killed. On Linux the kernel kills its leader
when this process ends without saying so; what that held is handed on by the next run.

How busy it is can be read from the recordings that `awa worker` keeps in its state folder. Another
program keeps none: then it counts as working after a while, and as idle.
"""

import asyncio
import contextlib
import os
import signal
import time
from collections.abc import Callable

from awa._fleet.launch import Launch
from awa._local.cluster import free_port
from awa._runtime.parent import at_parents_death
from awa._runtime.recorder import read_recording, recording_files

KILL_MARGIN_SECONDS = 8.0
"""How long after the drain timeout a worker is killed; `awa worker` needs up to 5."""
HURRY_SECONDS = 6.0
"""How long a worker may take over stopping at once."""
READY_AFTER_SECONDS = 15.0
"""After so long a worker without recordings counts as working."""
LONGEST_LINE = 16 * 1024
_LOOK_SECONDS = 0.05
_READ_BYTES = 64 * 1024


class Replica:
    """A started worker. `ended` becomes its exit code, negative for a signal, when all is over."""

    def __init__(
        self, number: int, launch: Launch, process: asyncio.subprocess.Process, port: int | None
    ) -> None:
        self.number = number
        self.port = port
        self.pid = process.pid
        self.started_at = time.monotonic()
        self.draining = False
        self.was_killed = False
        self.was_ready = False
        self._launch = launch
        self._process = process
        self._kill_at: asyncio.TimerHandle | None = None
        self.ended: asyncio.Task[int]

    @classmethod
    async def start(
        cls, number: int, launch: Launch, on_line: Callable[[int, str], None]
    ) -> "Replica":
        """Start a worker; `on_line` gets its number and each line that it writes.

        Raises OSError when the command cannot be started.
        """
        launch.state_of(number).mkdir(mode=0o700, parents=True, exist_ok=True)
        port = free_port() if launch.serves_pages else None
        process = await asyncio.create_subprocess_exec(
            *launch.command,
            cwd=launch.folder,
            env=launch.environment_of(number, port),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            start_new_session=True,
            preexec_fn=at_parents_death(signal.SIGKILL),
        )
        replica = cls(number, launch, process, port)
        replica.ended = asyncio.create_task(
            replica._watch(lambda line: on_line(number, line)), name=f"awa replica {number}"
        )
        return replica

    @property
    def age(self) -> float:
        """Seconds since the start."""
        return time.monotonic() - self.started_at

    @property
    def running(self) -> int:
        """How many jobs run in it now."""
        return sum(found for found in self._recorded() if found)

    @property
    def is_ready(self) -> bool:
        """Whether it works, as far as can be seen."""
        if not self.was_ready:
            self.was_ready = bool(self._recorded()) or self.age > READY_AFTER_SECONDS
        return self.was_ready

    def drain(self) -> None:
        """Let it take no more jobs, finish those that run, and end; safe to repeat."""
        if not self.draining:
            self.draining = True
            self._signal(signal.SIGTERM)
            self._kill_within(self._launch.drain_timeout.total_seconds() + KILL_MARGIN_SECONDS)

    def hurry(self) -> None:
        """Let it end at once: jobs that run are cut off."""
        self.drain()
        self._signal(signal.SIGTERM)
        self._kill_within(HURRY_SECONDS)

    def kill(self) -> None:
        """Kill -9 what is left of it; the kernel ends what it has started."""
        self.was_killed = True
        self._signal(signal.SIGKILL)

    async def _watch(self, on_line: Callable[[str], None]) -> int:
        """Return when the whole group is gone and its output is read."""
        reading = asyncio.create_task(_read_lines(self._process.stdout, on_line))
        code = await self._process.wait()
        while True:
            if not self._signal(0):
                break
            await asyncio.sleep(_LOOK_SECONDS)
        if self._kill_at is not None:
            self._kill_at.cancel()
        # A process that has left the group may hold the pipe open for ever.
        await asyncio.wait((reading,), timeout=1)
        reading.cancel()
        return code

    def _kill_within(self, seconds: float) -> None:
        if self._kill_at is not None:
            self._kill_at.cancel()
        self._kill_at = asyncio.get_running_loop().call_later(seconds, self.kill)

    def _signal(self, number: int) -> bool:
        """Send a signal to every process of the group; False when none is left."""
        try:
            os.killpg(self.pid, number)
        except ProcessLookupError:
            return False
        except PermissionError:
            return True  # it runs as another user, or ends just now
        return True

    def _recorded(self) -> list[int]:
        """Return how many attempts each of its processes has started."""
        found = []
        for file in recording_files(self._launch.state_of(self.number)):
            with contextlib.suppress(OSError, ValueError):  # it has just been removed
                recording = read_recording(file)
                os.kill(recording.process_id, 0)  # else a predecessor's, not settled yet
                found.append(len(recording.started))
        return found


async def _read_lines(stream: asyncio.StreamReader | None, on_line: Callable[[str], None]) -> None:
    rest = b""
    while stream is not None and (data := await stream.read(_READ_BYTES)):
        *lines, rest = (rest + data).split(b"\n")
        if len(rest) > LONGEST_LINE:
            lines, rest = [*lines, rest], b""
        for line in lines:
            on_line(line.decode(errors="replace").rstrip("\r"))
    if rest:
        on_line(rest.decode(errors="replace"))
