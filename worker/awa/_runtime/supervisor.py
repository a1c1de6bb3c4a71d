"""The parent of worker processes: starts them, sees them end, settles, starts others.

Parties: the supervisor, which never runs code of a user; its worker processes; their recordings in
the state folder, each locked by its process; a successor.

- A process ends without being asked to: what is left of its group is killed, its recording is
  settled, and another process is started, after a growing pause when that happens again and again.
- The first stop signal drains: processes claim no more and finish what runs. The second gives back
  what has not started and cancels handlers. What exceeds its time is killed and settled. A process
  that still imports claims nothing and is ended at once.
- The supervisor is killed: the kernel ends its processes with it, and whoever is started next on
  the state folder settles what they held.

Invariant: a job is handed on only when no process can act on it any more: its own says that it has
let go, or its recording is no longer locked.
"""

import asyncio
import logging
import os
import signal
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from awa._runtime.condition import Condition, Stage
from awa._runtime.exits import Exit
from awa._runtime.parent import adopt_orphans
from awa._runtime.process import WorkerProcess
from awa._runtime.service import Service, State
from awa._runtime.settler import Settler
from awa._runtime.totals import Totals
from awa._store.database import Database, backoff_seconds
from awa.metrics import Family, SupervisorMetrics, families
from awa.settings import DatabaseSettings, WorkerSettings

log = logging.getLogger("awa.supervisor")

KILL_MARGIN_SECONDS = 4.0
"""How long after the drain timeout a process is killed: then all is over 5 seconds after it."""
HURRY_SECONDS = 3.0
"""How long a process may take over stopping at once."""
SETTLE_SECONDS = 1.0
"""The least time that the last settling gets before it is left to a successor."""
STEADY_SECONDS = 60.0
"""A process that lived so long did not end in a crash loop."""
LONGEST_PAUSE_SECONDS = 30.0
POLL_SECONDS = 2.0
ANSWER_SECONDS = 0.9
"""How long a process has for an answer: probes wait for a second."""
SILENT_SECONDS = 15.0
"""After so long without an answer the event loop of a process counts as stalled."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What a supervisor runs. `environ` is the environment of the processes."""

    modules: tuple[str, ...]
    settings: WorkerSettings
    database: DatabaseSettings
    state_folder: Path
    environ: Mapping[str, str] = field(repr=False)


