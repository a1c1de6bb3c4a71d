"""As many workers of one queue as are wanted.

Fewer are wanted: those that do not work yet go first, then those with the fewest running jobs, the
youngest of equals. They drain; nobody is killed before their time is over. A worker that ends
without being asked to is started again, after a growing pause when that happens again and again.
When none has ever worked and they keep ending, or one says that its configuration cannot be used,
starting more changes nothing: that is `failed`.
"""

import asyncio
import contextlib
import signal
from collections.abc import Callable
from dataclasses import dataclass

from awa._fleet.launch import Launch
from awa._fleet.replica import Replica
from awa._runtime.exits import Exit
from awa._store.database import backoff_seconds
from awa.errors import AwaError

STEADY_SECONDS = 60.0
"""A worker that lived so long did not end in a crash loop."""
LONGEST_PAUSE_SECONDS = 30.0
LOOK_SECONDS = 0.1
HOPELESS_AFTER = 3
"""So many workers in a row ended, and none ever worked: it is not worth going on."""


class WorkersFailed(AwaError):
    """The workers of a queue cannot be started, or end at once, however often they are started.

    `is_configuration` says that they have called their configuration unusable.
    """

    def __init__(self, why: str, *, is_configuration: bool = False) -> None:
        super().__init__(why)
        self.is_configuration = is_configuration


@dataclass(frozen=True, slots=True)
class Ended:
    """A worker has ended."""

    number: int
    code: int
    was_asked: bool
    was_killed: bool


class Fleet:
    """The workers of one queue. Made inside the event loop; `scale` may be called at any time.

    `on_line` gets the number of a worker and a line that it wrote; `on_end` is told of each end.
    """

    def __init__(
        self,
        launch: Launch,
        on_line: Callable[[int, str], None],
        on_end: Callable[[Replica, Ended], None],
    ) -> None:
        self.launch = launch
        self.wanted = 0
        self.restarts = 0
        self.failed: asyncio.Future[WorkersFailed] = asyncio.get_running_loop().create_future()
        self._on_line = on_line
        self._on_end = on_end
        self._replicas: dict[int, Replica] = {}
        self._watches: set[asyncio.Task[None]] = set()
        self._failures = 0
        self._any_worked = False
        self._paused = False
        self._stopping = asyncio.Event()
        self._tending = asyncio.Lock()

    @property
    def active(self) -> list[Replica]:
        """The workers that have not been told to stop."""
        return [one for one in self._replicas.values() if not one.draining]

    @property
    def ready(self) -> int:
        """How many of them work."""
        return sum(one.is_ready for one in self.active)

    @property
    def alive(self) -> int:
        """How many workers there are, draining ones included."""
        return len(self._replicas)

    @property
    def replicas(self) -> list[Replica]:
        """All workers, draining ones included."""
        return list(self._replicas.values())

    async def scale(self, wanted: int) -> None:
        """Want this many workers; returns when they are started or told to stop."""
        self.wanted = wanted
        await self._tend()

    async def drain(self) -> None:
        """Let every worker end in its own time; returns when the last has."""
        self._stopping.set()
        self.wanted = 0
        await self._tend()
        while self._watches:
            await asyncio.wait(self._watches)

    def hurry(self) -> None:
        """Let those that drain end at once."""
        for one in self._replicas.values():
            one.hurry()

    def kill(self) -> None:
        """Kill -9 every worker that is left."""
        for one in self._replicas.values():
            one.kill()

    async def _tend(self) -> None:
        """Bring the number of workers to the one that is wanted."""
        async with self._tending:
            for one in self._surplus():
                one.drain()
            while len(self.active) < self.wanted and not (self._paused or self.failed.done()):
                await self._start()

    def _surplus(self) -> list[Replica]:
        active = self.active
        in_order = sorted(active, key=lambda one: (one.is_ready, one.running, one.age))
        return in_order[: max(0, len(active) - self.wanted)]

    async def _start(self) -> None:
        number = next(n for n in range(1, len(self._replicas) + 2) if n not in self._replicas)
        try:
            replica = await Replica.start(number, self.launch, self._on_line)
        except OSError as error:
            self._fail(WorkersFailed(self._no_start(error), is_configuration=True))
            return
        self._replicas[number] = replica
        watch = asyncio.create_task(self._watch(replica), name=f"awa watch {number}")
        self._watches.add(watch)
        watch.add_done_callback(self._watches.discard)

    async def _watch(self, replica: Replica) -> None:
        """Wait for the end of a worker, and start another one when it was not asked to end."""
        worked = asyncio.create_task(self._note_work(replica))
        code = await replica.ended
        worked.cancel()
        del self._replicas[replica.number]
        ended = Ended(replica.number, code, replica.draining, replica.was_killed)
        self._on_end(replica, ended)
        if self._stopping.is_set() or ended.was_asked:
            return
        self.restarts += 1
        self._failures = 0 if replica.age > STEADY_SECONDS else self._failures + 1
        if (failure := self._failure(ended)) is not None:
            self._fail(failure)
            return
        await self._pause()
        await self._tend()

    def _failure(self, ended: Ended) -> WorkersFailed | None:
        """Return why starting another worker would change nothing, None when it may help."""
        what = f"worker {ended.number} of queue {self.launch.queue}"
        if ended.code == Exit.CONFIGURATION:
            return WorkersFailed(
                f"{what} cannot use its configuration; it says above what to change",
                is_configuration=True,
            )
        if self._failures >= HOPELESS_AFTER and not self._any_worked:
            return WorkersFailed(
                f"{what} ended with {code_in_words(ended.code)}, like those before it; what it "
                "says above is the reason. Correct that and start again"
            )
        return None

    def _fail(self, failure: WorkersFailed) -> None:
        if not self.failed.done():
            self.failed.set_result(failure)

    def _no_start(self, error: OSError) -> str:
        command, folder = self.launch.command[0], self.launch.folder
        return (
            f"the worker's command {command!r} cannot be started in {folder}: "
            f"{(error.strerror or 'unknown').lower()}; see spec.worker.command in the manifest"
        )

    async def _note_work(self, replica: Replica) -> None:
        while True:
            if replica.is_ready:
                break
            await asyncio.sleep(LOOK_SECONDS)
        self._any_worked = True

    async def _pause(self) -> None:
        """Hold back starts for a while; a drain does not wait for it."""
        self._paused = True
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(backoff_seconds(self._failures, LONGEST_PAUSE_SECONDS)):
                await self._stopping.wait()
        self._paused = False


def code_in_words(code: int) -> str:
    """Return what an exit code says."""
    if code < 0:
        try:
            return f"signal {signal.Signals(-code).name}"
        except ValueError:
            return f"signal {-code}"
    return f"exit code {code}"
