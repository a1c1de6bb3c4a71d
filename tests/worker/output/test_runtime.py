"""Outputs from the handler to the reader: sealing, stripping, and who sees what."""

import asyncio
from datetime import timedelta

import pytest

import awa
from awa import JobState
from support.waiting import eventually

QUEUE = "q"


@pytest.fixture
async def client(database):
    """A client; tests register what they need."""
    async with awa.AsyncClient(database.dsn, 4) as opened:
        yield opened


async def run(client, **options):
    """Start the worker and run one job of kind `work` to its end; return it as it is then."""
    await client.start([(QUEUE, 5)], poll_interval_ms=50, promote_interval_ms=50)
    job = await client.insert({"n": 1}, kind="work", queue=QUEUE, **options)

    async def terminal() -> bool:
        return (await client.get_job(job.id)).state.is_terminal

    await eventually(terminal, timedelta(seconds=20))
    return await client.get_job(job.id)


async def test_the_next_attempt_sees_the_error_and_not_its_output(client):
    seen = []

    @client.task(kind="work")
    async def work(job):
        seen.append((job.errors, job.output))
        job.set_output({"attempt": job.attempt})
        if job.attempt == 1:
            return awa.RetryAfter(0)
        return None

    found = await run(client)
    assert seen[0] == ([], None)
    ((entry,), output) = seen[1]
    assert (set(entry), output) == ({"error", "attempt", "at"}, None)
    assert found.output == {"attempt": 2}
    assert found.errors[0]["output"] == {"attempt": 1}


async def test_what_is_recorded_after_the_handler_returned_is_refused_and_not_stored(client):
    refused: asyncio.Future[type] = asyncio.get_running_loop().create_future()
    returned = asyncio.Event()

    @client.task(kind="work")
    async def work(job):
        slot = job.output_slot()
        slot.set("in time")

        async def late():
            await returned.wait()
            try:
                slot.set("too late")
            except awa.OutputError as error:
                refused.set_result(type(error))

        work.late = asyncio.create_task(late())

    found = await run(client)
    returned.set()
    assert (await asyncio.wait_for(refused, 10)).__name__ == "OutputSealed"
    assert found.output == "in time"
    assert (await client.get_job(found.id)).output == "in time"


@pytest.mark.parametrize("value", ["x" * 5000, {1, 2}, float("nan")], ids=["large", "set", "nan"])
async def test_a_value_that_cannot_be_recorded_fails_the_job_for_good_and_leaves_no_output(
    client, value
):
    @client.task(kind="work")
    async def work(job):
        job.set_output("an earlier one")
        job.set_output(value)

    found = await run(client)
    assert (found.state, found.attempt, found.output) == (JobState.Failed, 1, None)
    assert "output" not in found.errors[0]


async def test_a_caught_refusal_and_a_none_leave_a_job_that_completes_without(client):
    @client.task(kind="work")
    async def work(job):
        job.set_output("something")
        try:
            job.set_output("x" * 5000)
        except awa.OutputError:
            job.set_output({"kept": True})
        job.set_output(None)

    found = await run(client)
    assert (found.state, found.output) == (JobState.Completed, None)


async def test_a_handler_that_raises_keeps_what_it_had_recorded_in_the_error(client):
    @client.task(kind="work")
    def work(job):
        job.set_output({"rows": 3})
        raise awa.TerminalError("after three rows")

    found = await run(client)
    assert (found.state, found.output) == (JobState.Failed, None)
    assert found.errors[0]["output"] == {"rows": 3}
    assert found.error_output_as(dict) == {"rows": 3}


async def test_lists_carry_no_output_and_single_reads_do(client):
    @client.task(kind="work")
    async def work(job):
        job.set_output([1.0, 1])

    found = await run(client)
    assert found.output == [1.0, 1]
    assert isinstance(found.output[0], float)
    assert isinstance(found.output[1], int)
    (listed,) = await client.list_jobs(state="completed")
    assert (listed.id, listed.output) == (found.id, None)
