"""Handlers of the commands that tests start. Each run is noted in a file that outlives it."""

import asyncio
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from awa import AsyncClient, Job, TerminalError
from support.soak.journal import Journal

client = AsyncClient()

FOLDER = Path(os.environ["TEST_FOLDER"])
journal = Journal(FOLDER, "runs")


def note(word: str, job: Job[Any]) -> None:
    """Note what happens to an attempt, by which process and when."""
    key = str(job.args["key"])
    journal.note((word, key, str(job.attempt), str(os.getpid()), str(time.monotonic_ns())))


def gate_is_open() -> bool:
    """Whether the test lets jobs go on."""
    return (FOLDER / "gate").exists()


@client.task(dict, kind="quick")
async def quick(job: Job[Any]) -> None:
    """End at once."""
    note("started", job)
    job.set_output({"pid": os.getpid()})


@client.task(dict, kind="wait")
async def wait(job: Job[Any]) -> None:
    """End when the gate is open."""
    note("started", job)
    while not gate_is_open():  # noqa: ASYNC110 - the gate is a file
        await asyncio.sleep(0.1)
    note("ended", job)


@client.task(dict, kind="hold_up")
async def hold_up(job: Job[Any]) -> None:
    """Hold up the event loop at the first attempt, so that nothing after it starts."""
    note("started", job)
    while job.attempt == 1 and not gate_is_open():
        time.sleep(0.01)  # noqa: ASYNC251 - that is the fault
    note("ended", job)


@client.task(dict, kind="stay")
async def stay(job: Job[Any]) -> None:
    """Never end by itself at the first attempt."""
    note("started", job)
    if not gate_is_open():
        await asyncio.Event().wait()


@client.task(dict, kind="save")
async def save(job: Job[Any]) -> None:
    """Record an output when cancelled, and return."""
    note("started", job)
    try:
        await asyncio.Event().wait()
    except asyncio.CancelledError:
        job.set_output({"saved": True})


@client.task(dict, kind="stubborn")
async def stubborn(job: Job[Any]) -> None:
    """Swallow every cancellation."""
    note("started", job)
    while not gate_is_open():
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            note("cancelled", job)


@client.task(dict, kind="endless")
def endless(job: Job[Any]) -> None:
    """Hang in a thread, saying every now and then that it still acts."""
    note("started", job)
    while not gate_is_open():
        note("acts", job)
        time.sleep(0.01)


@client.task(dict, kind="polite")
def polite(job: Job[Any]) -> None:
    """End half a second after it is asked to, in a thread."""
    note("started", job)
    while not job.is_cancelled() and not gate_is_open():
        time.sleep(0.01)
    time.sleep(0.5)
    job.set_output({"polite": True})


@client.task(dict, kind="half_a_second")
def half_a_second(job: Job[Any]) -> None:
    """Look at the flag now and then, and need half a second unless it is set."""
    note("started", job)
    ends_at, asked = time.monotonic() + 0.5, False
    while time.monotonic() < ends_at and not asked:
        time.sleep(0.01)
        asked = job.is_cancelled()
    job.set_output({"whole": not asked, "asked": asked})


@client.task(dict, kind="die")
async def die(job: Job[Any]) -> None:
    """End the process as hard as can be."""
    note("started", job)
    os.kill(os.getpid(), signal.SIGKILL)


@client.task(dict, kind="leave_behind")
async def leave_behind(job: Job[Any]) -> None:
    """Start a program that goes on by itself, and tell its number."""
    note("started", job)
    program = subprocess.Popen(  # noqa: ASYNC220
        [sys.executable, "-c", "import time\nwhile True: time.sleep(1)"]
    )
    journal.note(("program", str(job.args["key"]), str(program.pid), "", ""))
    await asyncio.Event().wait()


@client.task(dict, kind="orphan")
async def orphan(job: Job[Any]) -> None:
    """Start a program that starts another one and leaves it alone."""
    note("started", job)
    script = "import subprocess, sys\nprint(subprocess.Popen(['true']).pid)"
    done = subprocess.run(  # noqa: ASYNC221
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    journal.note(("orphan", str(job.args["key"]), done.stdout.strip(), "", ""))


@client.task(dict, kind="fail")
async def fail(job: Job[Any]) -> None:
    """Fail, and say what it was given."""
    note("started", job)
    job.set_output({"secret": job.args["secret"]})
    try:
        raise ValueError(job.args["secret"])
    except ValueError as error:
        raise (TerminalError if job.args.get("terminal") else RuntimeError)(
            f"bad {job.args}"
        ) from error


@client.task(dict, kind="forget")
async def forget(job: Job[Any]) -> None:
    """Leave a task behind that fails with what the job was given."""
    note("started", job)

    async def fails() -> None:
        raise ValueError(job.args["secret"])

    asyncio.get_running_loop().create_task(fails())
    await asyncio.sleep(0)
