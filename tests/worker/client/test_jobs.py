"""Looking at jobs and queues, and administering them."""

import asyncio
from datetime import UTC, datetime, timedelta

import asyncpg
import pytest

from awa import AsyncClient, AwaError, Job, JobNotFound, JobState, TerminalError, ValidationError
from awa.testing import work_all, work_one
from support.clients import Mail, MakeClient, Resize
from support.waiting import eventually

LATER = datetime.now(UTC) + timedelta(hours=12)
NO_JOB = 1023


@pytest.mark.parametrize("call", ["get_job", "cancel", "retry"])
async def test_a_job_that_does_not_exist_is_named_by_its_id(client: AsyncClient, call: str) -> None:
    with pytest.raises(JobNotFound, match=f"job not found: {NO_JOB}"):
        await getattr(client, call)(NO_JOB)


@pytest.mark.parametrize("call", ["get_job", "cancel", "retry"])
@pytest.mark.parametrize("job_id", ["secret", 2**63, None, 1.5])
async def test_what_is_no_job_id_is_refused_without_repeating_it(
    client: AsyncClient, call: str, job_id: object
) -> None:
    with pytest.raises((ValidationError, JobNotFound)) as refusal:
        await getattr(client, call)(job_id)
    assert "secret" not in str(refusal.value)


async def test_jobs_are_listed_by_state_kind_and_queue(client: AsyncClient) -> None:
    await client.insert_many([Mail("a", n) for n in range(3)], queue="mails")
    await client.insert(Mail("b"), run_at=LATER)
    await client.insert(Resize("c"))

    async def listed(**wanted: object) -> int:
        return len(await client.list_jobs(**wanted))  # type: ignore[arg-type]

    assert await listed() == 5
    assert await listed(limit=2) == 2
    assert await listed(state="scheduled") == await listed(state=JobState.Scheduled) == 1
    assert await listed(kind="mail") == 4
    assert await listed(queue="mails", state="available") == 3
    assert await listed(kind="resize", queue="mails") == 0
    assert await listed(state="failed") == 0


@pytest.mark.parametrize("wanted", [{"limit": 0}, {"limit": 10_001}, {"state": "sleeping"},
                                    {"limit": "many"}, {"limit": True}])  # fmt: skip
async def test_a_list_is_refused_for_arguments_outside_their_limits(
    client: AsyncClient, wanted: dict[str, object]
) -> None:
    with pytest.raises(ValidationError):
        await client.list_jobs(**wanted)  # type: ignore[arg-type]


async def test_counts_are_exact_and_per_queue(client: AsyncClient) -> None:
    @client.task(Mail)
    async def send(job: Job[Mail]) -> None:
        if job.args.n == 0:
            raise TerminalError("no")

    await client.insert_many([Mail("a", n) for n in range(4)], queue="mails")
    await work_all(client, "mails", limit=3)
    await client.insert(Mail("b"), queue="mails", run_at=LATER)
    await client.insert(Resize("c"), queue="images")

    (mails,) = await client.queue_counts("mails")
    assert (mails.completed, mails.failed, mails.available, mails.scheduled) == (2, 1, 1, 1)
    assert (mails.running, mails.retryable, mails.cancelled, mails.paused) == (0, 0, 0, False)
    assert mails.oldest_available_at is not None
    assert [c.queue for c in await client.queue_counts()] == ["images", "mails"]
    assert await client.queue_counts("nowhere") == []


async def test_a_waiting_job_is_cancelled_and_never_runs(client: AsyncClient) -> None:
    client.task(Mail)(_send)
    now, later = await client.insert_many([Mail("a"), Mail("b")], opts=[None, {"run_at": LATER}])

    assert str((await client.cancel(now.id)).state) == "cancelled"
    assert str((await client.cancel(later.id)).state) == "cancelled"
    assert not await work_one(client)
    assert str((await client.cancel(now.id)).state) == "cancelled"


async def test_a_job_that_has_ended_is_not_cancelled(client: AsyncClient) -> None:
    client.task(Mail)(_send)
    job = await client.insert(Mail("a"))
    await work_one(client)

    assert str((await client.cancel(job.id)).state) == "completed"


