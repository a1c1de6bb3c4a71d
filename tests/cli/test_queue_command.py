from datetime import datetime

import pytest

from awa import AsyncClient
from awa.testing import work_all


async def test_without_queues_the_list_says_so(awa):
    assert (await awa("queue", "list")).output.startswith("No queues yet")


async def test_the_list_counts_every_job_once(awa, client):
    await client.insert_many([{}] * 3, kind="good")
    await client.insert({}, kind="bad", max_attempts=1)
    await work_all(client)
    await client.insert({}, kind="bad")
    await work_all(client)
    await client.insert({}, kind="good", run_at="2999-01-01T00:00:00Z")
    await client.insert_many([{}] * 2, kind="good")
    (counted,) = (await awa("queue", "list", "--json")).document
    oldest = counted.pop("oldest_available_at")
    assert oldest.endswith("Z")
    assert datetime.fromisoformat(oldest).tzinfo is not None
    assert counted == {
        "queue": "default", "paused": False, "scheduled": 1, "available": 2, "running": 0,
        "waiting_external": 0, "retryable": 1, "completed": 3, "failed": 1, "cancelled": 0,
        "unknown_kinds": [],
    }  # fmt: skip
    head, line = (await awa("queue", "list")).output.splitlines()
    assert head.split()[:4] == ["QUEUE", "AVAILABLE", "RUNNING", "SCHEDULED"]
    assert line.split()[:8] == ["default", "2", "0", "1", "1", "3", "1", "0"]


async def test_the_list_names_kinds_that_no_worker_knows(awa, client, database):
    async with AsyncClient(database.dsn) as other:
        other.task(dict, kind="known")(print)
        await client.insert({}, kind="unheard_of")
        await work_all(other)
        assert "no handler for unheard_of" in (await awa("queue", "list")).output
        (counted,) = (await awa("queue", "list", "--json")).document
        assert counted["unknown_kinds"] == ["unheard_of"]


async def test_a_pause_is_shown_and_ends(awa, client):
    await client.insert({}, kind="good")
    assert "is paused" in (await awa("queue", "pause", "default")).output
    assert "paused" in (await awa("queue", "list")).output.splitlines()[1]
    assert not await work_all(client)
    assert "goes on" in (await awa("queue", "resume", "default")).output
    assert len(await work_all(client)) == 1


async def test_the_json_of_pause_and_resume_says_what_changed(awa, client):
    await client.insert({}, kind="good")
    said = [
        (await awa("queue", word, "default", "--json")).document
        for word in ("pause", "pause", "resume", "resume")
    ]
    assert said == [
        {"queue": "default", "paused": True, "changed": True},
        {"queue": "default", "paused": True, "changed": False},
        {"queue": "default", "paused": False, "changed": True},
        {"queue": "default", "paused": False, "changed": False},
    ]


@pytest.mark.parametrize("word", ["pause", "resume"])
async def test_a_queue_that_does_not_exist_is_not_made(awa, client, word):
    await client.insert({}, kind="good")
    ended = await awa("queue", word, "defualt")
    assert ended.code == 1
    assert ended.errors == "awa: there is no queue 'defualt'; there are: default\n"
    assert [counts.queue for counts in await client.queue_counts()] == ["default"]
