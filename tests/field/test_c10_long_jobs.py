"""C10: being alive decides, not being old; and a deadline is its queue's own.

That too few heartbeats for the staleness are refused is in tests/worker/values/test_settings.py.
"""

import time
from datetime import timedelta

import pytest

import awa
from awa import JobState
from support.fleet.tasks import QUEUE, Task
from support.sizes import sized
from support.waiting import eventually

STALENESS = timedelta(seconds=3)
TIMES_STALENESS = sized(3, 14)
AT_ONCE = 5000
DEADLINE = timedelta(seconds=1)


async def test_a_job_that_outlives_the_staleness_limit_many_times_runs_once(fleet):
    for name in ("v", "w"):
        await fleet.embedded(name, heartbeat_staleness=STALENESS)
    job = await fleet.client.insert(Task("a", "gate"), queue=QUEUE)
    await fleet.started("a")
    await passes(TIMES_STALENESS * STALENESS)
    assert (await fleet.client.get_job(job.id)).state is JobState.Running
    fleet.open_gate()
    await fleet.quiet()
    assert dict(fleet.keys_started()) == {"a": 1}
    assert fleet.ends("stale") == []


async def test_only_the_jobs_of_a_queue_with_a_short_deadline_are_ended_once_for_each_attempt(
    fleet,
):
    deadlines = {"short": DEADLINE, "long": timedelta(hours=1), "none": timedelta(0)}
    client = await fleet.embedded(
        "w",
        queues=tuple(
            awa.QueueSettings(name=name, max_workers=5, deadline=deadline)
            for name, deadline in deadlines.items()
        ),
        heartbeat_staleness=timedelta(seconds=60),
    )
    jobs = {
        name: await fleet.client.insert(Task(name, "gate"), queue=name, max_attempts=2)
        for name in deadlines
    }
    await fleet.started(*deadlines)

    async def has_failed() -> bool:
        return (await fleet.client.get_job(jobs["short"].id)).state is JobState.Failed

    await eventually(has_failed, timedelta(seconds=30), what="both attempts to end")
    short = await fleet.client.get_job(jobs["short"].id)
    assert [entry["attempt"] for entry in short.errors] == [1, 2]
    assert all("deadline" in entry["error"] for entry in short.errors)
    for name in ("long", "none"):
        assert (await fleet.client.get_job(jobs[name].id)).state is JobState.Running
    fleet.open_gate()

    async def have_ended() -> bool:
        found = [await fleet.client.get_job(jobs[name].id) for name in ("long", "none")]
        return all(job.state is JobState.Completed for job in found)

    await eventually(have_ended, what="the others to complete")
    assert dict(fleet.keys_started()) == {"short": 2, "long": 1, "none": 1}
    assert client.worker.metrics.rescued["dead_worker"] == 0


@pytest.mark.slow
async def test_thousands_of_waiting_jobs_cost_one_heartbeat_an_interval(engine, fleet):
    await engine.admin.execute(
        "create sequence public.beats; grant all on sequence beats to public"
    )
    await engine.change(
        "heartbeat_v1", ("\nbegin\n", "\nbegin\nperform nextval('public.beats');\n")
    )
    interval = timedelta(seconds=0.5)
    await fleet.client.enqueue_many_copy(
        [Task(f"t{number}", "stay") for number in range(AT_ONCE)], queue=QUEUE
    )
    # As quick as it gets: a machine that is busy with starting them may miss a few.
    client = await fleet.embedded(
        "w", max_workers=AT_ONCE, heartbeat_interval=interval,
        heartbeat_staleness=timedelta(seconds=10),
    )  # fmt: skip
    worker = client.worker
    await eventually(
        lambda: len(worker.executor.waiting) == AT_ONCE, timedelta(seconds=60), what="all to wait"
    )
    beats = "select last_value from public.beats"
    before, began = await engine.admin.fetchval(beats), time.monotonic()

    async def some() -> bool:
        return await engine.admin.fetchval(beats) >= before + 6

    await eventually(some, timedelta(seconds=20), what="six heartbeats")
    most = (time.monotonic() - began) / interval.total_seconds() + 1
    assert await engine.admin.fetchval(beats) - before <= most
    assert (await fleet.counts()).running == AT_ONCE
    assert len(fleet.keys_started()) == AT_ONCE == sum(fleet.keys_started().values())
    assert worker.metrics.rescued["dead_worker"] == 0


async def passes(span: timedelta) -> None:
    """Let time pass, which is what is tried out."""
    until = time.monotonic() + span.total_seconds()
    await eventually(lambda: time.monotonic() > until, span + timedelta(seconds=10))
