"""How a worker ends when it is asked to."""

import os
import signal
import time
from datetime import datetime, timedelta

import pytest

from awa import JobState
from support.command.command import is_alive
from support.waiting import eventually

LONG = timedelta(seconds=30)
TERM, INT = signal.SIGTERM, signal.SIGINT


async def state_of(client, job):
    return (await client.get_job(job.id)).state


async def completed(client, job):
    async def found():
        now = await client.get_job(job.id)
        return now if now.state is JobState.Completed else None

    return await eventually(found, LONG, what="a completed job")


async def test_a_handler_that_waits_for_ever_is_given_back_and_starts_elsewhere(commands, client):
    job = await client.insert({"key": "a"}, kind="stay")
    command = commands.start("work", "--queue", "default:1")
    await commands.noted("started", "a")
    command.send(TERM)
    assert await command.ended(limit=3) == 0
    found = await client.get_job(job.id)
    assert (found.state, found.attempt, found.errors) == (JobState.Available, 0, [])
    commands.open_gate()
    second = commands.start("work")
    (line,) = await second.said("worker started")
    done = await completed(client, job)
    assert (done.attempt, done.errors) == (1, [])
    assert done.attempted_at - datetime.fromisoformat(line["time"]) < timedelta(seconds=1)


async def test_running_jobs_get_the_drain_time_and_nothing_new_is_started(commands, client):
    running = await client.insert({"key": "running"}, kind="wait")
    command = commands.start(AWA_DRAIN_TIMEOUT_SECONDS="30")
    await commands.noted("started", "running")
    command.send(TERM)
    await command.said("draining")

    async def has_heard():
        # It answers after it was told to drain, by the same way.
        return "loop" not in (await command.json_of("/readyz"))[1]["services"]

    await eventually(has_heard, LONG, what="the process to have heard of it")
    new = await client.insert({"key": "new"}, kind="quick")
    status, found = await command.json_of("/readyz")
    assert (status, found["ready"], found["shutting_down"]) == (503, False, True)
    assert await command.get("/healthz") == (200, '{"live": true}\n')
    commands.open_gate()
    assert await command.ended() == 0
    assert await state_of(client, running) is JobState.Completed
    assert await state_of(client, new) is JobState.Available
    assert commands.notes("started", "new") == []


async def test_a_handler_that_records_an_output_when_cancelled_completes_with_it(commands, client):
    job = await client.insert({"key": "a"}, kind="save")
    command = commands.start()
    await commands.noted("started", "a")
    command.send(TERM)
    assert await command.ended() == 0
    done = await client.get_job(job.id)
    assert (done.state, done.output) == (JobState.Completed, {"saved": True})


@pytest.mark.parametrize("numbers", [(TERM, TERM), (INT, TERM), (INT, INT)])
async def test_a_second_signal_stops_at_once(commands, client, numbers):
    job = await client.insert({"key": "a"}, kind="stay")
    command = commands.start(AWA_DRAIN_TIMEOUT_SECONDS="600")
    await commands.noted("started", "a")
    command.send(numbers[0])
    await command.said("draining")
    assert not command.has_ended
    command.send(numbers[1])
    assert await command.ended() == 0
    assert len(command.lines("stopping at once")) == 1
    found = await client.get_job(job.id)
    assert (found.state, found.attempt) == (JobState.Available, 0)


async def test_a_signal_to_every_process_at_once_is_one_request(commands, client):
    job = await client.insert({"key": "a"}, kind="wait")
    command = commands.start(AWA_DRAIN_TIMEOUT_SECONDS="600")
    await commands.noted("started", "a")
    (child,) = command.children()
    for _ in range(3):  # what a service manager sends to a whole group
        os.kill(child, TERM)
    command.send(TERM)
    await command.said("draining")
    assert is_alive(child)
    commands.open_gate()
    assert await command.ended() == 0
    assert await state_of(client, job) is JobState.Completed
    assert command.lines("stopping at once") == []


async def test_a_process_that_is_told_to_end_by_somebody_else_is_replaced(commands, client):
    command = commands.start()
    await command.works()
    (child,) = command.children()
    os.kill(child, TERM)
    await command.works(2)
    (other,) = command.children()
    assert other != child
    assert command.lines("worker process died") == []


async def test_handlers_that_cannot_be_stopped_end_with_the_process_and_run_on_after_it(
    commands, client
):
    stubborn = await client.insert({"key": "stubborn"}, kind="stubborn")
    endless = await client.insert({"key": "endless"}, kind="endless")
    command = commands.start(AWA_DRAIN_TIMEOUT_SECONDS="2")
    await commands.noted("started", "stubborn", "endless")
    states = []
    command.send(TERM)
    began = time.monotonic()
    while not command.has_ended:
        states += [await state_of(client, stubborn), await state_of(client, endless)]
        assert time.monotonic() - began < 7
    assert await command.ended() == 1
    # Neither was handed on while the process could act: until it is gone both are running.
    seen = list(dict.fromkeys(states))
    assert seen in ([JobState.Running], [JobState.Running, JobState.Retryable])
    last = max(int(note.at_ns) for note in commands.notes("acts"))
    commands.open_gate()
    commands.start()
    for job in (stubborn, endless):
        done = await completed(client, job)
        assert done.attempt == 2
        assert [one["error"] for one in done.errors] == [
            "worker process died: stopped while it ran"
        ]
    seconds = [one for one in commands.notes("started") if one.attempt == "2"]
    assert len(seconds) == 2
    assert all(int(one.at_ns) > last for one in seconds)


