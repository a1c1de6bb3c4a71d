"""The operator's poller, and what it has told."""

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import timedelta

from awa.scaling import Signals, Unknown
from awa_operator.databases import QueueKey, Served
from awa_operator.dsn import Dsn
from awa_operator.observed import DatabaseProblem, DatabaseView
from awa_operator.poller import Poller
from support.postgres import Database, Server
from support.waiting import DEFAULT_LIMIT, eventually

SESSIONS = "select count(*) from pg_stat_activity where application_name = 'awa operator'"
OWNER = "0b3f9f6e-0000-4000-8000-000000000001"


def served(dsn: str, queue: str = "q", **changes: object) -> Served:
    """Return what a Queue wants; databases with the same address have the same identity."""
    wanted: dict[str, object] = {
        "identity": dsn, "schema": "awa", "monitor": "db/url", "dsn": Dsn(dsn), "queue_name": queue,
        "poll_interval": timedelta(milliseconds=300), "wants_signals": True, "is_waiting": False,
        "owner": OWNER,
    }  # fmt: skip
    return Served(**{**wanted, **changes})  # type: ignore[arg-type]


@dataclass
class Probes:
    """How every look went; implements `PollNotes`."""

    problems: list[tuple[str, DatabaseProblem | None]] = field(default_factory=list)
    seconds: dict[str, list[float]] = field(default_factory=dict)
    ends: dict[str, list[float]] = field(default_factory=dict)
    """When each look ended, by the monotonic clock."""
    sessions: Counter[str] = field(default_factory=Counter)

    def probed(self, identity: str, took_seconds: float, problem: DatabaseProblem | None) -> None:
        """Note a look."""
        self.problems.append((identity, problem))
        self.seconds.setdefault(identity, []).append(took_seconds)
        self.ends.setdefault(identity, []).append(time.monotonic())

    def connected(self, identity: str, change: int) -> None:
        """Note how many sessions are open."""
        self.sessions[identity] += change

    def left(self, identity: str) -> None:
        """Note that a database is looked at no more."""
        assert self.sessions.pop(identity, 0) == 0

    def looks(self, identity: str) -> int:
        """Return how often a database was looked at."""
        return len(self.seconds.get(identity, ()))

    def begun_after(self, identity: str, moment: float) -> int:
        """Return how many looks began after a moment of the monotonic clock, and have ended."""
        looks = zip(self.ends[identity], self.seconds[identity], strict=True)
        return sum(end - took > moment for end, took in looks)


class Watched:
    """A poller whose calls are counted. Queues are known by their name alone."""

    def __init__(self) -> None:
        self.probes = Probes()
        self.told: Counter[str] = Counter()
        self.poller = Poller(self._tell, notes=self.probes)

    def _tell(self, key: QueueKey) -> None:
        self.told[key[1]] += 1

    def serve(self, name: str, wanted: Served | None) -> None:
        """Serve a Queue, or no longer."""
        self.poller.serve(("ns", name), wanted)

    def view(self, name: str) -> DatabaseView | None:
        """Return the view of a Queue's database."""
        return self.poller.view(("ns", name))

    def signals(self, name: str) -> Signals | Unknown | None:
        """Return the signals of a Queue."""
        found = self.poller.signals(("ns", name))
        return None if found is None else found.signals

    async def sees(
        self,
        name: str,
        is_so: Callable[[DatabaseView], bool],
        limit: timedelta = DEFAULT_LIMIT,
    ) -> DatabaseView:
        """Return the first view of a Queue's database of which something is so."""

        async def found() -> DatabaseView | None:
            view = self.view(name)
            return view if view is not None and is_so(view) else None

        view = await eventually(found, limit, what=f"another view of {name}: {self.view(name)}")
        assert view is not None
        return view

    async def reads(
        self,
        name: str,
        is_so: Callable[[Signals | Unknown], bool] = lambda found: isinstance(found, Signals),
        limit: timedelta = DEFAULT_LIMIT,
    ) -> Signals | Unknown:
        """Return the first signals of a Queue of which something is so."""

        async def found() -> Signals | Unknown | None:
            signals = self.signals(name)
            return signals if signals is not None and is_so(signals) else None

        was = self.signals(name)
        signals = await eventually(found, limit, what=f"other signals of {name}: {was}")
        assert signals is not None
        return signals

    async def looks_again(self, identity: str, times: int = 1) -> None:
        """Return when a database has been looked at so often more."""
        before = self.probes.looks(identity)
        await eventually(
            lambda: self.probes.looks(identity) >= before + times, what=f"a look at {identity}"
        )


@asynccontextmanager
async def watching() -> AsyncIterator[Watched]:
    """Give a poller that ends with the block."""
    watched = Watched()
    async with watched.poller:
        yield watched


async def slept(*pauses: float) -> float:
    """Return when pauses one after the other are over, by the monotonic clock.

    A control beside what takes so long: a busy machine makes both late.
    """
    for seconds in pauses:
        await asyncio.sleep(seconds)
    return time.monotonic()


def sessions_of(server: Server, database: Database | None = None) -> int:
    """Return how many sessions of the operator a server has, or one of its databases."""
    with server.admin() as admin:
        asked = SESSIONS if database is None else f"{SESSIONS} and datname = '{database.name}'"
        row = admin.execute(asked).fetchone()
    assert row is not None
    return int(row[0])
