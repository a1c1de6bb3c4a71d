"""A process that was declared dead while it lives goes on as another one."""

import asyncio
from datetime import timedelta

from awa._runtime.recorder import read_recording, recording_files
from support.waiting import eventually


async def test_what_its_former_identity_still_runs_is_noted_there_to_the_end(
    client, database, connect, tmp_path
):
    session = await connect(database.dsn)
    gate, started = asyncio.Event(), []

    @client.task(dict, kind="stubborn")
    async def stubborn(job):
        started.append(job.args["key"])
        while not gate.is_set():
            try:
                await gate.wait()
            except asyncio.CancelledError:
                continue

    async def identities():
        return await session.fetchval("select count(*) from awa.runtime_instances")

    await client.insert({"key": "old"}, kind="stubborn")
    await client.start(
        state_folder=tmp_path, heartbeat_interval_ms=100, poll_interval_ms=50,
        drain_timeout=timedelta(seconds=10), rescue_interval=timedelta(hours=1),
    )  # fmt: skip
    await eventually(lambda: started == ["old"])
    (old,) = recording_files(tmp_path)
    await session.execute("select awa.mark_dead_v1(worker_id, 'test') from awa.runtime_instances")
    await client.insert({"key": "new"}, kind="stubborn")
    await eventually(lambda: started == ["old", "new"])
    both = recording_files(tmp_path)
    assert len(both) == 2
    (new,) = set(both) - {old}
    assert len(read_recording(old).started) == 1
    assert len(read_recording(new).started) == 1
    # Heartbeat and claimer both met the death; one of them became another.
    assert await identities() == 2
    assert client.worker is not None
    worker = client.worker
    (former,) = worker._former
    current = worker.executor.recorder
    places = len(former._free), len(current._free)
    gate.set()
    await worker.executor.finished()
    assert (len(former._free), len(current._free)) == (places[0] + 1, places[1] + 1)
    assert read_recording(old).started == read_recording(new).started == ()
    assert await client.shutdown()
    assert recording_files(tmp_path) == []


async def test_an_identity_that_runs_nothing_leaves_nothing_when_it_is_replaced(
    client, database, connect, tmp_path
):
    @client.task(dict, kind="quick")
    async def quick(_):
        return None

    session = await connect(database.dsn)
    await client.start(state_folder=tmp_path, heartbeat_interval_ms=100)
    (old,) = recording_files(tmp_path)
    await session.execute("select awa.mark_dead_v1(worker_id, 'test') from awa.runtime_instances")
    await eventually(lambda: recording_files(tmp_path) not in ([old], []))
    await eventually(lambda: len(recording_files(tmp_path)) == 1)
    assert not old.exists()
    await client.shutdown()
    assert recording_files(tmp_path) == []


async def test_two_parts_that_notice_the_death_at_once_become_one_other(client, database, connect):
    @client.task(dict, kind="quick")
    async def quick(_):
        return None

    session = await connect(database.dsn)
    await client.start()
    assert client.worker is not None
    await asyncio.gather(client.worker._become_another(), client.worker._become_another())
    assert await session.fetchval("select count(*) from awa.runtime_instances") == 2
