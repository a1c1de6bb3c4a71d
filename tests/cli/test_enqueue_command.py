from datetime import UTC, datetime, timedelta

import pytest


async def test_a_job_is_enqueued_with_everything_that_was_said(awa, client):
    ended = await awa(
        "enqueue", "mail", '{"to": "Zoë"}', "--queue", "post", "--priority", "1",
        "--at", "2999-01-31T09:00:00+01:00", "--max-attempts", "3",
    )  # fmt: skip
    assert ended.code == 0
    (job,) = await client.list_jobs()
    assert ended.output.startswith(f"Enqueued job {job.id} in queue post, due 2999-01-31")
    assert (job.kind, job.queue, job.priority, job.max_attempts) == ("mail", "post", 1, 3)
    assert job.args == {"to": "Zoë"}
    assert job.run_at == datetime(2999, 1, 31, 8, tzinfo=UTC)


async def test_the_defaults_are_those_of_the_client(awa, client):
    await awa("enqueue", "mail")
    (job,) = await client.list_jobs()
    assert (job.args, job.queue, job.priority, job.max_attempts) == ({}, "default", 2, 25)
    assert str(job.state) == "available"


async def test_the_json_is_the_job(awa, client):
    said = (await awa("enqueue", "mail", '{"n": 1}', "--json")).document
    assert said == (await client.get_job(said["id"])).to_dict()


async def test_args_are_read_from_standard_input(awa, client):
    ended = await awa("enqueue", "mail", "-", given='{"n": 2}')
    assert ended.code == 0
    assert (await client.list_jobs())[0].args == {"n": 2}


@pytest.mark.parametrize(
    ("text", "distance"),
    [
        ("+90s", timedelta(seconds=90)),
        ("+10m", timedelta(minutes=10)),
        ("+2h", timedelta(hours=2)),
        ("+1d", timedelta(days=1)),
    ],
)
async def test_a_time_may_be_a_distance_from_now(awa, client, text, distance):
    before = datetime.now(UTC)
    await awa("enqueue", "mail", "--at", text)
    (job,) = await client.list_jobs()
    assert before + distance <= job.run_at <= datetime.now(UTC) + distance


@pytest.mark.parametrize(
    ("words", "advice"),
    [
        (["mail", "{to: x}"], "this is not JSON"),
        (["mail", "[1]"], "args are a JSON object"),
        (["mail", '{"n": NaN}'], "JSON"),
        (["mail", '{"to": "a\\u0000b"}'], "NUL"),
        (["mail", '{"n": "' + "x" * (1 << 20) + '"}'], "the limit is"),
        (["", "{}"], "1 to 200"),
        (["mail", "--queue", ""], "1 to 200"),
        (["mail", "--queue", "a\tb"], "not printable"),
        (["mail", "--priority", "0"], "or equal to 1"),
        (["mail", "--priority", "5"], "or equal to 4"),
        (["mail", "--max-attempts", "0"], "or equal to 1"),
        (["mail", "--at", "tomorrow"], "+10m"),
        (["mail", "--at", "2030-01-31T09:00:00"], "no time zone"),
        (["mail", "--at", "+999999999d"], "too far away"),
    ],
)  # fmt: skip
async def test_what_cannot_be_enqueued_is_refused_and_nothing_is_written(
    awa, client, words, advice
):
    ended = await awa("enqueue", *words)
    assert (ended.code, ended.output) == (2, "")
    assert advice in " ".join(ended.errors.replace("│", " ").split())
    assert await client.list_jobs() == []