class Supervisor:
    """Keeps the worker processes of a plan running until it is told to stop."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._drain_seconds = plan.settings.drain_timeout.total_seconds()
        self._processes: dict[int, WorkerProcess] = {}
        self._metrics = SupervisorMetrics(plan.settings.processes)
        self._totals = Totals()
        self._settler = Settler(
            Database(plan.database, pool_size=1), plan.state_folder, self._metrics
        )
        self._stop_asked = asyncio.Event()
        self._stop_by = 0.0
        self._hurried = False
        self._kill_timer: asyncio.TimerHandle | None = None
        self._any_loaded = False
        self._silent: set[int] = set()
        self._exit = Exit.CLEAN
        self.problem: str | None = None

    @property
    def stopping(self) -> bool:
        """Whether a stop was asked for."""
        return self._stop_asked.is_set()

    async def run(self) -> Exit:
        """Run until every process has ended after a stop, and settle what is left."""
        adopt_orphans()
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGCHLD, self._reap)
        await self._settler.start()
        watch = _Watch(self._look)
        await watch.start()
        keepers = [
            asyncio.create_task(self._keep(number), name=f"awa keeper {number}")
            for number in range(self._plan.settings.processes)
        ]
        try:
            await asyncio.gather(*keepers)
        finally:
            await watch.stop()
            loop.remove_signal_handler(signal.SIGCHLD)
            for process in self._processes.values():
                process.kill()
        if not await self._settle_last():
            log.error("some dead workers are left to be settled by a successor")
            self._exit = self._exit or Exit.CRASHED
        log.info("supervisor stopped", extra={"exit": int(self._exit)})
        return self._exit

    def ask_to_stop(self) -> None:
        """Drain; asked again, stop at once."""
        if not self.stopping:
            log.info("draining", extra={"seconds": self._drain_seconds})
            self._stop_asked.set()
            self._stop_within(self._drain_seconds + KILL_MARGIN_SECONDS)
            self._tell("drain")
        elif not self._hurried:
            log.info("stopping at once")
            self._hurried = True
            self._stop_within(HURRY_SECONDS)
            self._tell("stop")

    @property
    def live(self) -> bool:
        """Whether no process needs a restart, as of the last few seconds."""
        return all(process.condition.live for process in self._processes.values())

    async def conditions(self) -> list[Condition]:
        """Ask how each process is; one that does not answer is as it was, its loop stalled."""
        processes = list(self._processes.values())
        answers = await asyncio.gather(
            *(one.ask_condition(ANSWER_SECONDS, at_database=True) for one in processes)
        )
        return [
            answer or _without_answer(process.condition)
            for process, answer in zip(processes, answers, strict=True)
        ]

    def silent_for(self) -> float:
        """Return for how long the process that answered least recently has been silent."""
        now = time.monotonic()
        silences = [now - one.answered_at for one in self._loaded()]
        return max(silences, default=0.0)

    async def families(self) -> list[Family]:
        """Return the metrics of all processes as one, and those of the supervisor."""
        await asyncio.gather(*(self._count(process) for process in self._loaded()))
        self._metrics.running = len(self._processes)
        return [*self._totals.families(), *families(self._metrics)]

    # --- processes ------------------------------------------------------------------------------

    async def _keep(self, number: int) -> None:
        """Keep one process running."""
        failures = 0
        while not self.stopping:
            process = WorkerProcess.start(self._plan.modules, self._plan.environ, number=number)
            self._processes[process.pid] = process
            await process.connect()
            if self._stop_asked.is_set():  # meanwhile
                process.tell("drain")
            watching = asyncio.create_task(self._note_loaded(process))
            code = await process.exited
            await process.close()
            watching.cancel()
            self._silent.discard(process.pid)
            self._totals.report(process, process.metrics)
            self._totals.retire(process)
            del self._processes[process.pid]
            self._note_end(process, code)
            if self.stopping or self._is_hopeless(process, code):
                return
            steady = time.monotonic() - process.started_at > STEADY_SECONDS
            failures = 0 if steady else failures + 1
            await self._pause(0 if failures == 0 else backoff_seconds(failures, 30.0))

    async def _note_loaded(self, process: WorkerProcess) -> None:
        await process.loaded.wait()
        self._any_loaded = True

    def _note_end(self, process: WorkerProcess, code: int) -> None:
        loading = process.condition.stage is Stage.loading
        how = "clean" if code == 0 or (loading and self.stopping) else "crashed"
        if process.was_killed or code == Exit.UNFINISHED:
            how = "killed"
        self._metrics.ends[how] += 1
        reason = _reason(code, was_killed=process.was_killed)
        self._settler.note_death(process.pid, reason)
        if how == "clean":
            log.info("worker process ended", extra={"pid": process.pid})
            return
        log.error("worker process died", extra={"pid": process.pid, "reason": reason})
        if self.stopping:
            self._exit = self._exit or Exit.CRASHED

    def _is_hopeless(self, process: WorkerProcess, code: int) -> bool:
        """Whether starting the process again would end the same way; then everything stops."""
        if code == Exit.CONFIGURATION:
            self._exit = Exit.CONFIGURATION
            self.problem = process.problem or "the configuration cannot be used"
        elif process.condition.stage is Stage.loading and not self._any_loaded:
            self._exit = Exit.CRASHED
            self.problem = process.problem or (
                f"the process ended while it imported the handlers ({_reason(code)})"
            )
        else:
            return False
        if not self.stopping:
            self.ask_to_stop()
        return True

    async def _pause(self, seconds: float) -> None:
        stop = asyncio.ensure_future(self._stop_asked.wait())
        await asyncio.wait((stop,), timeout=seconds)
        stop.cancel()

    def _reap(self) -> None:
        """Wait for ended processes: our own, and orphans that we have adopted."""
        for process in self._processes.values():
            process.check()
        ours = self._processes
        while True:
            try:
                ended = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            except ChildProcessError:
                return
            if ended is None or ended.si_pid in ours:
                return
            os.waitpid(ended.si_pid, os.WNOHANG)

    # --- stopping -------------------------------------------------------------------------------

    def _tell(self, word: str) -> None:
        for process in self._processes.values():
            process.tell(word)

    def _stop_within(self, seconds: float) -> None:
        self._stop_by = time.monotonic() + seconds
        if self._kill_timer is not None:
            self._kill_timer.cancel()
        self._kill_timer = asyncio.get_running_loop().call_later(seconds, self._kill_all)

    def _kill_all(self) -> None:
        for process in self._processes.values():
            log.error("worker process exceeds its time, killed", extra={"pid": process.pid})
            process.kill()

    async def _settle_last(self) -> bool:
        """Settle what the processes left; False when a successor has to."""
        stopping = asyncio.create_task(self._settler.stop())
        await asyncio.wait((stopping,), timeout=SETTLE_SECONDS / 2)
        limit = max(SETTLE_SECONDS, self._stop_by - time.monotonic())
        done = False
        try:
            async with asyncio.timeout(limit):
                failures = 0
                while not (done := await self._settler.settle_all()):
                    failures += 1
                    await asyncio.sleep(backoff_seconds(failures))
        except TimeoutError:
            pass
        return done

    # --- watching -------------------------------------------------------------------------------

    def _loaded(self) -> list[WorkerProcess]:
        return [one for one in self._processes.values() if one.loaded.is_set()]

    async def _count(self, process: WorkerProcess) -> None:
        found = await process.ask_metrics(ANSWER_SECONDS)
        if process.pid in self._processes:  # else it ended meanwhile and is counted for good
            self._totals.report(process, found)

    async def _look(self) -> None:
        """Look at every process, so that what it counted survives it."""
        self._reap()  # in case a signal got lost
        for process in self._loaded():
            self._note_silence(process)
            await process.ask_condition(ANSWER_SECONDS, at_database=False)
            await self._count(process)

    def _note_silence(self, process: WorkerProcess) -> None:
        if time.monotonic() - process.answered_at < SILENT_SECONDS:
            self._silent.discard(process.pid)
        elif process.pid not in self._silent:
            self._silent.add(process.pid)
            log.error(
                "the event loop of a worker process makes no progress: a handler holds it up",
                extra={"pid": process.pid},
            )


class _Watch(Service):
    """Looks at the processes every now and then."""

    name = "watch"

    def __init__(self, look: Callable[[], Awaitable[None]]) -> None:
        super().__init__()
        self._look = look

    async def run(self) -> None:
        while True:
            await asyncio.sleep(POLL_SECONDS)
            await self._look()
            self.progressed()


def _without_answer(condition: Condition) -> Condition:
    if condition.stage is Stage.loading:
        return condition
    return replace(condition, services={**condition.services, "loop": State.stalled})


def _reason(code: int, *, was_killed: bool = False) -> str:
    if was_killed:
        return "killed, its time to stop was over"
    if code == Exit.UNFINISHED:
        return "stopped while it ran"
    if code < 0:
        try:
            return signal.Signals(-code).name
        except ValueError:
            return f"signal {-code}"
    return f"exit code {code}"
