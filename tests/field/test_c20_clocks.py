"""C20: hosts whose clocks are wrong, or jump: the database's clock counts, and spans are real ones.

The clocks are those of processes under libfaketime; this test and the server have the right one.
There is no cron in this product, so that nothing is caught up after a jump. A worker that was
suspended (line 4) is in test_c03_declared_dead_alive.py.
"""

import asyncio
import os
import shutil
import subprocess
import sys
import time
from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import psutil
import pytest

from awa import Job, JobState
from support.fleet.fleet import TESTS
from support.fleet.tasks import QUEUE, Task
from support.sizes import sized
from support.waiting import eventually

JOBS = sized(300, 1000)
AHEAD = timedelta(seconds=sized(3, 5))
SHIFTS = {"right": "+0", "ahead": "+1h", "behind": "-1h"}
HOUR, DAY = timedelta(hours=1), timedelta(days=1)
DEADLINE_SECONDS = 3
LATEST = 15
"""Seconds beyond its limit that a busy machine may take over handing on."""
PATIENT = {"heartbeat_staleness_ms": 60_000}
"""Of who is not to be taken for dead for its being slow; an hour off is far more than that."""
LEADER = "select i.pid from awa.leader l join awa.runtime_instances i using (worker_id)"
HELD = (
    "select c.closed_at - b.claimed_at from awa.claim_closures c join awa.claim_batches b"
    " using (slot, claim_id) where c.lane_id = $1::bigint % 1024 and c.items @> $1::bigint / 1024"
    " order by c.closed_at limit 1"
)
"""How long the first attempt of a job was its worker's, by the server's clock."""
TOLERANCE = timedelta(seconds=1)
SLOW_MACHINE = timedelta(seconds=2)
"""What a busy machine may take between a job being due and its handler noting the start."""
PRODUCE = """
import sys, time, awa
from support.fleet.tasks import Task
with awa.Client(sys.argv[1], 2) as client:
    client.insert_many([Task(f"{sys.argv[2]}{n}") for n in range(20)], queue="q")
    print(time.time())
"""
ENQUEUE = """
import time
from awa.cli.app import app
print(time.time(), flush=True)
app(["enqueue", "task", '{"key": "a"}', "--queue", "q", "--at", "+90s"])
"""


def faked(shift: str) -> dict[str, str]:
    """Return the environment of a process whose clock is off by `shift`, such as `+1h`.

    What measures spans is left alone, as on a host whose clock is wrong.
    """
    program = shutil.which("faketime")
    assert program, "libfaketime is not installed: it is the Debian package `faketime`"
    shown = subprocess.run(
        [program, "-f", shift, "printenv", "LD_PRELOAD"], capture_output=True, text=True, check=True
    )
    return {
        "LD_PRELOAD": shown.stdout.strip(),
        "FAKETIME": shift,
        "FAKETIME_DONT_FAKE_MONOTONIC": "1",
        "DONT_FAKE_MONOTONIC": "1",
    }


