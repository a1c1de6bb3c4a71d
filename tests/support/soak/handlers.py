"""The handlers of the soak, which note what they did."""

import asyncio
import os
import random
import secrets
import signal
import threading
import time
from typing import Any

import awa
from awa.registry import Registry
from support.soak.jobs import Plain, Rare, Soak
from support.soak.journal import TimedJournal

STEADY = "SOAK_STEADY"
"""Set for the one worker that no job kills, so that its memory can be watched."""
KNOWS_RARE = "SOAK_KNOWS_RARE"
"""Set for the one worker that knows the jobs which the others do not."""
BLOCKED_SECONDS = 2.0
"""How long a handler keeps the whole process: longer than the others wait for its heartbeat."""
HANG_SECONDS = 10.0
"""Longer than the deadline of the workers that have a short one."""


def register(registry: Registry, journal: TimedJournal) -> None:
    """Add the handlers of every job of the soak that this worker knows."""

    async def soak(job: awa.Job[Soak]) -> object:
        token = _started(journal, job)
        returned = await act(job.args.mode, job.attempt)
        journal.note(("ended", job.args.key, token))
        return returned

    def plain(job: awa.Job[Plain]) -> None:
        token = _started(journal, job)
        # A sleep of the interpreter fails in a process whose clock is faked.
        threading.Event().wait(random.random() * 0.2)  # noqa: S311 - chance, not secrets
        journal.note(("ended", job.args.key, token))

    registry.add(soak, Soak)
    registry.add(plain, Plain)
    if KNOWS_RARE in os.environ:
        registry.add(soak, Rare)


def _started(journal: TimedJournal, job: awa.Job[Any]) -> str:
    key, token = job.args.key, secrets.token_hex(6)
    claimed_at = job.attempted_at.timestamp() if job.attempted_at is not None else 0.0
    journal.note(("started", key, token, str(job.attempt), f"{claimed_at:.6f}"))
    job.set_output({"key": key, "token": token})
    return token


async def act(mode: str, attempt: int) -> object:
    """Do what a mode says."""
    chance = random.random()  # noqa: S311 - chance, not secrets
    match mode:
        case "slow":
            await asyncio.sleep(chance)
        case "fail_once" if attempt == 1:
            raise ValueError("the first attempt fails")
        case "fail":
            raise ValueError("every attempt fails")
        case "terminal":
            raise awa.TerminalError("no attempt can help")
        case "snooze" if chance < 0.5:
            return awa.Snooze(0.2)
        case "retry_after" if attempt == 1:
            return awa.RetryAfter(0.2)
        case "cancel":
            return awa.Cancel("it says so")
        case "crash" | "block" | "hang" if attempt == 1:
            await misbehave(mode)
        case _:
            pass
    return None


async def misbehave(mode: str) -> None:
    """Die, let nothing else run for a while, or come to no end for long."""
    match mode:
        case "block":
            time.sleep(BLOCKED_SECONDS)  # noqa: ASYNC251 - so that the process stands still
        case "hang":
            await asyncio.sleep(HANG_SECONDS)
        case _ if STEADY not in os.environ:
            os.kill(os.getpid(), signal.SIGKILL)
        case _:
            pass
