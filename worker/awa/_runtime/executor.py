"""Running one attempt after the other: decode args, call the handler, classify, seal, submit.

A coroutine handler is stepped at once; one that returns without waiting costs no trip through the
event loop. After a few milliseconds of that the loop gets a turn, so heartbeats and finishes go on.
A plain function runs in a thread. An attempt ends exactly once: its handler returned or raised.
"""

import asyncio
import logging
import threading
import time
from collections.abc import Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import Any

from awa._runtime.permits import Permits
from awa._runtime.recorder import Recorder
from awa._store.attempts import GIVEN_BACK, Claim, GivenBack, SealedAttempt
from awa.metrics import WorkerMetrics
from awa.outcome import COMPLETED, Failed, Outcome, classify, failed_for_good
from awa.registry import Handler, Registry
from awa.running import RunningJob

log = logging.getLogger("awa.executor")

SLICE_SECONDS = 0.005
"""How long handlers that never wait may keep the event loop to themselves."""

DEADLINE_ERROR = "hard deadline exceeded"


class Attempt:
    """One attempt whose handler waits for something."""

    __slots__ = (
        "claim", "handler", "job", "place", "recorder", "seq", "started_at", "stop_reason", "task",
    )  # fmt: skip

    def __init__(
        self,
        claim: Claim,
        seq: int,
        job: RunningJob[Any],
        handler: Handler,
        at: float,
        recorder: Recorder,
        place: int,
    ) -> None:
        self.claim = claim
        self.seq = seq
        self.job = job
        self.handler = handler
        self.recorder = recorder
        """Where it was noted: that of its own identity, whatever this process has become since."""
        self.place = place
        self.started_at = at
        self.task: asyncio.Task[Any] | Future[Any] | None = None
        self.stop_reason: str | None = None

    def stop(self, reason: str) -> None:
        """Ask the handler to stop; a coroutine is cancelled, a thread can only be asked."""
        if self.stop_reason is None:
            self.stop_reason = reason
        self.job.cancel()
        if isinstance(self.task, asyncio.Task):
            self.task.cancel(reason)


