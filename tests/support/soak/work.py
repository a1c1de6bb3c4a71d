"""A worker process that notes what its handlers did and what the database accepted."""

import asyncio
import os
import signal
import sys
from pathlib import Path
from typing import Any

import orjson

import awa
from awa import logs
from awa._runtime.allocator import return_large_blocks
from awa._store.attempts import Flush
from awa.outcome import Failed
from support.soak.handlers import register
from support.soak.journal import TimedJournal, note_offset
from support.soak.knobs import settings

UNWRITTEN = "the outcome could not be written"


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
    return_large_blocks()  # as `awa worker` does
    note_offset(folder)
    logs.configure(os.environ)
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    async with awa.AsyncClient(dsn, 6) as client:
        journal = TimedJournal(folder, "worker")
        register(client.registry, journal)
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
