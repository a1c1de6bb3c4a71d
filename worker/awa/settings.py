"""Every knob of a worker: its unit, its default and why.

Settings are checked when they are made; an error names the knob. `load_worker_settings` reads the
environment: the variable of a knob is `AWA_` and its name, with the unit for durations, such as
`AWA_HEARTBEAT_INTERVAL_SECONDS=10`. Nothing else reads the environment, and nothing at import.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Annotated
from urllib.parse import urlsplit

from awa.errors import ValidationError
from awa.knobs import Knob, check_knobs, check_type, read_knobs
from awa.queue_settings import QueueSettings

DEFAULT_MAX_WORKERS = 10
RING_SLOTS = 16
_SECOND = timedelta(seconds=1)
_NOTHING = timedelta(0)
_HOST = re.compile(r"(?:\[[^\[\]]*\]|[^:\[\]]*)(?::\d*)?")


@dataclass(frozen=True, slots=True, kw_only=True)
class DatabaseSettings:
    """How to reach the database. The address may hold a password and is never shown."""

    database_url: Annotated[str, Knob("Address, as postgresql://user@host/database.")] = field(
        repr=False
    )
    schema: Annotated[
        str, Knob("The schema that holds the engine; several fit in one database.")
    ] = "awa"
    max_connections: Annotated[
        int,
        Knob("Connections of one process: claims, finishes, one listener, maintenance.", least=2),
    ] = 10
    connect_timeout: Annotated[
        timedelta, Knob("How long to wait for a connection.", least=timedelta(milliseconds=1))
    ] = timedelta(seconds=10)
    statement_timeout: Annotated[
        timedelta,
        Knob(
            "How long to wait for an answer before the connection counts as broken.",
            least=timedelta(milliseconds=1),
            most=timedelta(seconds=30),
        ),
    ] = timedelta(seconds=30)

    listen_url: Annotated[
        str | None,
        Knob(
            "Another address of the same database, past a pooler in transaction mode: where a "
            "worker listens for new jobs, with one connection."
        ),
    ] = field(default=None, repr=False)

    def __post_init__(self) -> None:
        check_knobs(self, "database ")
        for name in ("database_url", "listen_url"):
            address = getattr(self, name)
            if address is not None and not _is_address(address):
                raise ValidationError(
                    f"{name} is not an address of PostgreSQL; it looks like "
                    "postgresql://user@host/database"
                )


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerSettings:
    """How a worker runs. Raises `ValidationError` naming the knob."""

    queues: Annotated[
        tuple[QueueSettings, ...], Knob("The queues that are served, with their own knobs.")
    ] = field(default_factory=lambda: (QueueSettings(name="default"),))
    processes: Annotated[
        int,
        Knob(
            "Worker processes under one supervisor: one for each core to be used.",
            least=1,
            most=512,
        ),
    ] = 1
    global_max_workers: Annotated[
        int | None,
        Knob(
            "Jobs at once over all queues, shared by weight; when not set each queue has its own.",
            least=1,
            most=100_000,
        ),
    ] = None
    poll_interval: Annotated[
        timedelta,
        Knob(
            "How often to look for jobs when no notification comes: the delay behind a pooler that "
            "swallows notifications.",
            least=timedelta(milliseconds=1),
            most=timedelta(minutes=10),
        ),
    ] = timedelta(milliseconds=200)
    answer_timeout: Annotated[
        timedelta,
        Knob(
            "How long a claim, a write of outcomes or a heartbeat waits for an answer before its "
            "connection counts as broken and another takes its place; `statement_timeout` if that "
            "is shorter. None of them may take longer.",
            least=timedelta(milliseconds=100),
            most=timedelta(seconds=30),
        ),
    ] = timedelta(seconds=8)
    finish_batch_size: Annotated[
        int, Knob("The most attempts in one write of outcomes.", least=1, most=10_000)
    ] = 512
    finish_flush_interval: Annotated[
        timedelta,
        Knob(
            "How long an outcome waits for others to be written with: too short to notice, long "
            "enough that a busy worker writes hundreds at once.",
            least=_NOTHING,
            most=timedelta(seconds=10),
        ),
    ] = timedelta(milliseconds=1)
    finish_buffer_size: Annotated[
        int,
        Knob(
            "Outcomes that may wait while the database does not answer; then claiming stops.",
            least=1,
            most=1_000_000,
        ),
    ] = 16_384
    heartbeat_interval: Annotated[
        timedelta,
        Knob(
            "How often a process says that it lives; one small update each.",
            least=timedelta(milliseconds=10),
            most=timedelta(minutes=10),
        ),
    ] = timedelta(seconds=30)
    heartbeat_staleness: Annotated[
        timedelta,
        Knob(
            "A process silent for so long is dead and its jobs run elsewhere. At least three "
            "intervals, so that one lost update kills nobody.",
            least=timedelta(milliseconds=30),
            most=timedelta(hours=1),
        ),
    ] = timedelta(seconds=90)
    drain_timeout: Annotated[
        timedelta,
        Knob(
            "How long running jobs may go on after a stop was asked for. Keep it below the time "
            "after which the platform kills the process.",
            least=_NOTHING,
            most=timedelta(days=1),
        ),
    ] = timedelta(seconds=30)
    leader_lease: Annotated[
        timedelta,
        Knob(
            "For how long a process that stopped answering still counts as the maintenance leader.",
            least=timedelta(milliseconds=30),
            most=timedelta(hours=1),
        ),
    ] = timedelta(seconds=30)
    leader_check_interval: Annotated[
        timedelta,
        Knob(
            "How often leadership is renewed or tried for; at most a third of the lease.",
            least=timedelta(milliseconds=10),
            most=timedelta(minutes=10),
        ),
    ] = timedelta(seconds=10)
    promote_interval: Annotated[
        timedelta,
        Knob(
            "How often jobs that have become due are made ready: the precision of `run_at`.",
            least=timedelta(milliseconds=10),
            most=timedelta(minutes=10),
        ),
    ] = timedelta(milliseconds=250)
    promote_batch_size: Annotated[
        int, Knob("The most jobs made ready by one statement.", least=1, most=100_000)
    ] = 4096
    rescue_interval: Annotated[
        timedelta,
        Knob(
            "How often the jobs of dead processes are looked for.",
            least=timedelta(milliseconds=10),
            most=timedelta(hours=1),
        ),
    ] = timedelta(seconds=30)
    deadline_interval: Annotated[
        timedelta,
        Knob(
            "How often attempts past their deadline are looked for.",
            least=timedelta(milliseconds=10),
            most=timedelta(hours=1),
        ),
    ] = timedelta(seconds=30)
    cleanup_interval: Annotated[
        timedelta,
        Knob(
            "How often to see whether the ring must turn, and what is past its retention.",
            least=timedelta(milliseconds=10),
            most=timedelta(hours=1),
        ),
    ] = timedelta(seconds=10)
    cleanup_batch_size: Annotated[
        int, Knob("The most rows that one clean-up statement deletes.", least=1, most=100_000)
    ] = 1000
    rotate_interval: Annotated[
        timedelta | None,
        Knob(
            "How long the ring fills one of its 16 slots. When not set a twelfth of the longest "
            "`completed_retention`, so that the ring is long enough to keep it.",
            least=timedelta(milliseconds=10),
            most=timedelta(days=30),
        ),
    ] = None
    ring_max_bytes: Annotated[
        int,
        Knob(
            "Bytes of history that the ring may hold; beyond them the oldest goes before its time.",
            least=16 * 1024**2,
        ),
    ] = 8 * 1024**3
    evacuate_after: Annotated[
        timedelta,
        Knob(
            "A slot left so long ago gives its last running jobs another place, so that a few long "
            "runners do not keep it from being emptied.",
            least=_NOTHING,
            most=timedelta(days=30),
        ),
    ] = timedelta(minutes=30)
    completed_retention: Annotated[
        timedelta,
        Knob(
            "How long completed and cancelled jobs and their outputs stay readable: a day to look "
            "at what happened. A queue's own time holds for completed jobs only when it is longer.",
            least=_SECOND,
            most=timedelta(days=365),
        ),
    ] = timedelta(hours=24)
    failed_retention: Annotated[
        timedelta,
        Knob(
            "How long failed jobs stay readable and can be retried: a weekend.",
            least=_SECOND,
            most=timedelta(days=365),
        ),
    ] = timedelta(hours=72)
    dlq_retention: Annotated[
        timedelta,
        Knob(
            "How long jobs in the dead-letter queue are kept.",
            least=_SECOND,
            most=timedelta(days=3650),
        ),
    ] = timedelta(days=30)
    health_address: Annotated[
        str | None,
        Knob(
            "host:port of /healthz and /readyz, `off` for none. `awa worker` serves them on "
            "127.0.0.1:8321 when not set, if that is free; a pod wants 0.0.0.0:8321."
        ),
    ] = None
    metrics_address: Annotated[
        str | None,
        Knob("host:port of /metrics when it is another one than that of the health pages."),
    ] = None
    pod_owner: Annotated[
        str | None,
        Knob(
            "uid of the resource that this worker's pod belongs to. The operator sets this and the "
            "next two, and then hands on the jobs of a pod that is gone without waiting for "
            "`heartbeat_staleness`."
        ),
    ] = None
    pod_name: Annotated[str | None, Knob("Name of this worker's pod.")] = None
    pod_uid: Annotated[str | None, Knob("uid of this worker's pod.")] = None

    def __post_init__(self) -> None:
        check_knobs(self, "")
        self._check_queues()
        if self.heartbeat_staleness < 3 * self.heartbeat_interval:
            raise ValidationError(
                "heartbeat_staleness must be at least three times heartbeat_interval, "
                f"{(3 * self.heartbeat_interval).total_seconds():g} seconds"
            )
        if self.leader_lease < 3 * self.leader_check_interval:
            raise ValidationError(
                "leader_lease must be at least three times leader_check_interval, "
                f"{(3 * self.leader_check_interval).total_seconds():g} seconds"
            )

    @property
    def slot_interval(self) -> timedelta:
        """How long the ring fills one slot."""
        own = [queue.completed_retention or timedelta(0) for queue in self.queues]
        return self.rotate_interval or max(self.completed_retention, *own) / (RING_SLOTS - 4)

    @property
    def slot_max_bytes(self) -> int:
        """Bytes after which the ring leaves a slot early."""
        return self.ring_max_bytes // RING_SLOTS

    def places_of(self, queue: QueueSettings) -> int:
        """Return how many jobs of `queue` may run at once in one process."""
        if self.global_max_workers is not None:
            return self.global_max_workers
        return DEFAULT_MAX_WORKERS if queue.max_workers is None else queue.max_workers

    def _check_queues(self) -> None:
        if not self.queues:
            raise ValidationError("queues is empty; a worker serves one queue at least")
        for queue in self.queues:
            check_type("queues: each", queue, QueueSettings)
        names = [queue.name for queue in self.queues]
        for name in names:
            if names.count(name) > 1:
                raise ValidationError(f"queue {name!r} is configured twice")
        for queue in self.queues:
            self._check_sharing(queue)
        reserved = sum(queue.min_workers or 0 for queue in self.queues)
        if self.global_max_workers is not None and reserved > self.global_max_workers:
            raise ValidationError(
                f"the queues reserve {reserved} places with min_workers and global_max_workers is "
                f"{self.global_max_workers}"
            )

    def _check_sharing(self, queue: QueueSettings) -> None:
        if self.global_max_workers is None and queue.min_workers is not None:
            raise ValidationError(
                f"queue {queue.name!r}: min_workers needs global_max_workers; use max_workers"
            )
        if self.global_max_workers is not None and queue.max_workers is not None:
            raise ValidationError(
                f"queue {queue.name!r}: max_workers and global_max_workers exclude each other; "
                "use min_workers and weight"
            )


def _is_address(url: str) -> bool:
    """Whether a text has the form of a PostgreSQL address; several hosts may stand in it."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return False
    hosts = parts.netloc.rpartition("@")[2].split(",")
    return url.startswith(("postgresql://", "postgres://")) and all(map(_HOST.fullmatch, hosts))


def load_worker_settings(environ: Mapping[str, str]) -> WorkerSettings:
    """Return the settings that the environment gives; what it does not name has its default.

    `AWA_QUEUES` is a list of `name` or `name:max_workers` with commas between.
    """
    found = read_knobs(WorkerSettings, environ)
    if queues := environ.get("AWA_QUEUES"):
        found["queues"] = tuple(_queue_from_text(part) for part in queues.split(","))
    return WorkerSettings(**found)


def load_database_settings(environ: Mapping[str, str]) -> DatabaseSettings:
    """Return how the environment says to reach the database; `AWA_DATABASE_URL` is required."""
    found = read_knobs(DatabaseSettings, environ)
    if "database_url" not in found:
        raise ValidationError("no database: set AWA_DATABASE_URL=postgresql://user@host/database")
    return DatabaseSettings(**found)


def _queue_from_text(text: str) -> QueueSettings:
    name, separator, places = text.strip().rpartition(":")
    if not separator:
        return QueueSettings(name=places)
    if not places.isdecimal():
        raise ValidationError("AWA_QUEUES lists queues as name or name:max_workers")
    return QueueSettings(name=name, max_workers=int(places))
