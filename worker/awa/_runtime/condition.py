"""What a worker process is doing, as its supervisor and the health endpoints see it."""

import asyncio
from dataclasses import asdict, dataclass, field
from datetime import timedelta
from enum import StrEnum
from typing import Any, Self

from awa._runtime.service import Service, State
from awa._runtime.worker import Worker
from awa._store.database import Database
from awa.errors import AwaError, SchemaNotMigrated

STALLED_SECONDS = 15.0
"""How long after its longest pause a service counts as stalled."""
CHECK_LIMIT = timedelta(milliseconds=700)
"""How long a question about health waits for the database."""


@dataclass(frozen=True, slots=True)
class Patience:
    """When a claim loop is beyond hope, if the database answers; counted from its longest pause.

    It may hang for `stuck`, and fail, trying again and again, for `failing` seconds.
    """

    stuck: float = 60.0
    failing: float = 300.0


class Stage(StrEnum):
    """How far a process has come."""

    loading = "loading"
    """It imports the modules of the handlers."""
    waiting = "waiting"
    """It cannot work yet; `reason` says why."""
    working = "working"
    draining = "draining"


@dataclass(frozen=True, slots=True)
class Condition:
    """What one process says of itself. `None` where it does not know."""

    stage: Stage
    live: bool = True
    """False when only a restart can help."""
    reason: str | None = None
    postgres_connected: bool = False
    schema_version: int | None = None
    schema_compatible: bool | None = None
    services: dict[str, str] = field(default_factory=dict)
    leader: bool = False

    @property
    def ready(self) -> bool:
        """Whether jobs run here as they should."""
        return (
            self.stage is Stage.working
            and self.postgres_connected
            and self.schema_compatible is True
            and all(state == State.running for state in self.services.values())
        )

    def to_json(self) -> dict[str, Any]:
        """Return the form that travels to the supervisor."""
        return asdict(self)

    @classmethod
    def from_json(cls, fields: dict[str, Any]) -> Self:
        """Read what `to_json` wrote."""
        return cls(**{**fields, "stage": Stage(fields["stage"])})


async def look(
    worker: Worker, database: Database, *, at_database: bool, patience: Patience = Patience()
) -> Condition:
    """Return the condition of a worker that runs; `at_database` asks the database too."""
    now = asyncio.get_running_loop().time()
    failing = worker.maintenance.failing
    version: int | None = None
    compatible: bool | None = None
    problem: AwaError | TimeoutError | None = None
    if at_database:
        try:
            async with asyncio.timeout(CHECK_LIMIT.total_seconds()):
                version = await database.require_schema()
            compatible = True
        except SchemaNotMigrated as error:
            version, compatible, problem = error.found, False, error
        except (AwaError, TimeoutError) as error:
            problem = error
    return Condition(
        stage=Stage.draining if worker.draining else Stage.working,
        live=worker.draining or not await _is_stuck(worker.claimer, database, now, patience),
        reason=next(filter(None, failing.values()), None)
        if problem is None
        else str(problem) or "the database does not answer",
        postgres_connected=version is not None or isinstance(problem, SchemaNotMigrated),
        schema_version=version,
        schema_compatible=compatible,
        services={
            service.name: str(state_of(service, now))
            for service in worker.services
            if not worker.draining or service.state is not State.stopped
        }
        | {f"duty {name}": str(State.failing) for name in sorted(failing)},
        leader=worker.maintenance.leads,
    )


def held_up(error: AwaError) -> Condition:
    """Return the condition of a process that could not start to work yet."""
    missing = isinstance(error, SchemaNotMigrated)
    return Condition(
        stage=Stage.waiting,
        reason=str(error),
        postgres_connected=missing,
        schema_version=error.found if isinstance(error, SchemaNotMigrated) else None,
        schema_compatible=False if missing else None,
    )


def state_of(service: Service, now: float) -> State:
    """Return what a service is doing, `stalled` when it hangs."""
    pause = service.longest_pause
    quiet = now - service.moved_at
    if service.state is State.running and pause is not None and quiet > pause + STALLED_SECONDS:
        return State.stalled
    return service.state


async def _is_stuck(claimer: Service, database: Database, now: float, patience: Patience) -> bool:
    """Whether the claim loop gets nowhere although the database answers."""
    pause = claimer.longest_pause or 0.0
    hangs = now - claimer.moved_at > pause + patience.stuck
    fails = now - claimer.progressed_at > pause + patience.failing
    return (hangs or fails) and await database.answers(CHECK_LIMIT)
