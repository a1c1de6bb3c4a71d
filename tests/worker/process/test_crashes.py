"""What a process held when it died is handed on exactly, whoever notices."""

import os
import signal
from datetime import timedelta

import psutil
import pytest

from awa import AsyncClient, JobState
from support.command.command import is_alive
from support.waiting import eventually

LONG = timedelta(seconds=30)


async def claim_and_hold_up(commands, client, *arguments):
    """Start a worker that has claimed six jobs and is held up by the first of them."""
    first = await client.insert({"key": "first"}, kind="hold_up", priority=1)
    others = await client.insert_many(
        [{"key": f"other{number}"} for number in range(5)], kind="quick", priority=1
    )
    command = commands.start("work", "--queue", "default:6", *arguments)
    await commands.noted("started", "first")
    counts = (await client.queue_counts("default"))[0]
    assert counts.running == 6
    return command, first, others


async def completed(client, *jobs):
    """Wait until jobs are completed and return them."""

    async def found():
        now = [await client.get_job(job.id) for job in jobs]
        return now if all(job.state is JobState.Completed for job in now) else []

    return await eventually(found, LONG, what=f"{len(jobs)} completed jobs")


async def assert_settled_exactly(commands, client, first, others, *, error):
    """Those that had not started ran at once and lost nothing; the one that had counts."""
    for job in await completed(client, *others):
        assert (job.attempt, job.errors) == (1, [])
    (done,) = await completed(client, first)
    assert done.attempt == 2
    assert [one["error"] for one in done.errors] == [error]
    assert [note.attempt for note in commands.notes("started", "first")] == ["1", "2"]
    assert {note.attempt for note in commands.notes("started")} == {"1", "2"}
    assert len(commands.notes("started")) == 7


async def test_a_killed_process_costs_its_running_job_an_attempt_and_its_neighbours_nothing(
    commands, client
):
    command, first, others = await claim_and_hold_up(commands, client)
    (pid,) = command.children()
    os.kill(pid, signal.SIGKILL)
    await assert_settled_exactly(
        commands, client, first, others, error="worker process died: SIGKILL"
    )
    (line,) = command.lines("worker process died")
    assert (line["pid"], line["reason"]) == (pid, "SIGKILL")
    assert (
        'awa_worker_process_ends_total{reason="crashed"} 1.0' in (await command.get("/metrics"))[1]
    )
    command.send(signal.SIGTERM)
    assert await command.ended() == 0
    assert commands.recordings() == []


async def test_a_killed_supervisor_takes_its_processes_along_and_a_successor_settles(
    commands, client
):
    command, first, others = await claim_and_hold_up(commands, client)
    (pid,) = command.children()
    command.send(signal.SIGKILL)
    await eventually(lambda: not is_alive(pid), what="the end of the process")
    assert len(commands.recordings()) == 1
    commands.start("work", "--queue", "default:6")
    await assert_settled_exactly(
        commands, client, first, others,
        error="worker process died: found when its successor started",
    )  # fmt: skip
    await eventually(lambda: len(commands.recordings()) == 1, what="only that of the living")


async def test_one_of_several_processes_dies_and_the_others_go_on(commands, client):
    command, first, others = await claim_and_hold_up(commands, client)
    (held_up,) = command.children()
    second = commands.start("work", "--processes", "2")
    await second.works(2)
    kept = set(second.children())
    waiting = await client.insert({"key": "waiting"}, kind="wait")
    await commands.noted("started", "waiting")
    victim = int(commands.notes("started", "waiting")[0].pid)
    os.kill(victim, signal.SIGKILL)
    await eventually(lambda: len(commands.notes("started", "waiting")) == 2, LONG)
    commands.open_gate()
    (job,) = await completed(client, waiting)
    assert job.attempt == 2
    assert kept - {victim} <= set(second.children())
    assert command.children() == [held_up]
    for one in await completed(client, first, *others):
        assert one.errors == []


async def test_a_job_that_always_kills_its_process_fails_in_the_end(commands, client):
    poison = await client.insert({"key": "poison"}, kind="die", max_attempts=2)
    others = await client.insert_many([{"key": str(n)} for n in range(5)], kind="quick")
    commands.start("work")

    async def failed():
        job = await client.get_job(poison.id)
        return job if job.state is JobState.Failed else None

    job = await eventually(failed, LONG, what="the end of the poison job")
    assert [error["error"] for error in job.errors] == ["worker process died: SIGKILL"] * 2
    for other in await completed(client, *others):
        assert other.errors == []


async def test_programs_that_a_dead_process_left_behind_are_ended(commands, client):
    await client.insert({"key": "p"}, kind="leave_behind")
    command = commands.start()
    await commands.noted("program", "p")
    program = int(commands.notes("program")[0].attempt)
    assert is_alive(program)
    os.kill(command.children()[0], signal.SIGKILL)
    await eventually(lambda: not is_alive(program), what="the end of the program")
    await eventually(lambda: not psutil.pid_exists(program), what="that nobody is left a zombie")


async def test_orphans_are_waited_for(commands, client):
    await client.insert({"key": "o"}, kind="orphan")
    commands.start()
    await commands.noted("orphan", "o")
    orphan = int(commands.notes("orphan")[0].attempt)
    await eventually(lambda: not psutil.pid_exists(orphan), what="the end of a zombie")


@pytest.mark.timeout(180)
async def test_a_death_while_the_database_is_away_is_settled_when_it_is_back(
    make_commands, durable_database
):
    commands = make_commands(durable_database.dsn)
    async with AsyncClient(durable_database.dsn, 2) as client:
        command, first, others = await claim_and_hold_up(commands, client)
        durable_database.server.stop()
        os.kill(command.children()[0], signal.SIGKILL)
        await command.said("dead workers cannot be settled yet, trying again")
        assert len(commands.recordings()) == 1
        durable_database.server.start()
        await assert_settled_exactly(
            commands, client, first, others, error="worker process died: SIGKILL"
        )
