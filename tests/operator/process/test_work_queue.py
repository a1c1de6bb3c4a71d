"""Running work by key: concurrency, retries, pauses, and what liveness reads."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import timedelta

import pytest

from awa_operator.errors import ApiConflict, ApiTooManyRequests
from awa_operator.work_queue import Backoff, Result, WorkQueue
from support.waiting import eventually

FAST = Backoff(timedelta(milliseconds=20), timedelta(milliseconds=100))


@asynccontextmanager
async def running(
    handle: Callable[[str], Awaitable[timedelta | None]], **options: object
) -> AsyncIterator[WorkQueue[str]]:
    queue: WorkQueue[str] = WorkQueue(handle, **{"backoff": FAST, **options})  # type: ignore[arg-type]
    task = asyncio.create_task(queue.run())
    try:
        yield queue
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


class Work:
    """Handles keys: holds each until it is let go, if asked to; fails as often as told."""

    def __init__(self, *, held: bool = False, errors: list[Exception] | None = None) -> None:
        self.began: list[str] = []
        self.ended: list[str] = []
        self.most_at_once = 0
        self.let_go = asyncio.Event()
        self._errors = errors or []
        if not held:
            self.let_go.set()

    async def __call__(self, key: str) -> timedelta | None:
        self.began.append(key)
        self.most_at_once = max(self.most_at_once, len(self.began) - len(self.ended))
        try:
            await self.let_go.wait()
            if self._errors:
                raise self._errors.pop(0)
        finally:
            self.ended.append(key)
        return None


async def test_no_key_runs_beside_itself_and_what_comes_meanwhile_runs_after_it():
    work = Work(held=True)
    async with running(work) as queue:
        queue.add("a")
        await eventually(lambda: work.began == ["a"])
        for _ in range(5):
            queue.add("a")
        work.let_go.set()
        await eventually(lambda: work.ended == ["a", "a"])
    assert work.most_at_once == 1


async def test_at_most_as_many_keys_as_allowed_run_at_once():
    work = Work(held=True)
    async with running(work, concurrency=3) as queue:
        for number in range(10):
            queue.add(str(number))
        await eventually(lambda: len(work.began) == 3)
        assert queue.depth == 7
        work.let_go.set()
        await eventually(lambda: len(work.ended) == 10)
    assert work.most_at_once == 3


async def test_a_key_that_fails_comes_back_until_it_works():
    work = Work(errors=[RuntimeError("one"), RuntimeError("two")])
    async with running(work) as queue:
        queue.add("a")
        await eventually(lambda: work.ended == ["a"] * 3)
        assert queue.depth == 0


async def test_a_conflict_is_tried_again_at_once():
    work = Work(errors=[ApiConflict("a", status=409)])
    slow = Backoff(timedelta(seconds=60), timedelta(seconds=60))
    async with running(work, backoff=slow) as queue:
        queue.add("a")
        await eventually(lambda: work.ended == ["a", "a"])


async def test_a_conflict_does_not_count_as_an_error():
    results: list[Result] = []

    class Notes:
        def started(self, waited_seconds: float, depth: int) -> None: ...

        def ended(self, took_seconds: float, waited_seconds: float, result: Result) -> None:
            results.append(result)

    work = Work(errors=[ApiConflict("a", status=409), RuntimeError("one")])
    async with running(work, notes=Notes()) as queue:
        queue.add("a")
        await eventually(lambda: results == ["conflict", "error", "success"])


async def test_a_server_that_asks_for_patience_gets_it():
    late = timedelta(milliseconds=300)
    work = Work(errors=[ApiTooManyRequests("a", retry_after=late)])
    loop = asyncio.get_running_loop()
    async with running(work) as queue:
        began = loop.time()
        queue.add("a")
        await eventually(lambda: work.ended == ["a", "a"])
        assert loop.time() - began >= late.total_seconds()


async def test_a_key_comes_back_when_its_handler_said_so():
    calls = 0

    async def handle(_: str) -> timedelta | None:
        nonlocal calls
        calls += 1
        return timedelta(milliseconds=30) if calls < 3 else None

    async with running(handle) as queue:
        queue.add("a")
        await eventually(lambda: calls == 3)


async def test_a_run_that_takes_too_long_is_ended_and_tried_again():
    work = Work(held=True)
    async with running(work, timeout=timedelta(milliseconds=50)) as queue:
        queue.add("a")
        await eventually(lambda: len(work.ended) >= 1)
        work.let_go.set()
        await eventually(lambda: len(work.began) >= 2 and queue.running == 0)


async def test_one_slow_key_does_not_hold_up_the_others():
    release = asyncio.Event()
    done: list[str] = []

    async def handle(key: str) -> None:
        if key == "slow":
            await release.wait()
        done.append(key)

    async with running(handle, concurrency=2) as queue:
        queue.add("slow")
        for number in range(5):
            queue.add(str(number))
        await eventually(lambda: len(done) == 5)
        assert "slow" not in done
        release.set()


async def test_a_paused_queue_starts_nothing_and_forgets_nothing():
    work = Work()
    async with running(work) as queue:
        queue.pause()
        queue.add("a")
        await asyncio.sleep(0)
        assert work.began == []
        queue.resume()
        await eventually(lambda: work.ended == ["a"])


async def test_a_drain_waits_for_what_runs_and_starts_nothing_more():
    work = Work(held=True)
    async with running(work, concurrency=1) as queue:
        queue.add("a")
        await eventually(lambda: work.began == ["a"])
        queue.add("b")
        draining = asyncio.create_task(queue.drain(timedelta(seconds=5)))
        await asyncio.sleep(0)
        work.let_go.set()
        assert await draining
        assert work.ended == ["a"]


async def test_a_drain_has_a_limit():
    work = Work(held=True)
    async with running(work) as queue:
        queue.add("a")
        await eventually(lambda: work.began == ["a"])
        assert not await queue.drain(timedelta(milliseconds=20))


async def test_ending_the_queue_ends_what_runs():
    work = Work(held=True)
    async with running(work) as queue:
        queue.add("a")
        await eventually(lambda: work.began == ["a"])
    assert work.ended == ["a"]


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


async def test_work_that_is_there_and_does_not_get_done_shows():
    work, clock = Work(held=True), Clock()
    async with running(work, clock=clock) as queue:
        assert queue.stuck_for() == timedelta(0)
        queue.add("a")
        await eventually(lambda: work.began == ["a"])
        clock.now += 90
        assert queue.stuck_for() == timedelta(seconds=90)
        work.let_go.set()
        await eventually(lambda: queue.running == 0)
        clock.now += 90
        assert queue.stuck_for() == timedelta(0)


async def test_a_paused_queue_is_not_stuck():
    clock = Clock()
    async with running(Work(), clock=clock) as queue:
        queue.pause()
        queue.add("a")
        clock.now += 1000
        assert queue.stuck_for() == timedelta(0)
        assert queue.depth == 1


@pytest.mark.parametrize("keys", [1, 200])
async def test_a_queue_that_gets_work_done_is_not_stuck_however_much_there_is(keys):
    clock = Clock()

    async def handle(_: str) -> None:
        clock.now += 1

    async with running(handle, clock=clock, concurrency=1) as queue:
        for number in range(keys):
            queue.add(str(number))
        await eventually(lambda: queue.depth == 0 and queue.running == 0)
        assert queue.stuck_for() == timedelta(0)
