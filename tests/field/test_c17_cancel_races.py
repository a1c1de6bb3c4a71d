"""C17: of a cancel and anything else that ends an attempt one wins, and no worker minds losing.

Every pair forced by locks is in tests/worker/engine/test_admin.py; the answer for a job that has
ended (line 2) in tests/cli/test_job_command.py.
"""

import asyncio
import random
from collections import Counter
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

import awa
from awa import JobState
from support.fleet.tasks import QUEUE, Task, quick
from support.sizes import sized
from support.waiting import eventually

ROUNDS = sized(300, 500)
RETRY_ROUNDS = 200
TOGETHER = 25
MOMENT = 0.012
ENDS = ("complete", "raise", "retry after", "snooze", "cancel")
SOON = timedelta(seconds=60)


class Racing:
    """Handlers that take a random moment and then end as they are told."""

    def __init__(self, chance: random.Random) -> None:
        self._chance = chance
        self.started = Counter[int]()
        self.cancelled: set[int] = set()
        self.started_after: list[int] = []
        self.interrupted = 0

    async def handle(self, job: awa.Job[dict[str, Any]]) -> object:
        self.started[job.id] += 1
        if job.id in self.cancelled:
            self.started_after.append(job.id)
        try:
            await self.moment()
        except asyncio.CancelledError:
            self.interrupted += 1
            raise
        match job.args["ends"]:
            case "raise":
                raise ValueError("as told")
            case "retry after":
                return awa.RetryAfter(3600)
            case "snooze":
                return awa.Snooze(3600)
            case "cancel":
                return awa.Cancel("as told")
            case _:
                return None

    async def moment(self) -> None:
        """Let some time pass, which is the point."""
        await asyncio.sleep(self._chance.random() * MOMENT)


@pytest.mark.slow
@pytest.mark.timeout(300)
async def test_whatever_a_cancel_meets_each_job_settles_and_a_cancelled_one_never_runs_again(fleet):
    racing = Racing(random.Random(17))  # noqa: S311 - chance, not secrets
    worker = awa.AsyncClient(fleet.dsn, 6)
    worker.registry.add(racing.handle, dict, kind="race")
    await worker.start(settings=quick(max_workers=TOGETHER), name="w")

    async def cancelled(job: awa.Job[Any]) -> tuple[int, JobState]:
        if job.args["waits"]:
            await eventually(lambda: racing.started[job.id], SOON)
        await racing.moment()
        asked_at[job.id] = datetime.now(UTC)
        found = (await fleet.client.cancel(job.id)).state
        if found is JobState.Cancelled:
            racing.cancelled.add(job.id)
        return job.id, found

    asked_at: dict[int, datetime] = {}
    answers: dict[int, JobState] = {}
    jobs: list[awa.Job[Any]] = []
    for start in range(0, ROUNDS, TOGETHER):
        numbers = range(start, start + TOGETHER)
        args = [{"ends": ENDS[number % 5], "waits": number % 10 > 2} for number in numbers]
        some = await fleet.client.insert_many(args, kind="race", queue=QUEUE)
        jobs += some
        answers |= dict(await asyncio.gather(*map(cancelled, some)))
        await fleet.quiet(60)
    for job in jobs:
        now = await fleet.client.get_job(job.id)
        assert now.state is answers[job.id]
        assert now.state in {JobState.Cancelled, JobState.Completed}
        assert now.finalized_at - asked_at[job.id] < timedelta(seconds=2)
    assert racing.started_after == []
    assert racing.interrupted > 0
    assert set(answers.values()) == {JobState.Cancelled, JobState.Completed}
    assert worker.worker is not None
    assert await worker.shutdown()
    await worker.close()


async def test_a_cancel_that_no_notification_tells_of_reaches_its_handler_with_a_heartbeat(
    fleet, engine
):
    await engine.change(
        "cancel_v1", ("'admin_cancel')]);", "'admin_cancel')]);\nreturn 'running';")
    )
    cancelled: list[str] = []
    cleaned: list[str] = []

    async def wait(job: awa.Job[dict[str, Any]]) -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.append(job.args["name"])
            beats = worker.worker.heartbeat.progressed_at
            await eventually(lambda: worker.worker.heartbeat.progressed_at > beats + 1, SOON)
            cleaned.append(job.args["name"])
            raise

    worker = awa.AsyncClient(fleet.dsn, 6)
    worker.registry.add(wait, dict, kind="wait")
    await worker.start(settings=quick(), name="w")
    one = await fleet.client.insert({"name": "one"}, kind="wait", queue=QUEUE)
    await fleet.client.insert({"name": "other"}, kind="wait", queue=QUEUE)

    async def running() -> bool:
        return (await fleet.counts()).running == 2

    await eventually(running, SOON)
    await fleet.client.cancel(one.id)
    await eventually(lambda: cleaned, SOON, what="the handler to clean up, beside heartbeats")
    assert cancelled == ["one"]
    assert await running() is False
    await worker.shutdown()
    await worker.close()


async def test_of_a_cancel_and_a_retry_at_once_one_is_the_last_word(fleet):
    for start in range(0, RETRY_ROUNDS, TOGETHER):
        tasks = [Task(f"k{number}") for number in range(start, start + TOGETHER)]
        jobs = await fleet.client.insert_many(tasks, queue=QUEUE)
        for job in jobs:
            await fleet.client.cancel(job.id)
        calls = [call(job.id) for job in jobs for call in (fleet.client.cancel, fleet.client.retry)]
        await asyncio.gather(*calls)
    ready = await fleet.client.list_jobs("available", limit=RETRY_ROUNDS)
    cancelled = await fleet.client.list_jobs("cancelled", limit=RETRY_ROUNDS)
    assert len(ready) + len(cancelled) == RETRY_ROUNDS
    await fleet.embedded("w")
    await fleet.quiet(60)
    assert fleet.keys_started() == Counter(job.args["key"] for job in ready)
    counts = await fleet.counts()
    assert (counts.completed, counts.cancelled) == (len(ready), len(cancelled))


async def test_a_pause_outlives_every_worker_and_is_ended_from_elsewhere(fleet, connect):
    session = await connect(fleet.dsn)
    await fleet.client.insert(Task("before"), queue=QUEUE)
    patient = {"heartbeat_staleness_ms": 600_000}  # a busy machine declares nobody dead
    first = await fleet.process("one", **patient)
    await fleet.started("before")
    await fleet.quiet(60)
    await fleet.client.pause_queue(QUEUE, paused_by="the night shift")
    await fleet.client.insert_many([Task(f"paused{n}") for n in range(5)], queue=QUEUE)
    assert await first.stop() == 0
    second, third = await fleet.process("two", **patient), await fleet.process("three", **patient)

    async def both_work() -> bool:
        beating = "select count(*) from awa.runtime_instances where last_seen > started_at"
        return await session.fetchval(f"{beating} and dead_at is null") == 2

    await eventually(both_work, SOON, what="two workers that beat")
    assert (await fleet.counts()).paused
    assert set(fleet.keys_started()) == {"before"}
    async with awa.AsyncClient(fleet.dsn) as elsewhere:
        await elsewhere.resume_queue(QUEUE)
    await fleet.quiet(60)
    assert fleet.keys_started() == Counter(["before", *(f"paused{n}" for n in range(5))])
    for worker in (second, third):
        assert await worker.stop() == 0
