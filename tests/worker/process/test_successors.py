"""Whose recording is whose: locks tell who lives, process ids and names do not."""

import os
import signal
from datetime import timedelta
from pathlib import Path

import pytest

from awa import AsyncClient, JobState
from awa._runtime.recorder import Recorder, abandoned, read_recording, recording_files
from awa._runtime.settler import Settler
from awa._store.database import Database
from awa.metrics import SupervisorMetrics
from awa.settings import DatabaseSettings
from support.waiting import eventually

LONG = timedelta(seconds=30)


def pretend(recording: Path, process_id: int) -> None:
    """Write another process id into a recording, as another container would have."""
    with recording.open("r+b") as opened:
        opened.seek(16)
        opened.write(process_id.to_bytes(8, "little"))
    assert read_recording(recording).process_id == process_id


async def completed(client, job):
    async def found():
        now = await client.get_job(job.id)
        return now if now.state is JobState.Completed else None

    return await eventually(found, LONG, what="a completed job")


async def test_a_process_id_and_a_name_that_came_back_keep_nobody_alive(commands, client):
    job = await client.insert({"key": "a"}, kind="stay")
    command = commands.start("work", "--name", "stable-0")
    await commands.noted("started", "a")
    command.send(signal.SIGKILL)
    await command.ended()
    commands.open_gate()
    (recording,) = commands.recordings()
    pretend(recording, os.getpid())  # a process that lives
    commands.start("work", "--name", "stable-0")
    done = await completed(client, job)
    assert done.attempt == 2
    assert [one["error"] for one in done.errors] == [
        "worker process died: found when its successor started"
    ]


async def test_a_neighbour_on_the_same_folder_is_left_alone_whatever_its_process_id(
    commands, client
):
    job = await client.insert({"key": "a"}, kind="wait")
    first = commands.start("work", "--name", "twin")
    await commands.noted("started", "a")
    (recording,) = commands.recordings()
    pretend(recording, 2**22 + 1)  # no process of this machine has it
    second = commands.start("work", "--name", "twin")
    await second.works()
    os.kill(second.children()[0], signal.SIGKILL)  # makes its supervisor look at the folder
    await second.said("dead worker settled")
    assert first.lines("declared dead, registering again") == []
    commands.open_gate()
    assert (await completed(client, job)).errors == []
    assert [note.attempt for note in commands.notes("started", "a")] == ["1"]


async def test_recordings_of_another_database_are_left_to_its_own_workers(
    make_commands, make_database, migrated_template
):
    one, other = make_database(migrated_template), make_database(migrated_template)
    commands, others = make_commands(one.dsn), make_commands(other.dsn)
    async with AsyncClient(one.dsn, 2) as client:
        job = await client.insert({"key": "a"}, kind="stay")
        command = commands.start()
        await commands.noted("started", "a")
        command.send(signal.SIGKILL)
        await command.ended()
        state = str(commands.folder / "state")
        stranger = others.start("work", AWA_STATE_FOLDER=state)
        await stranger.works()
        os.kill(stranger.children()[0], signal.SIGKILL)
        await stranger.said("dead worker settled")
        await stranger.works(2)
        assert len(commands.recordings()) == 2
        commands.open_gate()
        commands.start()
        assert (await completed(client, job)).attempt == 2
        await eventually(lambda: len(commands.recordings()) == 2, LONG, what="the two that live")


def test_a_recording_is_abandoned_only_when_its_process_has_let_go(tmp_path):
    folder = tmp_path / "engine"
    folder.mkdir()
    recorder = Recorder(folder, 7, places=2)
    (path,) = recording_files(tmp_path)
    for number in range(5):  # more than it has places for
        recorder.note(100 + number, number)
    recorder.clear(0)
    with abandoned(path) as recording:
        assert recording is None
    child = os.fork()
    if child == 0:  # it holds the lock too, as it may still act for its parent
        signal.pause()
        os._exit(0)
    try:
        assert recorder._descriptor is not None
        os.close(recorder._descriptor)
        recorder._numbers.release()
        recorder._map.close()
        with abandoned(path) as recording:
            assert recording is None
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    with abandoned(path) as recording:
        assert recording is not None
        assert recording.worker_id == 7
        assert sorted(recording.started) == [(101, 1), (102, 2), (103, 3), (104, 4)]
        with abandoned(path) as again:
            assert again is None


def test_a_closed_recorder_leaves_nothing(tmp_path):
    folder = tmp_path / "engine"
    folder.mkdir()
    Recorder(folder, 7).close()
    assert list(folder.iterdir()) == []


@pytest.mark.parametrize("content", [b"", b"short", b"\0" * 64, os.urandom(4096)])
async def test_what_is_no_recording_is_left_where_it_is_and_said_once(
    content, tmp_path, database, caplog
):
    folder = tmp_path / "engine"
    folder.mkdir()
    (folder / "1.attempts").write_bytes(content)
    store = Database(DatabaseSettings(database_url=database.dsn), pool_size=1)
    settler = Settler(store, tmp_path, SupervisorMetrics(1))
    assert await settler.settle_all()
    assert await settler.settle_all()
    assert [record.message for record in caplog.records] == [
        "a recording cannot be read; staleness hands its jobs on"
    ]
    assert (folder / "1.attempts").read_bytes() == content