async def test_a_failed_job_is_retried_from_the_start(client: AsyncClient) -> None:
    @client.task(Mail)
    async def send(job: Job[Mail]) -> None:
        if not job.errors:
            raise TerminalError("no")

    job = await client.insert(Mail("a"))
    assert (await work_one(client)).is_failed

    again = await client.retry(job.id)
    assert (str(again.state), again.attempt, len(again.errors)) == ("available", 0, 1)
    assert (await work_one(client)).is_completed


async def test_a_retry_makes_a_scheduled_or_cancelled_job_due_now(client: AsyncClient) -> None:
    client.task(Mail)(_send)
    later, cancelled = await client.insert_many(
        [Mail("a"), Mail("b")], opts=[{"run_at": LATER}, None]
    )
    await client.cancel(cancelled.id)

    assert (await client.retry(later.id)).run_at <= datetime.now(UTC)
    assert (await client.retry(cancelled.id)).run_at <= datetime.now(UTC)
    assert len(await work_all(client)) == 2


async def test_a_job_that_is_ready_or_completed_is_not_retried(client: AsyncClient) -> None:
    client.task(Mail)(_send)
    job = await client.insert(Mail("a"))
    with pytest.raises(AwaError, match=f"job {job.id} is available"):
        await client.retry(job.id)
    await work_one(client)
    with pytest.raises(AwaError, match="is completed; only a job that failed"):
        await client.retry(job.id)


async def test_a_paused_queue_hands_nothing_out_until_it_is_resumed(client: AsyncClient) -> None:
    client.task(Mail)(_send)
    await client.insert(Mail("a"), queue="mails")
    await client.pause_queue("mails", "an operator")

    assert (await client.queue_counts("mails"))[0].paused
    assert not await work_one(client, "mails")
    await client.resume_queue("mails")
    assert (await work_one(client, "mails")).is_completed


async def test_a_queue_without_jobs_can_be_paused_and_a_running_one_resumed(
    client: AsyncClient,
) -> None:
    await client.pause_queue("later")
    await client.pause_queue("later")
    await client.resume_queue("never seen")
    await client.insert(Mail("a"), queue="later")
    assert (await client.queue_counts("later"))[0].paused


@pytest.mark.parametrize("call", ["pause_queue", "resume_queue"])
@pytest.mark.parametrize("queue", ["", "a\0b", "x" * 201, None, 7])
async def test_a_wrong_queue_name_is_refused(client: AsyncClient, call: str, queue: object) -> None:
    with pytest.raises(ValidationError, match="queue"):
        await getattr(client, call)(queue)


@pytest.mark.parametrize("connections", [1, 2])
async def test_every_call_works_with_a_small_pool(
    make_client: MakeClient, session: asyncpg.Connection, connections: int
) -> None:
    client = make_client(max_connections=connections)
    client.task(Mail)(_send)

    async with asyncio.timeout(60):
        assert await client.require_schema() == await client.migrate()
        job = await client.insert(Mail("a"))
        await client.insert_many([Mail("b"), Mail("c")], opts=[{"queue": "x"}, None])
        await client.insert_many_copy([Mail("d")])
        await client.enqueue_many_copy([Mail("e"), Mail("f")], opts=[None, {"run_at": LATER}])
        async with client.transaction() as transaction:
            await transaction.insert(Mail("g"), queue="y")
        await asyncio.gather(*(client.get_job(job.id) for _ in range(8)))
        assert len(await client.list_jobs()) == 7
        await client.cancel(job.id)
        await client.retry(job.id)
        await client.pause_queue("x")
        await client.resume_queue("x")
        await client.start([("default", 2), ("x", 1), ("y", 1)], poll_interval_ms=20)
        await _until_idle(client)
        assert await client.shutdown()
    completed = sum(counts.completed for counts in await client.queue_counts())
    assert completed == 6

    async def as_few_as_allowed() -> bool:
        return await _sessions(session) <= connections

    await eventually(as_few_as_allowed)


async def _until_idle(client: AsyncClient) -> None:
    while any(counts.available + counts.running for counts in await client.queue_counts()):
        pass  # each look is a round trip


async def _sessions(session: asyncpg.Connection) -> int:
    count: int = await session.fetchval(
        "select count(*) from pg_stat_activity where application_name like 'awa%'"
        " and datname = current_database()"
    )
    return count


async def _send(job: Job[Mail]) -> None:
    pass
