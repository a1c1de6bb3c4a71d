"""`/healthz`, `/readyz` and `/metrics` over HTTP.

`/healthz` proves that the process gets on: its loop turns, work that is there gets done, renewals
of the lease come back through a watch, and what watches told agrees with a list. It fails only for
what a restart would cure, so never because of a database, nor because the API server is away.
`/readyz` says whether the process knows what there is. Standbys are as ready as the leader.
"""

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta

from awa.http_pages import Answer

LAG_INTERVAL_SECONDS = 0.5
LAG_KEPT_SECONDS = 20.0
DEAF_AFTER = timedelta(seconds=90)
"""How long the watch of the lease may be silent although the lease was renewed."""
SILENT_AFTER = timedelta(seconds=240)
"""How long a watch may say nothing while others hear; the server sends a bookmark each minute."""


class LoopLag:
    """Measures how late the event loop is, all the time."""

    def __init__(self, observe: Callable[[float], None]) -> None:
        self._observe = observe
        self._beat = time.monotonic()
        self._worst: list[tuple[float, float]] = []

    async def run(self) -> None:
        """Measure until cancelled."""
        while True:
            await asyncio.sleep(LAG_INTERVAL_SECONDS)
            now = time.monotonic()
            lag = max(now - self._beat - LAG_INTERVAL_SECONDS, 0.0)
            self._beat = now
            self._observe(lag)
            self._worst = [(at, was) for at, was in self._worst if now - at < LAG_KEPT_SECONDS]
            if lag > LAG_INTERVAL_SECONDS:
                self._worst.append((now, lag))

    def lag(self) -> timedelta:
        """Return the worst lag of the last 20 seconds, counting one that lasts."""
        lasting = time.monotonic() - self._beat - LAG_INTERVAL_SECONDS
        return timedelta(seconds=max([lasting, 0.0, *(was for _, was in self._worst)]))


@dataclass(frozen=True, slots=True, kw_only=True)
class Signs:
    """Where the signs of life are read."""

    loop_lag: Callable[[], timedelta]
    stuck_for: Callable[[], timedelta]
    deaf_for: Callable[[], timedelta]
    silent_for: Callable[[], timedelta]
    audits_failed: Callable[[], int]
    synced: Callable[[], bool]
    leads: Callable[[], bool]
    watching: Callable[[], bool]
    missing_fields: Callable[[], tuple[str, ...]]


class HealthPages:
    """What the pages answer. Two audits in a row that found something are a deaf watch."""

    def __init__(
        self,
        signs: Signs,
        exposition: Callable[[], bytes],
        *,
        lag_limit: timedelta,
        stuck_limit: timedelta,
    ) -> None:
        self._signs = signs
        self._exposition = exposition
        self._lag_limit = lag_limit
        self._stuck_limit = stuck_limit

    async def healthz(self) -> Answer:
        """Whether a restart would cure nothing."""
        problems = self.problems()
        return Answer.of_json({"live": not problems, "problems": problems}, ok=not problems)

    def problems(self) -> list[str]:
        """Return what a restart would cure."""
        signs, found = self._signs, []
        if signs.loop_lag() > self._lag_limit:
            found.append("the event loop stands still")
        if signs.stuck_for() > self._stuck_limit:
            found.append("work waits and none gets done")
        if signs.deaf_for() > DEAF_AFTER:
            found.append("the lease was renewed and its watch told nothing")
        if signs.silent_for() > SILENT_AFTER:
            found.append("a watch says nothing while others hear")
        if signs.audits_failed() >= 2:
            found.append("watches miss what lists show")
        return found

    async def readyz(self) -> Answer:
        """Whether the process knows what there is."""
        signs = self._signs
        ready = signs.synced() and signs.watching()
        document = {
            "ready": ready,
            "synced": signs.synced(),
            "watching": signs.watching(),
            "leader": signs.leads(),
            "missing_crd_fields": list(signs.missing_fields()),
        }
        return Answer.of_json(document, ok=ready)

    async def metrics(self) -> Answer:
        """Return all series; thousands of Queues are written in a thread."""
        text = await asyncio.to_thread(self._exposition)
        return Answer.of_metrics(text)
