"""C15: nothing that is still needed is reclaimed, and what goes early is counted and said.

The gates of a single reclaim, and a whole round, are in tests/worker/engine/test_ring.py.
"""

import asyncio
import logging
from contextlib import asynccontextmanager
from datetime import timedelta
from functools import partial

import pytest

import awa
from awa.metrics import families
from support.fleet.tasks import QUEUE, Task
from support.sizes import sized
from support.waiting import eventually

MOMENT = timedelta(milliseconds=50)
SLOTS, SLOT = sized((4, timedelta(milliseconds=100)), (60, timedelta(seconds=1)))
FAST = {
    "rotate_interval": timedelta(milliseconds=100),
    "completed_retention": timedelta(seconds=1),
    "evacuate_after": timedelta(milliseconds=200),
    "cleanup_interval": MOMENT,
}
PATIENCE = timedelta(seconds=60)
"""Of a worker that is not to be declared dead for being slow."""
GENERATION = "select max(generation) from awa.ring_rotations"


@asynccontextmanager
async def turning(fleet, worker, name: str = "load"):
    """Keep a worker busy in a queue of its own, so that the ring turns."""

    def reached(count: int) -> bool:
        return worker.worker.metrics.claimed[name] >= count

    async def pour() -> None:
        made = 0
        while True:
            made += 20
            await fleet.client.insert_many(
                [Task(f"{name}-{n}") for n in range(made - 20, made)], queue=name
            )
            await eventually(partial(reached, made), timedelta(seconds=60))

    pouring = asyncio.create_task(pour())
    try:
        yield
    finally:
        pouring.cancel()


def settings_of(*names: str, **knobs) -> tuple[awa.QueueSettings, ...]:
    return tuple(awa.QueueSettings(name=name, max_workers=20, **knobs) for name in names)


async def turned(engine, slots: int) -> None:
    """Wait until the ring has gone on by so many slots."""
    target = await engine.admin.fetchval(GENERATION) + slots

    async def reached() -> bool:
        return await engine.admin.fetchval(GENERATION) >= target

    await eventually(reached, timedelta(seconds=90))


@pytest.mark.slow
@pytest.mark.timeout(sized(240, 600))
async def test_failed_waiting_and_running_jobs_outlive_a_ring_that_turns(fleet, engine):
    worker = await fleet.embedded(
        "w", queues=settings_of("load", "bad", "idle"), heartbeat_staleness=PATIENCE,
        **(FAST | {"rotate_interval": SLOT}),
    )  # fmt: skip
    failing = await fleet.client.insert_many(
        [Task(f"bad-{n}", "fail_at_gate") for n in range(20)], queue="bad", max_attempts=1
    )
    await fleet.started(*(f"bad-{n}" for n in range(20)))
    fleet.open_gate()
    await eventually(lambda: count(fleet, "failed", "bad", 20))
    (fleet.folder / "gate").unlink()
    await fleet.client.insert(Task("long", "gate"), queue="idle")
    await fleet.started("long")
    await fleet.client.pause_queue("idle")
    waiting = [f"waits-{n}" for n in range(1000)]
    await fleet.client.insert_many([Task(key) for key in waiting], queue="idle")
    async with turning(fleet, worker):
        await turned(engine, SLOTS)
        pruned = worker.worker.metrics.pruned
        await eventually(lambda: pruned["retention"], timedelta(seconds=60), what="a reclaim")

    failed = await fleet.client.list_jobs("failed", queue="bad", limit=100)
    assert sorted(job.id for job in failed) == sorted(job.id for job in failing)
    fleet.open_gate()
    for job in failed:
        await fleet.client.retry(job.id)
    twice = {f"bad-{n}": 2 for n in range(20)}
    await eventually(lambda: twice.items() <= fleet.keys_started().items())
    await fleet.client.resume_queue("idle")
    await eventually(lambda: {*waiting, "long"} <= set(fleet.completions()), timedelta(seconds=60))
    started = fleet.keys_started()
    assert {started[key] for key in (*waiting, "long")} == {1}


async def count(fleet, state: str, queue: str, wanted: int) -> bool:
    (found,) = await fleet.client.queue_counts(queue)
    return getattr(found, state) == wanted