@pytest.mark.slow
async def test_workers_an_hour_apart_rescue_nobody_and_start_scheduled_jobs_in_time(
    fleet, database, connect
):
    session = await connect(database.dsn)
    for name, shift in SHIFTS.items():
        await fleet.process(name, faked(shift), deadline_seconds=60, max_workers=5, **PATIENT)

    async def all_work() -> bool:
        count = "select count(*) from awa.runtime_instances where dead_at is null"
        found: bool = await session.fetchval(count) == 3
        return found

    await eventually(all_work, timedelta(seconds=60), what="three workers")
    due = datetime.now(UTC) + AHEAD
    now = [Task(f"now{number}", "nap") for number in range(JOBS)]
    later = [Task(f"later{number}") for number in range(JOBS // 10)]
    jobs = await fleet.client.insert_many(now, queue=QUEUE)
    jobs += await fleet.client.insert_many(later, queue=QUEUE, run_at=due)
    await fleet.quiet(seconds=60)
    assert fleet.keys_started() == fleet.completions() == Counter(t.key for t in (*now, *later))
    assert fleet.ends("stale") == []
    assert await all_work()
    errors = {(name, round(error / HOUR)) for (_, name), error in fleet.clock_errors().items()}
    assert errors == {("right", 0), ("ahead", 1), ("behind", -1)}
    assert await session.fetchval("select count(*) from awa.runtime_instances") == 3

    # From the clock that the handlers note to the one of the database.
    offset = datetime.now(UTC) - timedelta(microseconds=time.monotonic_ns() / 1000)
    for run in fleet.runs():
        if run.key.startswith("later"):
            started = offset + timedelta(microseconds=run.started_ns / 1000)
            assert -TOLERANCE / 10 < started - due < TOLERANCE + SLOW_MACHINE
    began = due - AHEAD
    for job in jobs:
        found = await fleet.client.get_job(job.id)
        stored = [found.created_at, found.finalized_at]
        assert all(began - TOLERANCE < at < datetime.now(UTC) + TOLERANCE for at in stored)
        assert found.created_at < found.finalized_at


@pytest.mark.slow
@pytest.mark.parametrize("shift", ["+1h", "-1h"])
async def test_a_leader_an_hour_off_hands_on_what_is_overdue_or_lost_in_the_usual_time(
    fleet, database, connect, shift
):
    session = await connect(database.dsn)
    # Nobody takes over from it, not even when it stands still.
    leader = await fleet.process(
        "leader", faked(shift), max_workers=1, leader_lease_ms=600_000
    )  # fmt: skip
    await fleet.client.insert(Task("busy", "gate"), queue=QUEUE)
    await fleet.known_started("busy")  # it has no place for another job now

    async def leads() -> bool:
        return bool(await session.fetchval(LEADER) == leader.pid)

    await eventually(leads, what="the leader")
    timed = await fleet.process(
        "timed", deadline_seconds=DEADLINE_SECONDS, max_workers=1, **PATIENT
    )  # fmt: skip
    overdue = await fleet.client.insert(Task("overdue", "gate"), queue=QUEUE)
    await fleet.started("overdue", seconds=60)
    assert await handed_on(fleet, overdue) < DEADLINE_SECONDS + LATEST
    held = await session.fetchval(HELD, overdue.id)
    assert held > timedelta(seconds=DEADLINE_SECONDS - 0.5)
    await timed.kill()
    doomed = await fleet.process("doomed", max_workers=2)
    lost = await fleet.client.insert(Task("lost", "gate"), queue=QUEUE)
    await fleet.started("lost", seconds=60)
    await fleet.known_started("busy", "lost")
    assert (await fleet.client.get_job(lost.id)).state is JobState.Running
    killed = now()
    await doomed.kill()
    await handed_on(fleet, lost)
    assert 0.5 < now() - killed < LATEST
    assert await leads()
    assert round(fleet.clock_errors()["busy", "leader"] / HOUR) == int(shift.removesuffix("h"))
    fleet.open_gate()
    await fleet.quiet(seconds=60)


async def handed_on(fleet, job: Job[Any]) -> float:
    """Wait until an attempt was taken from its worker; return how long after its start."""

    async def taken() -> bool:
        found = await fleet.client.get_job(job.id)
        return found.state is not JobState.Running or found.attempt > 1

    await eventually(taken, timedelta(seconds=60), what=f"{job.args['key']} to be handed on")
    (started, *_) = [run.started_ns for run in fleet.runs() if run.key == job.args["key"]]
    return now() - started / 1e9


@pytest.mark.parametrize("shift", ["-10m", "+10m"])
async def test_the_jobs_of_a_producer_whose_clock_is_wrong_start_at_once(fleet, shift):
    await fleet.embedded("w")
    producer = await asyncio.create_subprocess_exec(
        sys.executable, "-c", PRODUCE, fleet.dsn, "a",
        env={**os.environ, "PYTHONPATH": str(TESTS), **faked(shift)}, stdout=subprocess.PIPE,
    )  # fmt: skip
    assert producer.stdout is not None
    said = float(await producer.stdout.read())
    assert abs(said - time.time()) > 500
    await producer.wait()
    await fleet.started(*(f"a{number}" for number in range(20)), seconds=5)
    await fleet.quiet()


@pytest.mark.parametrize("shift", ["-10m", "+10m"])
async def test_a_distance_from_now_is_counted_from_the_time_of_the_database(fleet, shift):
    before, distance = datetime.now(UTC), timedelta(seconds=90)
    command = await asyncio.create_subprocess_exec(
        sys.executable, "-c", ENQUEUE, env={**os.environ, "AWA_DATABASE_URL": fleet.dsn}
        | faked(shift), stdout=subprocess.PIPE,
    )  # fmt: skip
    said, _ = await command.communicate()
    assert command.returncode == 0
    assert abs(float(said.split()[0]) - time.time()) > 500
    (job,) = await fleet.client.list_jobs(queue=QUEUE)
    assert before + distance <= job.run_at <= datetime.now(UTC) + distance


@pytest.mark.slow
async def test_a_leader_whose_clock_jumps_by_a_day_and_back_neither_spins_nor_stops(
    fleet, engine, tmp_path
):
    clock = tmp_path / "clock"
    set_clock(clock, "+0")
    faking = faked("+0") | {"FAKETIME_TIMESTAMP_FILE": str(clock), "FAKETIME_CACHE_DURATION": "1"}
    del faking["FAKETIME"]
    worker = await fleet.process("w", faking, **PATIENT)
    await engine.admin.execute(
        "create sequence public.beats; grant all on sequence beats to public"
    )
    await engine.change("promote_v1", ("\nbegin\n", "\nbegin\nperform nextval('public.beats');\n"))
    await fleet.client.insert(Task("first"), queue=QUEUE)
    await fleet.started("first")

    async def rate(jump: str = "+0") -> tuple[float, float]:
        """How often a second a duty runs, and how busy the process is, while a job is due soon.

        The job keeps the leader looking: one that has nothing to wait for sleeps.
        """
        due = datetime.now(UTC) + timedelta(seconds=4)
        job = await fleet.client.insert(Task(f"due {jump} {due}"), queue=QUEUE, run_at=due)
        set_clock(clock, jump)
        process, beats = psutil.Process(worker.pid), "select last_value from public.beats"
        cpu, runs, began = sum(process.cpu_times()[:2]), await engine.admin.fetchval(beats), now()
        await eventually(lambda: now() - began > 3, what="three seconds")
        span = now() - began
        duties = (await engine.admin.fetchval(beats) - runs) / span
        busy = (sum(process.cpu_times()[:2]) - cpu) / span
        await fleet.quiet()
        moved = fleet.clock_errors()[job.args["key"], "w"]
        assert round(moved / DAY) == int(jump.removesuffix("d")), "the clock has not jumped"
        return duties, busy

    await rate()  # what the start costs is over
    usual = await rate()
    for jump in ("+1d", "+0", "-1d", "+0"):
        duty, cpu = await rate(jump)
        assert 0 < duty < 2 * usual[0] + 2
        assert cpu < 2 * usual[1] + 0.3
        await fleet.client.insert(Task(f"after {jump} {now()}"), queue=QUEUE)
        await fleet.quiet()
    assert set(fleet.keys_started().values()) == {1}
    assert await engine.admin.fetchval("select count(*) from awa.runtime_instances") == 2


def set_clock(file: Path, shift: str) -> None:
    """Move the clock of the processes that look at the file."""
    file.write_text(f"{shift}\n")


def now() -> float:
    return time.monotonic()
