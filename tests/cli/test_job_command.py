import json
from datetime import UTC, datetime

import pytest

from awa.testing import work_all


async def test_without_jobs_the_list_says_so(awa):
    listed = await awa("job", "list")
    assert (listed.code, listed.output, listed.errors) == (0, "No jobs.\n", "")


async def test_an_empty_list_is_an_empty_array(awa):
    assert (await awa("job", "list", "--json")).document == []


async def test_the_list_is_a_table_with_a_line_for_each_job(awa, client):
    first = await client.insert({"n": 1}, kind="good")
    later = await client.insert({}, kind="bad", queue="mail", run_at="2999-01-01T00:00:00Z")
    lines = (await awa("job", "list")).output.splitlines()
    assert lines[0].split() == ["ID", "STATE", "KIND", "QUEUE", "ATTEMPT", "WHEN", "DETAIL"]
    assert lines[1].split()[:5] == [str(first.id), "available", "good", "default", "0/25"]
    assert lines[2].split()[:5] == [str(later.id), "scheduled", "bad", "mail", "0/25"]
    assert len(lines) == 3


async def test_the_json_of_the_list_has_states_times_and_no_outputs(awa, client):
    job = await client.insert({"n": 1}, kind="good")
    await work_all(client)
    (listed,) = (await awa("job", "list", "--json")).document
    assert listed["state"] == "completed"
    assert listed["id"] == job.id
    assert "output" not in listed
    assert listed["created_at"].endswith("Z")
    assert datetime.fromisoformat(listed["finalized_at"]) <= datetime.now(UTC)


@pytest.mark.parametrize(
    ("words", "kinds"),
    [
        (["--state", "completed"], ["good"]),
        (["--kind", "bad"], ["bad"]),
        (["--queue", "mail"], ["other"]),
        (["--limit", "1"], ["other"]),
        (["--state", "running"], []),
    ],
)
async def test_the_list_is_filtered_and_limited(awa, client, words, kinds):
    await client.insert({}, kind="good")
    await client.insert({}, kind="bad", max_attempts=1)
    await client.insert({}, kind="other", queue="mail")
    await work_all(client)
    assert [job["kind"] for job in (await awa("job", "list", "--json", *words)).document] == kinds


async def test_a_list_that_is_cut_says_so(awa, client):
    await client.insert_many([{}] * 3, kind="good")
    assert "there may be more: --limit" in (await awa("job", "list", "--limit", "2")).output


async def test_a_failed_job_shows_the_first_line_of_its_error_in_the_list(awa, client):
    await client.insert({"why": "no such file\nsecond line"}, kind="bad", max_attempts=1)
    await work_all(client)
    listed = (await awa("job", "list", "--state", "failed")).output
    assert "ValueError: no such file" in listed
    assert "second line" not in listed


async def test_show_tells_all_there_is_about_a_job(awa, client):
    job = await client.insert({"n": 7}, kind="good", tags=["red"], metadata={"user": 5})
    await work_all(client)
    shown = (await awa("job", "show", str(job.id))).output
    for part in (f"Job {job.id}", "completed", '{"seen": 7}', '{"n": 7}', "red", '{"user": 5}'):
        assert part in shown


async def test_show_gives_the_whole_error(awa, client):
    job = await client.insert({"why": "one\ntwo"}, kind="bad", max_attempts=1)
    await work_all(client)
    shown = (await awa("job", "show", str(job.id))).output
    assert "error     attempt 1" in shown
    assert "ValueError: one\n            two" in shown


async def test_the_json_of_show_is_the_job_with_its_output(awa, client):
    job = await client.insert({"n": 7}, kind="good")
    await work_all(client)
    shown = (await awa("job", "show", str(job.id), "--json")).document
    assert shown == (await client.get_job(job.id)).to_dict()
    assert shown["output"] == {"seen": 7}


@pytest.mark.parametrize("word", ["show", "cancel", "retry"])
async def test_a_job_that_does_not_exist_is_not_found(awa, word):
    ended = await awa("job", word, "123456789")
    assert (ended.code, ended.output) == (1, "")
    assert ended.errors == "awa: job not found: 123456789\n"


async def test_cancel_ends_a_job_that_waits(awa, client):
    job = await client.insert({}, kind="good")
    ended = await awa("job", "cancel", str(job.id))
    assert ended.output == f"Cancelled job {job.id}, which was available.\n"
    assert str((await client.get_job(job.id)).state) == "cancelled"


async def test_cancel_leaves_what_has_ended_and_says_so(awa, client):
    job = await client.insert({}, kind="good")
    await work_all(client)
    ended = await awa("job", "cancel", str(job.id))
    assert (ended.code, ended.output) == (1, "")
    assert ended.errors == f"awa: job {job.id} has already completed\n"
    assert str((await client.get_job(job.id)).state) == "completed"


async def test_cancelling_twice_is_refused_the_second_time(awa, client):
    job = await client.insert({}, kind="good")
    await awa("job", "cancel", str(job.id))
    ended = await awa("job", "cancel", str(job.id))
    assert (ended.code, ended.errors) == (1, f"awa: job {job.id} has already been cancelled\n")


async def test_several_jobs_are_cancelled_although_one_is_refused(awa, client):
    jobs = await client.insert_many([{}, {}], kind="good")
    ended = await awa("job", "cancel", str(jobs[0].id), "99", str(jobs[1].id), "--json")
    assert ended.code == 1
    assert "job not found: 99" in ended.errors
    cancelled = [(job["id"], job["state"]) for job in json.loads(ended.output)]
    assert cancelled == [(job.id, "cancelled") for job in jobs]


async def test_retry_runs_a_failed_job_again(awa, client):
    job = await client.insert({}, kind="bad", max_attempts=1)
    await work_all(client)
    ended = await awa("job", "retry", str(job.id))
    assert ended.code == 0
    assert f"Job {job.id} runs again" in ended.output
    again = await client.get_job(job.id)
    assert (str(again.state), again.attempt) == ("available", 0)


async def test_retry_refuses_a_job_that_has_completed(awa, client):
    job = await client.insert({}, kind="good")
    await work_all(client)
    ended = await awa("job", "retry", str(job.id))
    assert ended.code == 1
    assert f"job {job.id} is completed" in ended.errors


@pytest.mark.parametrize(
    "words",
    [
        ["job", "show", "x"],
        ["job", "show"],
        ["job", "cancel"],
        ["job", "list", "--limit", "0"],
        ["job", "list", "--limit", "10001"],
        ["job", "list", "--state", "done"],
        ["job", "list", "--nonsense"],
        ["job", "nonsense"],
    ],
)
async def test_wrong_usage_has_an_exit_code_of_its_own(awa, words):
    ended = await awa(*words)
    assert (ended.code, ended.output) == (2, "")
    assert "Usage:" in ended.errors


async def test_a_terminal_gets_no_escape_sequence_from_a_job(awa, client):
    evil = "\x1b]0;owned\x07\x9b31m‮"
    job = await client.insert({"why": evil}, kind="bad", max_attempts=1, metadata={evil: evil})
    await work_all(client)
    for words in (["list"], ["list", "--json"], ["show", str(job.id)]):
        shown = (await awa("job", *words)).output
        assert "owned" in shown
        assert not [char for char in shown if not char.isprintable() and char != "\n"]
    shown = (await awa("job", "show", str(job.id), "--json")).document
    assert shown["metadata"] == {evil: evil}
