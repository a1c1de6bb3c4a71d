"""What a run tells whoever watches it."""

from dataclasses import dataclass
from datetime import timedelta

from awa._fleet.fleet import Ended
from awa._fleet.pilot import Seen
from awa._local.postgres import EmbeddedPostgres
from awa.health import Address
from awa.manifest import LocalView


@dataclass(frozen=True, slots=True)
class ServerStarted:
    """The embedded server accepts connections."""

    server: EmbeddedPostgres


@dataclass(frozen=True, slots=True)
class PagesServed:
    """Metrics and health can be asked for at an address."""

    address: Address


@dataclass(frozen=True, slots=True)
class SchemaReady:
    """The schema has a version; so many migrations were applied for it."""

    schema: str
    version: int
    applied: int


@dataclass(frozen=True, slots=True)
class QueueStarted:
    """The workers of a queue are looked after from now on."""

    view: LocalView


@dataclass(frozen=True, slots=True)
class LineWritten:
    """A worker has written a line. It may hold anything, escape sequences included."""

    queue: str
    number: int
    line: str


@dataclass(frozen=True, slots=True)
class QueueSeen:
    """A queue was looked at."""

    queue: str
    seen: Seen


@dataclass(frozen=True, slots=True)
class WorkerEnded:
    """A worker has ended, asked or not."""

    queue: str
    ended: Ended


@dataclass(frozen=True, slots=True)
class Draining:
    """The workers finish what runs, for so long at most."""

    alive: int
    longest: timedelta


@dataclass(frozen=True, slots=True)
class StoppingAtOnce:
    """The workers cut off what runs."""


@dataclass(frozen=True, slots=True)
class AllStopped:
    """No worker is left, and no server of ours."""


type Event = (
    PagesServed
    | ServerStarted
    | SchemaReady
    | QueueStarted
    | LineWritten
    | QueueSeen
    | WorkerEnded
    | Draining
    | StoppingAtOnce
    | AllStopped
)
