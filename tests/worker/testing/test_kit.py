"""The test kit runs jobs on the real path: what it says is what production would do."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest

from awa import (
    AsyncClient,
    Cancel,
    Job,
    OutputError,
    OutputInvalid,
    RetryAfter,
    Snooze,
    TerminalError,
)
from awa.testing import NO_JOB, handler_job, work_all, work_one
from support.clients import Mail, Resize
from support.postgres import Database
from support.waiting import eventually


@pytest.fixture
async def client(database: Database) -> AsyncIterator[AsyncClient]:
    async with AsyncClient(database.dsn, 2) as client:
        yield client


@dataclass
class Size:
    width: int
    height: int


def _raises(error: BaseException) -> Any:
    raise error


RETURNS: dict[str, Any] = {
    "nothing": lambda job: None,
    "a dict": lambda job: {"ignored": True},
    "cancel": lambda job: Cancel("not wanted"),
    "snooze": lambda job: Snooze(60),
    "retry after": lambda job: RetryAfter(60),
    "error": lambda job: _raises(ValueError("broken")),
    "terminal": lambda job: _raises(TerminalError("hopeless")),
}


@pytest.mark.parametrize(
    ("case", "state", "property_"),
    [
        ("nothing", "completed", "is_completed"),
        ("a dict", "completed", "is_completed"),
        ("cancel", "cancelled", "is_cancelled"),
        ("snooze", "scheduled", "is_snoozed"),
        ("retry after", "retryable", "is_retryable"),
        ("error", "retryable", "is_retryable"),
        ("terminal", "failed", "is_failed"),
    ],
)
@pytest.mark.parametrize("is_async", [True, False])
async def test_every_outcome_is_told_by_the_one_property_and_the_row(
    client: AsyncClient, case: str, state: str, property_: str, is_async: bool
) -> None:
    async def asynchronous(job: Job[Mail]) -> Any:
        await asyncio.sleep(0)
        return RETURNS[case](job)

    def blocking(job: Job[Mail]) -> Any:
        return RETURNS[case](job)

    client.task(Mail)(asynchronous if is_async else blocking)
    job = await client.insert(Mail("a"))

    done = await work_one(client)

    assert done
    assert done.job == await client.get_job(job.id)
    assert done.job is not None
    assert str(done.job.state) == state
    told = {
        name
        for name in ("is_completed", "is_cancelled", "is_snoozed", "is_retryable", "is_failed")
        if getattr(done, name)
    }
    assert told == {property_}


async def test_a_retryable_failure_writes_its_entry_and_the_last_attempt_fails(
    client: AsyncClient,
) -> None:
    @client.task(Mail)
    async def send(job: Job[Mail]) -> None:
        raise ValueError(f"attempt {job.attempt}")

    job = await client.insert(Mail("a"), max_attempts=2)
    first = await work_one(client)
    assert first.is_retryable
    assert first.error is not None
    assert first.error.startswith("ValueError: attempt 1")
    assert (await work_one(client)) is NO_JOB  # not due yet

    await client.retry(job.id)
    second = await work_one(client)
    assert second.is_failed
    assert not second.is_retryable
    assert second.job is not None
    assert [entry["attempt"] for entry in second.job.errors] == [1, 2]


async def test_outputs_are_on_the_row_that_is_read_again(client: AsyncClient) -> None:
    @client.task(Resize, output=Size)
    async def resize(job: Job[Resize]) -> None:
        job.set_output(Size(3, 4))
        if job.args.path == "bad":
            raise TerminalError("no")

    await client.insert_many([Resize("good"), Resize("bad")])
    good, bad = await work_all(client)

    assert good.job is not None
    assert good.job.output == {"width": 3, "height": 4}
    assert good.job.output_as(Size) == Size(3, 4)
    assert bad.job is not None
    assert bad.job.output is None
    assert bad.job.error_output_as(Size) == Size(3, 4)


async def test_a_job_without_a_handler_is_handed_back_untouched(client: AsyncClient) -> None:
    @client.task(Mail)
    async def send(job: Job[Mail]) -> None:
        pass

    unknown = await client.insert(Resize("a"))
    await client.insert(Mail("b"))

    results = await work_all(client)
    assert [result.job.kind for result in results if result.job] == ["mail"]
    found = await client.get_job(unknown.id)
    # Put off, so that workers which know the kind get it and this one not again at once.
    assert (str(found.state), found.attempt, found.errors) == ("scheduled", 0, [])


async def test_due_jobs_of_one_queue_are_worked_in_the_order_of_their_priority(
    client: AsyncClient,
) -> None:
    seen: list[str] = []

    @client.task(Mail)
    async def send(job: Job[Mail]) -> None:
        seen.append(job.args.to)

    now = datetime.now(UTC)
    await client.insert_many(
        [Mail("low"), Mail("high"), Mail("due"), Mail("later"), Mail("elsewhere")],
        opts=[
            {"priority": 4}, {"priority": 1}, {"run_at": now - timedelta(seconds=1)},
            {"run_at": now + timedelta(hours=1)}, {"queue": "x"},
        ],
    )  # fmt: skip

    assert len(await work_all(client, limit=2)) == 2
    assert len(await work_all(client)) == 1
    assert (seen[0], set(seen)) == ("high", {"low", "high", "due"})
    assert not await work_one(client)
    assert (await work_one(client, "x")).is_completed


VALUES = [
    1, -0.0, "ä", [1, (2, 3)], {"a": None}, Size(1, 2), True,
    float("nan"), float("inf"), 10**30, Decimal(1), datetime.now(UTC), b"x", {1}, {1: 2},
    "a\0b", "\ud800", "x" * 5000, object(),
]  # fmt: skip


@pytest.mark.parametrize("at", range(len(VALUES)))
async def test_the_converter_gives_the_verdicts_of_production(client: AsyncClient, at: int) -> None:
    value = VALUES[at]

    @client.task(Mail)
    async def send(job: Job[Mail]) -> None:
        job.set_output(value)

    by_itself: Job[Mail] = handler_job(Mail("a"))
    try:
        await send(by_itself)
        verdict: object = by_itself.output
    except OutputError as error:
        verdict = f"{type(error).__name__}: {error}"

    await client.insert(Mail("a"))
    in_kit = await work_one(client)
    in_worker = await _worked(client)

    for job in (in_kit.job, in_worker):
        assert job is not None
        if isinstance(verdict, str) and verdict.startswith("Output"):
            assert str(job.state) == "failed"
            assert job.errors[-1]["error"].startswith(verdict)
        else:
            assert str(job.state) == "completed"
            assert job.output == verdict


async def _worked(client: AsyncClient) -> Job[Any]:
    job = await client.insert(Mail("a"), queue="worker")
    await client.start([("worker", 1)], poll_interval_ms=20)

    async def ended() -> bool:
        return (await client.get_job(job.id)).state.is_terminal

    try:
        await eventually(ended)
    finally:
        await client.shutdown()
    return await client.get_job(job.id)


async def test_it_works_beside_a_running_worker(client: AsyncClient, database: Database) -> None:
    counts = {"kit": 0, "worker": 0}
    async with AsyncClient(database.dsn) as worker:

        @worker.task(Mail)
        async def by_worker(job: Job[Mail]) -> None:
            counts["worker"] += 1

        @client.task(Mail)
        async def by_kit(job: Job[Mail]) -> None:
            counts["kit"] += 1

        await worker.start([("other", 4)], poll_interval_ms=20)
        await client.insert_many(
            [Mail("a", n) for n in range(40)], opts=[{"queue": "other"}, None] * 20
        )
        assert len(await work_all(client)) == 20

        async def all_done() -> bool:
            return sum(c.completed for c in await client.queue_counts()) == 40

        await eventually(all_done)
    assert counts == {"kit": 20, "worker": 20}


async def test_a_handler_is_called_by_itself_without_a_database() -> None:
    async def resize(job: Job[Resize]) -> None:
        job.set_progress(50, "half")
        job.set_output(Size(1, 2))

    job = handler_job(Resize("a"), queue="images", attempt=3, output=Size)
    await resize(job)

    assert (job.args, job.queue, job.attempt, job.kind) == (Resize("a"), "images", 3, "resize")
    assert job.output == {"width": 1, "height": 2}
    assert job.progress == {"percent": 50, "message": "half"}
    assert not job.is_cancelled()
    with pytest.raises(OutputInvalid):
        job.set_output(Mail("a"))