@pytest.mark.slow
async def test_what_the_horizon_covers_is_readable_with_its_output(fleet, engine):
    worker = await fleet.embedded("w", queues=settings_of(QUEUE, "load"), **FAST)
    assert horizon(worker) is None
    (old,) = await fleet.client.insert_many([Task("old")], queue=QUEUE)
    await eventually(lambda: "old" in fleet.completions())
    async with turning(fleet, worker):
        await eventually(lambda: worker.worker.metrics.pruned["retention"], timedelta(seconds=30))
        await turned(engine, 2)
    (new,) = await fleet.client.insert_many([Task("new")], queue=QUEUE)
    await eventually(lambda: "new" in fleet.completions())
    # The history is longer than what was asked for, and told as long as it is.
    await eventually(lambda: (horizon(worker) or 0) >= 1)
    found = await fleet.client.get_job(new.id)
    assert (str(found.state), found.output) == ("completed", {"by": "w", "key": "new"})
    with pytest.raises(awa.JobNotFound):
        await fleet.client.get_job(old.id)


def horizon(worker) -> float | None:
    for family in families(worker.worker.metrics):
        if family.name == "awa_history_seconds":
            return next(iter(family.samples.values()))
    return None


@pytest.mark.slow
async def test_at_the_size_cap_the_oldest_completed_go_first_counted_and_failed_ones_stay(
    fleet, engine
):
    """16 MiB is the least that a worker takes; the jobs are some 26 MiB."""
    await fleet.client.insert(Task("bad", "fail"), queue=QUEUE, max_attempts=1)
    worker = await fleet.embedded(
        "w", max_workers=500, cleanup_interval=MOMENT, ring_max_bytes=16 * 1024**2
    )
    await eventually(lambda: count(fleet, "failed", QUEUE, 1))
    ids = []
    for part in range(16):
        ids += await engine.admin.fetchval(
            "select awa.enqueue_v1('q', 2::smallint, '{task}', array(select jsonb_build_object("
            "'key', $1 || n || repeat('x', 1500), 'does', 'ok') from generate_series(1, 1000) n))",
            f"part-{part}-",
        )
        await eventually(
            lambda done=1000 * part + 1000: count(fleet, "completed", QUEUE, done),
            timedelta(seconds=60),
        )
    await eventually(lambda: worker.worker.metrics.pruned["size"], timedelta(seconds=20))
    assert worker.worker.metrics.pruned["retention"] == 0
    size = worker.worker.metrics.pruned["size"]

    async def left() -> list[int]:
        return [
            row[0] for row in await engine.admin.fetch(
                "select id from awa.terminal_jobs where state = 'completed' order by id"
            )
        ]  # fmt: skip

    found = await left()
    assert found == ids[-len(found) :]
    assert 0 < len(found) <= len(ids) - size
    assert len(await fleet.client.list_jobs("failed", queue=QUEUE)) == 1


async def test_a_queue_s_own_retention_holds_where_it_can_and_nothing_goes_before_its_time(
    fleet, engine, caplog
):
    """The ring is one for all queues: a shorter time holds for what is kept apart."""
    caplog.set_level(logging.ERROR)
    short, long = (
        awa.QueueSettings(name=name, completed_retention=kept_for, failed_retention=kept_for)
        for name, kept_for in (("short", timedelta(seconds=1)), ("long", timedelta(hours=1)))
    )
    worker = await fleet.embedded(
        "w", queues=(short, long, *settings_of("load")), heartbeat_staleness=PATIENCE,
        completed_retention=timedelta(seconds=1), rotate_interval=timedelta(milliseconds=100),
        cleanup_interval=MOMENT,
    )  # fmt: skip
    await fleet.client.insert(Task("long-completes"), queue="long")
    await eventually(lambda: "long-completes" in fleet.completions())
    async with turning(fleet, worker):
        await turned(engine, 2)
    for queue in ("short", "long"):
        await fleet.client.insert(Task(f"{queue}-fails", "fail"), queue=queue, max_attempts=1)
        job = await fleet.client.insert(
            Task(f"{queue}-never"), queue=queue, run_at="2100-01-01T00:00:00Z"
        )
        await fleet.client.cancel(job.id)
        await eventually(lambda queue=queue: count(fleet, "failed", queue, 1))

    async def kept(queue: str) -> set[str]:
        jobs = await fleet.client.list_jobs(queue=queue)
        return {str(job.state) for job in jobs}

    async def gone() -> bool:
        return not await kept("short")

    await eventually(gone, timedelta(seconds=20))
    # The worker's own time is over for the slots that the ring has left.
    duties = worker.worker.metrics.duties
    looked = duties[("prune", "done")]
    await eventually(lambda: duties[("prune", "done")] > looked + 2)
    assert await kept("long") == {"completed", "failed", "cancelled"}
    # Counted all the same.
    assert await count(fleet, "failed", "short", 1)
    assert not caplog.records
