"""What the workers of a fleet do, and where they note it: outside of the database."""

import asyncio
import time
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import orjson

import awa
from awa._runtime.worker import Worker
from awa._store.attempts import Flush
from support.soak.journal import Journal, clock_offset
from support.waiting import eventually

QUEUE = "q"


@dataclass(frozen=True)
class Task:
    """A coroutine's job: `ok` ends at once, `gate` when the gate is open, `stay` never.

    `fail` fails each time, `fail_at_gate` once the gate is open; `rescue` ends at the gate with
    an output also when it is cancelled; `nap` takes a few milliseconds.
    """

    key: str
    does: str = "ok"


@dataclass(frozen=True)
class Blocking:
    """The job of a plain function: it ends when the gate is open and cannot be interrupted."""

    key: str


def quick(*, max_workers: int = 10, deadline_seconds: float = 0, **knobs: Any) -> Any:
    """Return settings under which everything that takes minutes elsewhere takes moments."""
    moment = timedelta(milliseconds=300)
    given: dict[str, Any] = {
        "queues": (
            awa.QueueSettings(
                name=QUEUE,
                max_workers=max_workers,
                deadline=timedelta(seconds=deadline_seconds),
            ),
        ),
        "poll_interval": timedelta(milliseconds=200),
        "heartbeat_interval": timedelta(milliseconds=500),
        "heartbeat_staleness": timedelta(seconds=3),
        "rescue_interval": moment,
        "deadline_interval": moment,
        "cleanup_interval": moment,
        "promote_interval": timedelta(milliseconds=100),
        "leader_lease": timedelta(seconds=1),
        "leader_check_interval": moment,
        "drain_timeout": timedelta(seconds=1),
    }
    return awa.WorkerSettings(**(given | knobs))


class Handlers:
    """The handlers of one worker. Each run is noted when it starts and when it ends."""

    def __init__(self, folder: Path, name: str) -> None:
        self._gate = folder / "gate"
        self._journal = Journal(folder, "runs")
        self._ends = Journal(folder, "ends")
        self._clocks = Journal(folder, "clocks")
        self._name = name

    def register(self, client: awa.AsyncClient, kind: str | None = None) -> None:
        """Register both kinds, or tasks alone under another kind."""
        client.registry.add(self.task, Task, kind=kind)
        if kind is None:
            client.registry.add(self.blocking, Blocking)

    async def task(self, job: awa.Job[Task]) -> None:
        """Run a `Task`."""
        self._note("started", job.args.key, job.attempt)
        try:
            match job.args.does:
                case "fail":
                    raise ValueError("as told")
                case "stay":
                    await asyncio.Event().wait()
                case "gate" | "fail_at_gate" | "rescue":
                    await self._opened()
                case "nap":
                    await asyncio.sleep(0.002)
                case _:
                    pass
            if job.args.does == "fail_at_gate" and job.attempt == 1:
                raise ValueError("as told")
        except asyncio.CancelledError:
            if job.args.does != "rescue":
                raise
            job.set_output({"by": self._name, "cancelled": True})
        else:
            job.set_output({"by": self._name, "key": job.args.key})
        finally:
            self._note("ended", job.args.key, job.attempt)

    def blocking(self, job: awa.Job[Blocking]) -> None:
        """Run a `Blocking`."""
        self._note("started", job.args.key, job.attempt)
        while not self._gate.exists():
            time.sleep(0.01)
        job.set_output({"by": self._name, "key": job.args.key})
        self._note("ended", job.args.key, job.attempt)

    def watch(self, worker: Worker) -> None:
        """Note what the database said to each end."""
        inner = worker.finisher.ended

        def ended(flush: Flush, stale: set[tuple[int, int]]) -> None:
            inner(flush, stale)
            for attempt in flush.sealed:
                at = attempt.claim.seqs.index(attempt.seq)
                key = orjson.loads(attempt.claim.args[at])["key"]
                lost = (attempt.claim.claim_id, attempt.seq) in stale
                word = type(attempt.outcome).__name__
                self._ends.note(("stale" if lost else "accepted", key, self._name, word))

        worker.finisher.ended = ended

    async def _opened(self) -> None:
        await eventually(self._gate.exists, timedelta(minutes=5), what="the gate")

    def _note(self, word: str, key: str, attempt: int) -> None:
        self._clocks.note((key, self._name, str(clock_offset())))
        self._journal.note((word, key, self._name, str(attempt), str(time.monotonic_ns())))
