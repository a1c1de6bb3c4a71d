"""Running one attempt after the other: decode args, call the handler, classify, seal, submit.

A coroutine handler is stepped at once, inside a task. One that returns without waiting costs no
task of its own and no trip through the event loop: the same task steps the next. The first that
waits keeps the task for itself, so cancelling it reaches nobody else, and a new task goes on with
the rest. Each has a context of its own. After a few milliseconds the loop gets a turn, so that
heartbeats and finishes go on. A plain function runs in a thread, as `request` says. An attempt ends
exactly once: its handler returned or raised.
"""

import asyncio
import logging
import threading
import time
from collections.abc import Container, Generator, Iterable
from concurrent.futures import Future, ThreadPoolExecutor, thread
from contextvars import Context, copy_context
from typing import Any

from awa._runtime import request
from awa._runtime.permits import Permits
from awa._runtime.recorder import Recorder
from awa._store.attempts import GIVEN_BACK, Claim, GivenBack, Place, SealedAttempt
from awa.metrics import WorkerMetrics
from awa.outcome import COMPLETED, Failed, Outcome, classify, failed_for_good
from awa.registry import Handler, Registry
from awa.running import RunningJob

log = logging.getLogger("awa.executor")

SLICE_SECONDS = 0.005
"""How long handlers that never wait may keep the event loop to themselves."""

DEADLINE_ERROR = "hard deadline exceeded"

_OWN_FILES = {__file__, request.__file__, thread.__file__}


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
        self.waiting: dict[tuple[int, int, int], Attempt] = {}
        """By claim, place and token: after a lost time a claim's number comes again."""
        self.ended = asyncio.Event()

    @property
    def kinds(self) -> tuple[str, ...]:
        """Return the kinds that can run here."""
        return tuple(self._handlers)

    async def run(self, claims: Iterable[Claim]) -> None:
        """Start every attempt of some claims."""
        clock, loop = time.perf_counter, self._permits.loop
        slice_end = clock() + SLICE_SECONDS
        for claim in claims:
            position, count = 0, len(claim.seqs)
            while position < count:
                stepper = _Stepper(self, claim, position, slice_end)
                asyncio.Task(stepper.go(), loop=loop, eager_start=True)
                position = stepper.position
                if clock() > slice_end:
                    await asyncio.sleep(0)
                    slice_end = clock() + SLICE_SECONDS

    def running(self) -> list[Place]:
        """Return the place of every attempt that has started and not ended."""
        return [
            Place(attempt.claim.slot, attempt.claim.claim_id, attempt.seq)
            for attempt in self.waiting.values()
        ]

    def stop_attempt(self, claim_id: int, job_id: int, reason: str) -> None:
        """Ask the attempt of a job to stop."""
        for attempt in self.waiting.values():
            if attempt.claim.claim_id == claim_id and attempt.job.id == job_id:
                attempt.stop(reason)
                return

    def stop_ended(self, ended: Container[tuple[int, int]]) -> None:
        """Ask the attempts to stop whose claim and place somebody else has ended."""
        for attempt in list(self.waiting.values()):
            if attempt.stop_reason is None and (attempt.claim.claim_id, attempt.seq) in ended:
                attempt.stop("ended by somebody else")

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

    def job_of(self, claim: Claim, position: int) -> tuple[Handler, RunningJob[Any] | None]:
        """Make the job at a position of a claim; None when its args cannot be decoded."""
        item = claim.items[position]
        handler = self._handlers[item[1]]
        try:
            args = handler.decode_args(claim.args[position])
        except Exception as error:  # noqa: BLE001 - args are whatever a producer stored
            job: RunningJob[Any] = RunningJob(claim.head, item, None)
            self.ends(claim, claim.seqs[position], job, failed_for_good(error))
            self._permits.give(claim.head.queue)
            self._metrics.ended(handler.kind, claim.head.queue, 0.0)
            return handler, None
        return handler, RunningJob(claim.head, item, args, handler.output_type)

    def waits(self, attempt: Attempt) -> None:
        """Note that a handler waits for something."""
        claim = attempt.claim
        self.waiting[(claim.claim_id, attempt.seq, claim.token)] = attempt

    def waited(self, attempt: Attempt, outcome: Outcome | GivenBack) -> None:
        """End the attempt of a handler that waited."""
        claim = attempt.claim
        del self.waiting[(claim.claim_id, attempt.seq, claim.token)]
        attempt.recorder.clear(attempt.place)
        self.ends(claim, attempt.seq, attempt.job, outcome)
        self._permits.give(claim.head.queue)
        seconds = time.perf_counter() - attempt.started_at
        self._metrics.ended(attempt.handler.kind, claim.head.queue, seconds)
        self.ended.set()

    def ends(
        self, claim: Claim, seq: int, job: RunningJob[Any], outcome: Outcome | GivenBack
    ) -> None:
        """Seal an attempt and submit it."""
        output = job.seal()
        progress = None
        if job.progress_buffer is not None and outcome is not COMPLETED:
            unwritten = job.progress_buffer.unwritten()
            progress = None if unwritten is None else unwritten.text
        self._submit(SealedAttempt(claim, seq, outcome, output, progress))

    def stepped(self, claim: Claim, durations: dict[str, list[float]]) -> None:
        """Free the places and note the run times of attempts that ended without waiting."""
        queue = claim.head.queue
        for kind, seconds in durations.items():
            self._permits.give(queue, len(seconds))
            self._metrics.ended_many(kind, queue, seconds)

    def start_thread(self, attempt: Attempt) -> None:
        """Run a plain function in a thread."""
        if self._threads is None:
            self._threads = ThreadPoolExecutor(self._threads_wanted, "awa handler")
        loop = self._permits.loop
        self.waits(attempt)
        future = self._threads.submit(request.like_a_request, attempt.handler.function, attempt.job)
        attempt.task = future

        def done(future: Future[Any]) -> None:
            if not loop.is_closed():
                loop.call_soon_threadsafe(self._thread_done, attempt, future)

        future.add_done_callback(done)

    def _thread_done(self, attempt: Attempt, future: Future[Any]) -> None:
        if future.cancelled():
            outcome: Outcome | GivenBack = GIVEN_BACK
        else:
            raised = future.exception()
            outcome = (
                outcome_of_return(future.result())
                if raised is None
                else outcome_of_raise(raised, attempt.job, attempt.stop_reason)
            )
        self.waited(attempt, outcome)


