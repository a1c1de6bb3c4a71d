"""C22: a value that JSON does not know is refused at the call, or reads back equal; never later.

What is refused on which path, and the index in a batch, are also in
tests/worker/client/test_bad_input.py; the test kit's verdicts in tests/worker/testing/test_kit.py.
"""

import json
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, example, given, settings
from hypothesis import strategies as st

import awa
from awa.errors import OutputError, SerializationError
from awa.testing import work_one
from support.command.invoke import run_awa
from support.insert_paths import InsertPaths
from support.json_values import nested, same, values, verdict
from support.postgres import Database
from support.waiting import eventually

ENDED = timedelta(seconds=30)
property_of_a_database = settings(
    max_examples=30,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
    # An example costs a hundred calls: looking for a smaller one would take minutes.
    phases=[Phase.explicit, Phase.reuse, Phase.generate],
)


@pytest.fixture
async def paths(database: Database) -> AsyncIterator[InsertPaths]:
    async with InsertPaths(database) as opened:
        yield opened


class Seen:
    """A worker that records as output what it was given, and remembers it."""

    def __init__(self, client: awa.AsyncClient) -> None:
        self._client = client
        self.given: dict[int, Any] = {}

    async def start(self) -> None:
        self._client.registry.add(self.handle, dict, kind="value")
        await self._client.start([("default", 50)], poll_interval_ms=20)

    async def handle(self, job: awa.Job[dict[str, Any]]) -> None:
        self.given[job.id] = {"args": job.args, "metadata": job.metadata}
        try:
            job.set_output(job.args)
        except OutputError:
            job.set_output(None)

    async def quiet(self) -> None:
        async def ended() -> bool:
            (counts,) = await self._client.queue_counts("default")
            return not (counts.available + counts.running + counts.retryable + counts.scheduled)

        await eventually(ended, ENDED, what="every job has ended")


async def refusal_of(insert: Any, args: Any, **options: Any) -> str:
    """Return the position that the refusal of a call names."""
    with pytest.raises(SerializationError) as refused:
        await insert(args, kind="value", **options)
    notes = getattr(refused.value, "__notes__", [])
    assert notes in ([], ["job at position 1; nothing was enqueued"])
    return str(refused.value).partition(": ")[0]


async def jobs_in(paths: InsertPaths) -> int:
    """Return how many jobs there are, in whatever state."""
    found = await paths.client.queue_counts()
    return sum(one.available + one.running + one.completed + one.failed for one in found)


@pytest.fixture
async def seen(paths: InsertPaths) -> AsyncIterator[Seen]:
    worker = Seen(paths.client)
    await worker.start()
    yield worker
    await paths.client.shutdown()


@pytest.mark.slow
@pytest.mark.timeout(300)
@property_of_a_database
@example(value=[6.553004721063651e16, {"x": -9.1e18}, 1.8446744073709552e19], place="args")
@example(value=nested(99), place="metadata")
@given(value=values, place=st.sampled_from(["args", "metadata"]))
async def test_every_way_in_refuses_a_value_alike_or_it_reads_back_equal(
    paths: InsertPaths, seen: Seen, database: Database, value: Any, place: str
) -> None:
    expected, position = verdict({"value": value}, place)
    args = {"value": value} if place == "args" else {"value": None}
    options = {} if place == "args" else {"metadata": {"value": value}}
    if position is not None:
        before = await jobs_in(paths)
        for name, insert in paths.all.items():
            assert await refusal_of(insert, args, **options) == position, name
        assert await jobs_in(paths) == before
        return

    ids = {name: await insert(args, kind="value", **options) for name, insert in paths.all.items()}
    plain = expected if place == "args" else args
    ids["sql"] = await paths.by_sql(
        plain, kind="value", metadata=None if place == "args" else expected
    )
    if place == "args":
        text = json.dumps(expected)
        said = await run_awa(
            "enqueue", "value", "-", "--json", given=text, AWA_DATABASE_URL=database.dsn
        )
        assert same(said.document["args"], expected)
        ids["command"] = said.document["id"]
    await seen.quiet()

    listed = {job.id: job for job in await paths.client.list_jobs("completed", "value")}
    shown = await run_awa("job", "list", "--kind", "value", "--json", AWA_DATABASE_URL=database.dsn)
    printed = {job["id"]: job for job in shown.document}
    for name, job_id in ids.items():
        assert job_id is not None, name
        job = await paths.client.get_job(job_id)
        assert job.state is awa.JobState.Completed, (name, job.errors)
        readings = [getattr(job, place), getattr(listed[job_id], place), printed[job_id][place]]
        readings.append(seen.given[job_id][place])
        for reading in readings:
            assert same(reading, expected), (name, reading, expected)
        assert job.output is None or same(job.output, job.args), name


