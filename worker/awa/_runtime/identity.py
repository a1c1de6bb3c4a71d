"""Who this process is to the database: a number for each start, and what it holds.

A process that is declared dead while it lives (suspended, cut off) becomes somebody else: it asks
the handlers of its old identity to stop, registers again, and goes on with a new number. What the
old identity still finishes is accepted or refused by the guard, as if it were another process.
"""

import os
import socket
from collections import Counter
from pathlib import Path
from typing import Any

from awa._runtime.recorder import Recorder
from awa._store.attempts import Claim, Place
from awa._store.database import Database
from awa.settings import WorkerSettings


class Identity:
    """The current identity of a worker process."""

    def __init__(
        self,
        database: Database,
        settings: WorkerSettings,
        kinds: tuple[str, ...],
        name: str,
        state_folder: Path | None,
    ) -> None:
        self._database = database
        self._settings = settings
        self._kinds = kinds
        self._name = name
        self._folder = state_folder
        self.worker_id = 0
        self.held: Counter[tuple[int, int]] = Counter()
        """Open attempts by claim and token: after a lost time a claim's number comes again."""
        self.recorder = Recorder(None, 0)

    async def register(self, version: str) -> None:
        """Become a new worker; jobs of our kinds that nobody knew become due."""
        self.worker_id = await self._database.value(
            "register_worker",
            self._name,
            version,
            socket.gethostname(),
            os.getpid(),
            [queue.name for queue in self._settings.queues],
            list(self._kinds),
            self._settings.heartbeat_staleness,
            self._settings.pod_owner or "",
            self._settings.pod_name or "",
            self._settings.pod_uid or "",
            [queue.completed_retention for queue in self._settings.queues],
            [queue.failed_retention for queue in self._settings.queues],
        )
        self.held = Counter()
        if self._folder is None:
            self.recorder = Recorder(None, self.worker_id)
        else:
            # Numbers of workers are those of one engine; a state folder may outlive it.
            folder = self._folder / await self._database.engine()
            folder.mkdir(mode=0o700, exist_ok=True)
            self.recorder = Recorder(folder, self.worker_id)

    def took(self, claims: list[Claim]) -> None:
        """Note what was claimed; of one claim, bodies of holes come apart from those behind."""
        for claim in claims:
            self.held[(claim.claim_id, claim.token)] += len(claim.seqs)

    def let_go(self, claim: Claim, count: int) -> None:
        """Note that the database has an answer for so many attempts of a claim."""
        key = (claim.claim_id, claim.token)
        left = self.held.get(key, 0) - count
        if left > 0:
            self.held[key] = left
        else:
            self.held.pop(key, None)

    async def say_alive(self, started: list[Place]) -> set[tuple[int, int]] | None:
        """Send a heartbeat; None when this identity has been declared dead.

        Return claim and place of the attempts in `started` that somebody else has ended.
        """
        rows = await self._database.fetch(
            "heartbeat",
            self.worker_id,
            [claim_id for claim_id, _ in self.held],
            *([place[part] for place in started] for part in range(len(Place._fields))),
            2 * self._settings.heartbeat_interval,
            limit=self._settings.answer_timeout,
        )
        row: Any = rows[0]
        if not row["alive"]:
            return None
        return set(zip(row["ended_claims"] or (), row["ended_seqs"] or (), strict=True))

    async def give_back(self, token: int) -> int:
        """Give back the claim whose answer was lost."""
        return int(await self._database.value("give_back", self.worker_id, token))

    async def leave(self, reason: str) -> None:
        """Tell the database that this identity is gone and runs nothing; what it holds goes back.

        Only for a process in which no attempt can act any more.
        """
        await self._database.value("settle", self.worker_id, reason, [], [])
