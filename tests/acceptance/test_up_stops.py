"""`awa up` stops in order, whoever asks for it, and leaves no process behind."""

import os
import signal

import psutil
import pytest

from acceptance.commands import LIMIT, processes_of
from acceptance.manifests import fixed, scaled
from acceptance.test_up_scales import ended, started, until_started
from support.waiting import eventually, eventually_sync


async def with_running_job(command, client, place):
    """Wait until a job of the test's runs under the command, and return it."""
    job = await client.insert({"place": str(place)}, kind="hold", queue="work")
    await until_started(place, 1)
    return job


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
async def test_a_stop_signal_lets_running_jobs_finish(
    start, run, make_project, client_of, workplace, nothing_left, number
):
    project = make_project(scaled())
    up = start("up", folder=project).until_said("look, in another terminal")
    async with client_of(project) as client:
        job = await with_running_job(up, client, workplace)
        waiting = await client.insert({}, kind="quick", queue="work", priority=4)
        up.signal_group(number)
        up.until_said("Draining: 1 worker finishes what runs")
        assert not up.has_ended
        (workplace / "release-all").touch()
        assert up.code() == 0
    assert up.said.endswith("Stopped. The data stay in .awa.\n")
    nothing_left()
    shown = run("job", "show", str(job.id), "--json", folder=project).stdout
    assert '"state": "completed"' in shown
    assert '"attempt": 1' in shown
    assert run("job", "show", str(waiting.id), folder=project).returncode == 0
    nothing_left()


async def test_a_second_ctrl_c_cuts_jobs_off_and_they_run_again_later(
    start, make_project, client_of, workplace, nothing_left
):
    project = make_project(scaled())
    up = start("up", folder=project).until_said("look, in another terminal")
    async with client_of(project) as client:
        job = await with_running_job(up, client, workplace)
        up.signal_group(signal.SIGINT)
        up.until_said("Draining")
        up.signal_group(signal.SIGINT)
        assert up.code() == 130
    assert "Stopping at once" in up.said
    nothing_left()
    (workplace / "release-all").touch()
    again = start("up", folder=project).until_said("look, in another terminal")
    async with client_of(project) as client:
        await ended(client, 1)
        assert (await client.get_job(job.id)).id == job.id
    again.signal_group(signal.SIGINT)
    assert again.code() == 0


async def test_it_stops_when_its_terminal_is_closed(
    start, make_project, client_of, workplace, nothing_left
):
    project = make_project(scaled())
    up = start("up", folder=project, terminal=True).until_said("look, in another terminal")
    async with client_of(project) as client:
        await with_running_job(up, client, workplace)
        up.hang_up()
        (workplace / "release-all").touch()
        assert up.code() == 0
    nothing_left()


async def test_a_terminal_shows_a_status_line_and_a_pipe_gets_none(start, make_project):
    project = make_project(scaled())
    up = start("up", folder=project, terminal=True).until_said("asleep, no jobs")
    up.signal_group(signal.SIGINT)
    assert up.code() == 0
    piped = start("up", folder=project).until_said("look, in another terminal")
    piped.signal_group(signal.SIGINT)
    assert piped.code() == 0
    assert "asleep" not in piped.said
    assert "\x1b" not in piped.said


async def test_a_job_that_exceeds_the_drain_timeout_is_handed_back(
    start, run, make_project, client_of, workplace, nothing_left
):
    project = make_project(fixed(drain=1))
    up = start("up", folder=project).until_said("look, in another terminal")
    async with client_of(project) as client:
        job = await with_running_job(up, client, workplace)
        up.signal_group(signal.SIGINT)
        assert up.code() == 0
    nothing_left()
    shown = run("job", "show", str(job.id), "--json", folder=project).stdout
    assert '"state": "running"' not in shown
    assert '"state": "completed"' not in shown


@pytest.mark.parametrize("marker", ["", "PostgreSQL", "schema"])
async def test_ctrl_c_while_it_starts_leaves_nothing_running(
    start, make_project, nothing_left, marker
):
    project = make_project(scaled())
    up = start("up", folder=project)
    lock = project / ".awa" / "run.lock"
    up.until(lambda: lock.exists() and lock.read_text() and marker in up.said, f"is at {marker}")
    up.signal_group(signal.SIGINT)
    assert (up.code(), up.said.splitlines()[-1:]) == (0, ["Stopped. The data stay in .awa."])
    nothing_left()


async def test_killing_it_leaves_nothing_running_and_nothing_lost(
    start, make_project, client_of, workplace, nothing_left
):
    project = make_project(scaled())
    up = start("up", folder=project).until_said("look, in another terminal")
    async with client_of(project) as client:
        job = await with_running_job(up, client, workplace)
        up.kill()
    await eventually(lambda: not processes_of(workplace), LIMIT, what="nothing is left")
    (workplace / "release-all").touch()
    start("up", folder=project).until_said("look, in another terminal")
    async with client_of(project) as client:
        await ended(client, 1)
        assert (await client.get_job(job.id)).attempt == 2
    assert started(workplace).keys() == {job.id}


async def test_no_worker_outlives_a_command_that_ignores_signals(start, make_project, nothing_left):
    stubborn = """[sh, -c, "trap '' TERM; echo deaf; while :; do read line < /dev/tty; done"]"""
    project = make_project(fixed(drain=0, command=stubborn))
    up = start("up", folder=project).until_said("deaf")
    up.signal_group(signal.SIGINT)
    up.until_said("Draining")
    up.signal_group(signal.SIGINT)
    assert up.code() == 130
    assert "was killed" in up.said
    nothing_left()


def test_workers_do_not_get_the_signals_of_the_terminal(start, make_project):
    project = make_project(fixed())
    up = start("up", folder=project).until_said("worker started")
    groups = {os.getpgid(one.pid) for one in psutil.Process(up.pid).children(recursive=True)}
    assert groups
    assert os.getpgid(up.pid) not in groups
    up.signal_group(signal.SIGINT)
    eventually_sync(lambda: up.has_ended, LIMIT)
