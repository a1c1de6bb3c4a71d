"""Reading what has ended while it is there, into a journal that the database cannot change."""

import asyncio
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from support.soak.faults import NETWORK_ERRORS
from support.soak.journal import TimedJournal, read_journals
from support.soak.stage import Stage
from support.soak.verdict import ENDED

LOOKS = 5
"""So often a row is looked for while it is kept, so that a server that is away hides none."""
READ_LIMIT_SECONDS = 30.0


class Observer:
    """Notes each end of a job once, as the database shows it."""

    def __init__(self, folder: Path, retention_seconds: float) -> None:
        self._journal = TimedJournal(folder, "observer")
        self._pause = retention_seconds / LOOKS
        self._noted: set[int] = set()

    async def watch(self, stage: Stage) -> None:
        """Look for ever."""
        while True:
            with suppress(*NETWORK_ERRORS):
                async with stage.session() as session:
                    await session.execute("set enable_nestloop = off")  # for want of statistics
                    rows = await session.fetch(ENDED, timeout=READ_LIMIT_SECONDS)
                await asyncio.to_thread(self._note, rows)
            await asyncio.sleep(self._pause)

    def _note(self, rows: Iterable[Any]) -> None:
        lines = []
        for row in rows:
            words = tuple("" if word is None else str(word) for word in row)
            if (known := hash(words)) not in self._noted:
                self._noted.add(known)
                key, *rest = words
                lines.append(("has ended", key, *rest))
        if lines:
            self._journal.note(*lines)


def read_observed(folder: Path) -> Iterator[dict[str, Any]]:
    """Return each end that was noted, as the database has it."""
    for _, _, key, mode, state, attempt, output in read_journals(folder, "observer"):
        yield {
            "key": key, "mode": mode, "state": state, "attempt": int(attempt),
            "output": output or None,
        }  # fmt: skip
