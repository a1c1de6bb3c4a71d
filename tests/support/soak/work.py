"""A worker process that notes what its handlers did and what the database accepted."""

import asyncio
import os
import random
import secrets
import signal
import sys
import time
from datetime import timedelta
from pathlib import Path
from typing import Any

import orjson

import awa
from awa import logs
from awa._store.attempts import Flush
from awa.outcome import Failed
from support.soak.jobs import QUEUES, Soak
from support.soak.journal import TimedJournal, note_offset

STEADY = "SOAK_STEADY"
"""Set for the one worker that no job kills, so that its memory can be watched."""
UNWRITTEN = "the outcome could not be written"
BLOCKED_SECONDS = 2.0
"""How long a handler keeps the whole process: longer than the others wait for its heartbeat."""
LONGEST_RETENTION_SECONDS = 240.0


def settings(seconds: float) -> awa.WorkerSettings:
    """Return settings under which everything that takes minutes elsewhere takes moments."""
    retention = min(LONGEST_RETENTION_SECONDS, max(6.0, seconds / 3))
    moment = timedelta(milliseconds=300)
    return awa.WorkerSettings(
        queues=tuple(
            awa.QueueSettings(
                name=name, max_workers=100, deadline=timedelta(seconds=3),
                priority_aging_interval=timedelta(seconds=1),
            )
            for name in QUEUES
        ),
        heartbeat_interval=timedelta(milliseconds=500),
        heartbeat_staleness=timedelta(milliseconds=1500),
        rescue_interval=moment, deadline_interval=moment, cleanup_interval=moment,
        promote_interval=timedelta(milliseconds=100),
        leader_lease=timedelta(seconds=1), leader_check_interval=moment,
        rotate_interval=timedelta(seconds=retention / 12),
        completed_retention=timedelta(seconds=retention),
        evacuate_after=timedelta(seconds=2), drain_timeout=timedelta(seconds=5),
    )  # fmt: skip


def handler(journal: TimedJournal) -> Any:
    """Return the handler of every job of the soak."""

    async def soak(job: awa.Job[Soak]) -> object:
        key, mode = job.args.key, job.args.mode
        token = secrets.token_hex(6)
        claimed_at = job.attempted_at.timestamp() if job.attempted_at is not None else 0.0
        journal.note(("started", key, token, str(job.attempt), f"{claimed_at:.6f}"))
        job.set_output({"key": key, "token": token})
        returned = await act(mode, job.attempt)
        journal.note(("ended", key, token))
        return returned

    return soak


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
    """Die, let nothing else run for a while, or never come to an end."""
    match mode:
        case "block":
            time.sleep(BLOCKED_SECONDS)  # noqa: ASYNC251 - so that the process stands still
        case "hang":
            await asyncio.sleep(60)
        case _ if STEADY not in os.environ:
            os.kill(os.getpid(), signal.SIGKILL)
        case _:
            pass


def noting(journal: TimedJournal, inner: Any) -> Any:
    """Return what the finisher calls after each write, with the accepted ends noted first."""

    def ended(flush: Flush, stale: set[tuple[int, int]]) -> None:
        lines = []
        for attempt in flush.sealed:
            at = attempt.claim.seqs.index(attempt.seq)
            args = orjson.loads(attempt.claim.args[at])
            word = type(attempt.outcome).__name__
            if isinstance(attempt.outcome, Failed):
                word = "TerminallyFailed" if attempt.outcome.terminal else word
                word = "Unwritten" if attempt.outcome.error.startswith(UNWRITTEN) else word
            token = orjson.loads(attempt.output)["token"] if attempt.output else ""
            lost = (attempt.claim.claim_id, attempt.seq) in stale
            lines.append(("stale" if lost else "accepted", args["key"], token, word))
        journal.note(*lines)
        inner(flush, stale)

    return ended


async def work(dsn: str, folder: Path, seconds: float) -> None:
    """Work until SIGTERM."""
    note_offset(folder)
    logs.configure(os.environ)
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    async with awa.AsyncClient(dsn, 6) as client:
        journal = TimedJournal(folder, "worker")
        client.registry.add(handler(journal), Soak)
        for _ in iter(int, 1):
            try:
                await client.start(settings=settings(seconds), name="soak")
                break
            except awa.DatabaseError:
                await asyncio.sleep(0.2)  # the server may be down just now
        assert client.worker is not None
        client.worker.finisher.ended = noting(journal, client.worker.finisher.ended)
        await stop.wait()


if __name__ == "__main__":
    asyncio.run(work(sys.argv[1], Path(sys.argv[2]), float(sys.argv[3])))