class Recorder:
    """Handlers that record a value, in a worker and in the test kit; nothing of it is caught."""

    def __init__(self) -> None:
        self.value: Any = None

    async def output(self, job: awa.Job[Any]) -> None:
        job.set_output(self.value)

    async def progress(self, job: awa.Job[Any]) -> None:
        job.update_metadata({"value": self.value})
        raise awa.TerminalError("so that the progress stays")


@pytest.fixture
async def recorder(paths: InsertPaths, database: Database) -> AsyncIterator[Recorder]:
    made = Recorder()
    async with awa.AsyncClient(database.dsn, 2) as worker:
        for client in (worker, paths.client):
            client.registry.add(made.output, kind="output")
            client.registry.add(made.progress, kind="progress")
        await worker.start([("worker", 4)], poll_interval_ms=20)
        yield made


@pytest.mark.slow
@pytest.mark.timeout(300)
@property_of_a_database
@given(value=values, place=st.sampled_from(["output", "progress"]))
async def test_what_an_attempt_records_is_refused_at_the_call_or_reads_back_equal(
    paths: InsertPaths, recorder: Recorder, database: Database, value: Any, place: str
) -> None:
    recorder.value = value
    whole = value if place == "output" else {"percent": 0, "metadata": {"value": value}}
    expected, position = verdict(whole, place)
    working = await paths.client.insert({}, kind=place, queue="worker", max_attempts=1)
    await paths.client.insert({}, kind=place, queue="kit", max_attempts=1)
    in_kit = (await work_one(paths.client, "kit")).job

    async def ended() -> awa.Job[Any] | None:
        job = await paths.client.get_job(working.id)
        return job if job.state.is_terminal else None

    in_worker = await eventually(ended, ENDED)
    assert in_kit is not None
    shown = await run_awa("job", "show", str(working.id), "--json", AWA_DATABASE_URL=database.dsn)
    for job in (in_kit, in_worker):
        error = job.errors[-1]["error"] if job.errors else ""
        if position is not None:
            refusal = "OutputInvalid: " if place == "output" else "SerializationError: "
            assert error.startswith(f"{refusal}{position}: ")
            assert (job.output, job.progress) == (None, None)
        elif place == "output":
            assert same(job.output, expected) or error.startswith("OutputTooLarge: ")
            assert same(shown.document["output"], in_worker.output)
        else:
            assert error.startswith("TerminalError: so that")
            assert same(job.progress, expected)
            assert same(shown.document["progress"], expected)


FOREIGN = {
    "no float comes near": '{"n": 1e400}',
    "nested too deep": f'{{"n": {"[" * 2000}{"]" * 2000}}}',
    "a list": "[1]",
    "a text": '"x"',
    "nothing": "null",
}
"""Args that PostgreSQL takes from programs that enqueue by SQL, and a handler cannot get."""


async def test_args_that_only_postgresql_knows_fail_their_job_and_no_listing(
    paths: InsertPaths, seen: Seen, database: Database
) -> None:
    ids = await paths.session.fetchval(
        "select awa.enqueue_v1('default', 2::smallint, array['value'], $1::text[]::jsonb[])",
        ["{}", *FOREIGN.values()],
    )
    await seen.quiet()
    found = {job.id: job.to_dict() for job in await paths.client.list_jobs()}
    assert [found[job_id]["state"] for job_id in ids] == ["completed"] + ["failed"] * len(FOREIGN)
    for job_id, text in zip(ids[1:], FOREIGN.values(), strict=True):
        (error,) = found[job_id]["errors"]
        assert error["terminal"]
        assert error["error"].startswith("SerializationError: ")
        shown = await run_awa("job", "show", str(job_id), AWA_DATABASE_URL=database.dsn)
        assert (shown.code, shown.errors) == (0, "")
        if len(text) > 20:
            assert found[job_id]["args"].startswith('{"n": ')
    listed = await run_awa("job", "list", "--json", AWA_DATABASE_URL=database.dsn)
    assert {job["id"]: job["args"] for job in listed.document} == {
        job_id: job["args"] for job_id, job in found.items()
    }