async def test_a_thread_that_looks_at_the_flag_ends_before_the_process(commands, client):
    half = await client.insert({"key": "half"}, kind="half_a_second")
    command = commands.start(AWA_DRAIN_TIMEOUT_SECONDS="1")
    await commands.noted("started", "half")
    command.send(TERM)
    assert await command.ended() == 0
    done = await client.get_job(half.id)
    assert (done.state, done.output) == (JobState.Completed, {"whole": True, "asked": False})


async def test_a_thread_that_is_asked_to_stop_has_a_moment_for_it(commands, client):
    polite = await client.insert({"key": "polite"}, kind="polite")
    command = commands.start(AWA_DRAIN_TIMEOUT_SECONDS="1")
    await commands.noted("started", "polite")
    command.send(TERM)
    assert await command.ended() == 0
    done = await client.get_job(polite.id)
    assert (done.state, done.output) == (JobState.Completed, {"polite": True})


async def test_a_held_up_event_loop_is_killed_after_its_time_and_settled(commands, client):
    job = await client.insert({"key": "a"}, kind="hold_up")
    command = commands.start(AWA_DRAIN_TIMEOUT_SECONDS="0")
    await commands.noted("started", "a")
    command.send(TERM)
    assert await command.ended() == 1
    assert len(command.lines("worker process exceeds its time, killed")) == 1
    found = await client.get_job(job.id)
    assert found.state is JobState.Retryable
    assert [one["error"] for one in found.errors] == [
        "worker process died: killed, its time to stop was over"
    ]
    assert commands.recordings() == []


@pytest.mark.parametrize("deaf", [None, "1"])
async def test_a_signal_while_handlers_are_imported_ends_everything_in_seconds(
    commands, client, deaf
):
    await client.insert({"key": "a"}, kind="quick")
    command = commands.start("slow", TEST_DEAF=deaf)
    await eventually((commands.folder / "importing").exists, LONG, what="the import has begun")
    began = time.monotonic()
    command.send(TERM)
    assert await command.ended() == 0
    assert time.monotonic() - began < 5
    assert command.lines("worker started") == []
    assert (await client.queue_counts("default"))[0].available == 1


async def test_a_signal_at_any_moment_of_the_start_ends_it_cleanly(commands, client):
    await client.insert({"key": "a"}, kind="stay")
    for milliseconds in range(300, 2400, 300):
        command = commands.start()
        # Not a wait for something: the moments of a start are what is tried out.
        await command_after(milliseconds / 1000)
        command.send(TERM)
        code = await command.ended()
        assert code == 0 or (code == -TERM and command.output == "")
    assert (await client.queue_counts("default"))[0].running == 0
    assert (await client.list_jobs())[0].errors == []


async def command_after(seconds):
    limit = time.monotonic() + seconds
    await eventually(lambda: time.monotonic() >= limit)


async def test_a_stop_while_the_network_is_dead_ends_in_time_and_loses_nothing(
    make_commands, make_proxy, database, client
):
    proxy = make_proxy(database.server)
    commands = make_commands(database.dsn_through(proxy))
    job = await client.insert({"key": "a"}, kind="stay")
    command = commands.start(AWA_DRAIN_TIMEOUT_SECONDS="2")
    await commands.noted("started", "a")
    proxy.black_hole()
    command.send(TERM)
    began = time.monotonic()
    assert await command.ended() == 1
    assert time.monotonic() - began < 2 + 5 + 1
    proxy.forward()
    commands.open_gate()
    commands.start()
    done = await completed(client, job)
    assert len(done.errors) <= 1


async def test_unstarted_jobs_go_back_when_stopped_at_once(commands, client):
    first = await client.insert({"key": "first"}, kind="hold_up", priority=1)
    others = await client.insert_many(
        [{"key": f"other{n}"} for n in range(5)], kind="stay", priority=1
    )
    command = commands.start("work", "--queue", "default:6", AWA_DRAIN_TIMEOUT_SECONDS="600")
    await commands.noted("started", "first")
    command.send(TERM)
    await command.said("draining")
    command.send(TERM)
    await command.said("stopping at once")
    commands.open_gate()
    assert await command.ended() == 0
    assert await state_of(client, first) is JobState.Completed
    for other in others:
        found = await client.get_job(other.id)
        assert found.state in {JobState.Available, JobState.Completed}
        assert found.errors == []
