"""Handlers that share a task while they do not wait still have everything to themselves."""

import asyncio
import contextvars
from dataclasses import dataclass
from datetime import timedelta

import pytest

import awa
from support.waiting import eventually

tenant = contextvars.ContextVar[str]("tenant", default="nobody")


@dataclass
class Step:
    n: int


@pytest.fixture
async def client(database):
    async with awa.AsyncClient(database.dsn) as client:
        yield client


async def work(client: awa.AsyncClient, handler, count: int, *, done) -> None:
    """Enqueue jobs 0 … count-1, work until `done()`."""
    client.registry.add(handler, Step, queue="default")
    await client.insert_many([Step(n) for n in range(count)], queue="default")
    await client.start([("default", 50)])
    await eventually(done, timedelta(seconds=10), what="the handlers")
    await client.shutdown()


async def test_a_context_variable_does_not_reach_the_next_job(client):
    seen: dict[int, list[str]] = {}

    async def handler(job: awa.Job[Step]) -> None:
        found = [tenant.get()]
        tenant.set(f"tenant {job.args.n}")
        if job.args.n % 3 == 0:
            await asyncio.sleep(0.01)
        found.append(tenant.get())
        seen[job.args.n] = found

    await work(client, handler, 30, done=lambda: len(seen) == 30)
    assert seen == {n: ["nobody", f"tenant {n}"] for n in range(30)}


async def test_every_handler_runs_in_a_task_that_timeouts_can_use(client):
    outcomes: dict[int, str] = {}

    async def handler(job: awa.Job[Step]) -> None:
        assert asyncio.current_task() is not None
        try:
            async with asyncio.timeout(0.05), asyncio.TaskGroup() as group:
                if job.args.n % 2:
                    group.create_task(asyncio.sleep(5))
        except TimeoutError:
            outcomes[job.args.n] = "late"
        else:
            outcomes[job.args.n] = "in time"

    await work(client, handler, 10, done=lambda: len(outcomes) == 10)
    assert outcomes == {n: "late" if n % 2 else "in time" for n in range(10)}
    assert [counts.completed for counts in await client.queue_counts()] == [10]


async def test_cancelling_one_attempt_reaches_no_other(client):
    started, ended, cancelled = set(), set(), set()
    release = asyncio.Event()

    async def handler(job: awa.Job[Step]) -> None:
        started.add(job.args.n)
        try:
            await release.wait()
        except asyncio.CancelledError:
            cancelled.add(job.args.n)
            raise
        ended.add(job.args.n)

    client.registry.add(handler, Step, queue="default")
    jobs = await client.insert_many([Step(n) for n in range(5)])
    await client.start([("default", 50)])
    await eventually(lambda: len(started) == 5, timedelta(seconds=10), what="all to start")
    await eventually(lambda: client.worker.listener.works, what="the listener")
    await client.cancel(jobs[2].id)
    await eventually(lambda: cancelled == {2}, timedelta(seconds=10), what="the cancellation")
    release.set()
    await eventually(lambda: len(ended) == 4, timedelta(seconds=10), what="the others")
    await client.shutdown()
    assert str((await client.get_job(jobs[2].id)).state) == "cancelled"


async def test_a_traceback_begins_in_the_handler(client):
    failed = []

    async def handler(job: awa.Job[Step]) -> None:
        failed.append(job.id)
        if job.args.n:
            await asyncio.sleep(0)
        raise awa.TerminalError("broken on purpose")

    await work(client, handler, 2, done=lambda: len(failed) == 2)
    for job_id in failed:
        text = (await client.get_job(job_id)).errors[0]["error"]
        assert text.splitlines()[0] == "TerminalError: broken on purpose"
        assert "in handler" in text.splitlines()[1]


async def test_handlers_that_never_wait_leave_the_loop_a_turn(client):
    turns, ran = 0, 0

    async def handler(job: awa.Job[Step]) -> None:
        nonlocal ran
        ran += 1
        end = asyncio.get_running_loop().time
        sum(range(100_000))  # a few milliseconds without waiting
        assert end() > 0

    async def count_turns() -> None:
        nonlocal turns
        while ran < 200:
            await asyncio.sleep(0)
            turns += bool(ran)

    counting = asyncio.create_task(count_turns())
    await work(client, handler, 200, done=lambda: ran == 200)
    await counting
    assert turns > 20