class Executor:
    """Runs the attempts of one process."""

    def __init__(
        self,
        registry: Registry,
        permits: Permits,
        submit: Any,
        metrics: WorkerMetrics,
        threads: int,
    ) -> None:
        self._handlers = {handler.kind: handler for handler in registry}
        self._permits = permits
        self._submit = submit
        self._metrics = metrics
        self._threads_wanted = threads
        self._threads: ThreadPoolExecutor | None = None
        self.recorder = Recorder(None, 0)
        self.waiting: dict[tuple[int, int], Attempt] = {}
        self.ended = asyncio.Event()

    @property
    def kinds(self) -> tuple[str, ...]:
        """Return the kinds that can run here."""
        return tuple(self._handlers)

    async def run(self, claims: Iterable[Claim]) -> None:
        """Start every attempt of some claims."""
        slice_end = time.perf_counter() + SLICE_SECONDS
        for claim in claims:
            for seq, item, args in zip(claim.seqs, claim.items, claim.args, strict=True):
                now = self._start(claim, seq, item, args)
                if now > slice_end:
                    await asyncio.sleep(0)
                    slice_end = time.perf_counter() + SLICE_SECONDS

    def running(self) -> list[tuple[int, int]]:
        """Return claim and place of every attempt that has started and not ended."""
        return list(self.waiting)

    def stop_attempt(self, claim_id: int, job_id: int, reason: str) -> None:
        """Ask the attempt of a job to stop."""
        for attempt in self.waiting.values():
            if attempt.claim.claim_id == claim_id and attempt.job.id == job_id:
                attempt.stop(reason)
                return

    def stop_all(self, reason: str) -> None:
        """Ask every attempt to stop."""
        for attempt in list(self.waiting.values()):
            attempt.stop(reason)

    def stop_overdue(self, now: float) -> None:
        """Ask attempts past their deadline to stop; `now` is the monotonic clock of `run`."""
        for attempt in list(self.waiting.values()):
            head = attempt.claim.head
            if head.deadline is None or attempt.stop_reason is not None:
                continue
            limit = (head.deadline - head.claimed_at).total_seconds()
            if now - attempt.started_at > limit:
                attempt.stop(DEADLINE_ERROR)

    async def finished(self) -> None:
        """Wait until nothing runs any more."""
        while self.waiting:
            self.ended.clear()
            await self.ended.wait()

    def close(self) -> None:
        """Let go of the threads; those that are stuck end with the process."""
        if self._threads is not None:
            self._threads.shutdown(wait=False, cancel_futures=True)

    def _start(self, claim: Claim, seq: int, item: Any, args_json: str) -> float:
        handler = self._handlers[item[1]]
        at = time.perf_counter()
        try:
            job: RunningJob[Any] = RunningJob(
                claim.head, item, handler.decode_args(args_json), handler.output_type
            )
        except Exception as error:  # noqa: BLE001 - args are whatever a producer stored
            job = RunningJob(claim.head, item, None)
            self._end(claim, seq, job, failed_for_good(error))
            self._metrics.ended(handler.kind, claim.head.queue, 0.0)
            return at
        place = self.recorder.note(claim.claim_id, seq)
        if not handler.is_async:
            self._start_thread(Attempt(claim, seq, job, handler, at, self.recorder, place))
            return at
        task = asyncio.Task(
            self._coroutine(handler, job), loop=self._permits.loop, eager_start=True
        )
        if task.done():
            now = time.perf_counter()
            self.recorder.clear(place)
            self._end(claim, seq, job, self._outcome(task, None, job))
            self._metrics.ended(handler.kind, claim.head.queue, now - at)
            return now
        attempt = Attempt(claim, seq, job, handler, at, self.recorder, place)
        attempt.task = task
        self.waiting[(claim.claim_id, seq)] = attempt
        task.add_done_callback(partial(self._task_done, attempt))
        return at

    @staticmethod
    def _coroutine(handler: Handler, job: RunningJob[Any]) -> Any:
        try:
            return handler.function(job)
        except Exception as error:  # noqa: BLE001 - before there is a coroutine
            return _raise(error)

    def _start_thread(self, attempt: Attempt) -> None:
        if self._threads is None:
            self._threads = ThreadPoolExecutor(self._threads_wanted, "awa handler")
        loop = self._permits.loop
        self.waiting[(attempt.claim.claim_id, attempt.seq)] = attempt
        future = self._threads.submit(attempt.handler.function, attempt.job)
        attempt.task = future

        def done(future: Future[Any]) -> None:
            if not loop.is_closed():
                loop.call_soon_threadsafe(self._task_done, attempt, future)

        future.add_done_callback(done)

    def _task_done(self, attempt: Attempt, task: "asyncio.Task[Any] | Future[Any]") -> None:
        del self.waiting[(attempt.claim.claim_id, attempt.seq)]
        attempt.recorder.clear(attempt.place)
        outcome = self._outcome(task, attempt.stop_reason, attempt.job)
        self._end(attempt.claim, attempt.seq, attempt.job, outcome)
        self._metrics.ended(
            attempt.handler.kind, attempt.claim.head.queue, time.perf_counter() - attempt.started_at
        )
        self.ended.set()

    @staticmethod
    def _outcome(
        task: "asyncio.Task[Any] | Future[Any]", stop_reason: str | None, job: RunningJob[Any]
    ) -> Outcome | GivenBack:
        if task.cancelled():
            if stop_reason is None:
                return Failed("CancelledError: the handler cancelled itself")
            return Failed(DEADLINE_ERROR) if stop_reason == DEADLINE_ERROR else GIVEN_BACK
        raised = task.exception()
        if raised is None:
            returned = task.result()
            return COMPLETED if returned is None else classify(returned)
        if isinstance(raised, Exception):
            log.info(
                "attempt failed",
                extra={"job": job.id, "kind": job.kind, "error": type(raised).__name__},
                exc_info=raised,
            )
            return classify(None, raised)
        return Failed(f"{type(raised).__name__} raised by the handler")

    def _end(
        self, claim: Claim, seq: int, job: RunningJob[Any], outcome: Outcome | GivenBack
    ) -> None:
        output = job.seal()
        progress = None
        if job.progress_buffer is not None and outcome is not COMPLETED:
            unwritten = job.progress_buffer.unwritten()
            progress = None if unwritten is None else unwritten.text
        self._permits.give(claim.head.queue)
        self._submit(SealedAttempt(claim, seq, outcome, output, progress))


async def _raise(error: Exception) -> None:
    raise error


def thread_stacks_alive(prefix: str = "awa handler") -> int:
    """Return how many handler threads live; for the end of a drain and for tests."""
    return sum(1 for thread in threading.enumerate() if thread.name.startswith(prefix))