class _Stepper:
    """Steps the handlers of one claim, one after the other, until one waits or time is up."""

    __slots__ = ("_claim", "_executor", "_slice_end", "position")

    def __init__(self, executor: Executor, claim: Claim, position: int, slice_end: float) -> None:
        self._executor = executor
        self._claim = claim
        self._slice_end = slice_end
        self.position = position

    async def go(self) -> None:
        executor, claim = self._executor, self._claim
        clock, recorder = time.perf_counter, executor.recorder
        claim_id, seqs, count = claim.claim_id, claim.seqs, len(claim.seqs)
        durations: dict[str, list[float]] = {}
        now = clock()
        while self.position < count and now <= self._slice_end:
            position = self.position
            self.position += 1
            at = now
            handler, job = executor.job_of(claim, position)
            if job is None:
                continue
            seq = seqs[position]
            place = recorder.note(claim_id, seq)
            attempt = None
            if handler.is_async:
                context = copy_context()
                try:
                    coroutine = handler.function(job)
                    first = context.run(coroutine.send, None)
                except StopIteration as stop:
                    outcome: Outcome | GivenBack = (
                        COMPLETED if stop.value is None else outcome_of_return(stop.value)
                    )
                except BaseException as raised:  # noqa: BLE001 - a handler may raise anything
                    outcome = outcome_of_raise(raised, job, None)
                else:
                    attempt = Attempt(claim, seq, job, handler, at, recorder, place)
                    executor.stepped(claim, durations)
                    await self._wait(attempt, _Resumed(coroutine, first, context))
                    return
                recorder.clear(place)
                executor.ends(claim, seq, job, outcome)
                now = clock()
                durations.setdefault(handler.kind, []).append(now - at)
            else:
                executor.start_thread(Attempt(claim, seq, job, handler, at, recorder, place))
                now = clock()
        executor.stepped(claim, durations)

    async def _wait(self, attempt: Attempt, resumed: "_Resumed") -> None:
        """Let a handler that waits have this task until it ends."""
        attempt.task = asyncio.current_task()
        self._executor.waits(attempt)
        try:
            outcome: Outcome | GivenBack = outcome_of_return(await resumed)
        except BaseException as raised:  # noqa: BLE001 - a handler may raise anything
            outcome = outcome_of_raise(raised, attempt.job, attempt.stop_reason)
        self._executor.waited(attempt, outcome)


class _Resumed:
    """The rest of a coroutine that has been stepped once, to be awaited by the task it runs in."""

    __slots__ = ("_context", "_coroutine", "_first")

    def __init__(self, coroutine: Any, first: Any, context: Context) -> None:
        self._coroutine = coroutine
        self._first = first
        self._context = context

    def __await__(self) -> Generator[Any, Any, Any]:
        run, coroutine, awaited = self._context.run, self._coroutine, self._first
        while True:
            try:
                sent = yield awaited
            except GeneratorExit:
                coroutine.close()
                raise
            except BaseException as thrown:  # noqa: BLE001 - the coroutine decides about it
                step, value = coroutine.throw, thrown
            else:
                step, value = coroutine.send, sent
            try:
                awaited = run(step, value)
            except StopIteration as stop:
                return stop.value


def outcome_of_return(returned: object) -> Outcome:
    """Return the outcome of a handler that returned."""
    return COMPLETED if returned is None else classify(returned)


def outcome_of_raise(
    raised: BaseException, job: RunningJob[Any], stop_reason: str | None
) -> Outcome | GivenBack:
    """Return the outcome of a handler that raised, or was cancelled for `stop_reason`."""
    if isinstance(raised, Exception):
        _hide_own_frames(raised)
        log.info(
            "attempt failed",
            extra={"job": job.id, "kind": job.kind, "error": type(raised).__name__},
            exc_info=raised,
        )
        return classify(None, raised)
    if isinstance(raised, asyncio.CancelledError) and stop_reason is not None:
        return Failed(DEADLINE_ERROR) if stop_reason == DEADLINE_ERROR else GIVEN_BACK
    return Failed(f"{type(raised).__name__} raised by the handler")


def _hide_own_frames(raised: BaseException) -> None:
    """Let a traceback begin in the handler, where its reader looks."""
    entry = raised.__traceback__
    while entry is not None and entry.tb_frame.f_code.co_filename in _OWN_FILES:
        entry = entry.tb_next
    raised.__traceback__ = entry


def thread_stacks_alive(prefix: str = "awa handler") -> int:
    """Return how many handler threads live; for the end of a drain and for tests."""
    return sum(1 for thread in threading.enumerate() if thread.name.startswith(prefix))
