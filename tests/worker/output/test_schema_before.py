"""A release that knows outputs on a schema that has no place for them, and when it gets one."""

from datetime import timedelta

import pytest

import awa
import awa_migrations
from awa import JobState
from support.waiting import eventually

QUEUE = "q"


@pytest.fixture
async def client(old_database):
    """A client of the old schema whose worker records an output for every job."""
    async with awa.AsyncClient(old_database.dsn, 4) as opened:

        @opened.task(kind="work")
        async def work(job: awa.Job[dict]) -> object:
            job.set_output({"for": job.args["n"]})
            match job.args.get("end"):
                case "fail":
                    raise awa.TerminalError("as told")
                case "snooze":
                    return awa.Snooze(3600)
                case "retry":
                    return awa.RetryAfter(3600)
                case "cancel":
                    return awa.Cancel("as told")
                case _:
                    return None

        yield opened


async def start(client) -> None:
    await client.start([(QUEUE, 10)], poll_interval_ms=50)


async def ended(client, job, state: JobState):
    async def there() -> bool:
        return (await client.get_job(job.id)).state is state

    await eventually(there, timedelta(seconds=20))
    return await client.get_job(job.id)


async def test_outputs_of_successes_are_dropped_and_counted_and_all_else_works(client):
    await start(client)
    job = await client.insert({"n": 1}, kind="work", queue=QUEUE)
    found = await ended(client, job, JobState.Completed)
    assert found.output is None
    metrics = client.worker.metrics
    await eventually(lambda: metrics.dropped)
    assert dict(metrics.dropped) == {("work", QUEUE, "schema_missing"): 1}
    assert dict(metrics.outputs) == {}


@pytest.mark.parametrize(
    ("end", "state", "error"),
    [
        ("fail", JobState.Failed, "TerminalError: as told"),
        ("retry", JobState.Retryable, "retry requested after 3600s"),
        ("cancel", JobState.Cancelled, "cancelled: as told"),
    ],
)
async def test_outputs_of_failures_need_no_new_schema(client, end, state, error):
    await start(client)
    job = await client.insert({"n": 1, "end": end}, kind="work", queue=QUEUE)
    (entry,) = (await ended(client, job, state)).errors
    assert entry["error"].splitlines()[0] == error
    assert entry["output"] == {"for": 1}
    metrics = client.worker.metrics
    await eventually(lambda: metrics.outputs)
    assert dict(metrics.outputs) == {("work", QUEUE, "failed"): 1}
    assert dict(metrics.dropped) == {}


async def test_a_snooze_s_output_is_dropped_for_its_own_reason(client):
    await start(client)
    job = await client.insert({"n": 1, "end": "snooze"}, kind="work", queue=QUEUE)
    await ended(client, job, JobState.Scheduled)
    metrics = client.worker.metrics
    await eventually(lambda: metrics.dropped)
    assert dict(metrics.dropped) == {("work", QUEUE, "outcome"): 1}


@pytest.mark.slow
async def test_the_new_schema_is_noticed_without_a_restart(client, old_database):
    await start(client)
    first = await client.insert({"n": 0}, kind="work", queue=QUEUE)
    await ended(client, first, JobState.Completed)
    await awa_migrations.migrate(old_database.dsn)
    assert (await client.get_job(first.id)).output is None

    async def stored() -> bool:
        job = await client.insert({"n": 1}, kind="work", queue=QUEUE)
        return (await ended(client, job, JobState.Completed)).output == {"for": 1}

    # It asks again every 30 seconds; the rest is room for a busy machine.
    await eventually(stored, timedelta(seconds=60))


async def test_a_yes_is_remembered_and_a_worker_that_starts_after_the_migration_stores_at_once(
    client, old_database
):
    await awa_migrations.migrate(old_database.dsn)
    await start(client)
    for number in range(3):
        job = await client.insert({"n": number}, kind="work", queue=QUEUE)
        found = await ended(client, job, JobState.Completed)
        assert found.output == {"for": number}
    assert dict(client.worker.metrics.outputs) == {("work", QUEUE, "completed"): 3}
