"""The asynchronous client: enqueue, look, administer, and run a worker in this process."""

import os
from collections.abc import Iterable, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, Unpack

from awa._runtime.worker import Worker
from awa._store import jobs as store
from awa._store.counts import QueueCounts
from awa._store.database import Database, load_statements
from awa._store.faults import DRIVER_ERRORS, translated
from awa._store.rows import inserted_row, job_row
from awa._store.sessions import set_local, step
from awa.environment import release
from awa.errors import AwaError, JobNotFound, ValidationError
from awa.job import Job, JobState
from awa.limits import check_name, check_number
from awa.options import InsertOptions, JobOptions, NewJob, checked_names, parse_new_job
from awa.queue_settings import parse_queues
from awa.registry import Registry
from awa.settings import WorkerSettings, load_database_settings
from awa_migrations import migrate as run_migrations

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator

MAX_LISTED = 10_000
MAX_CONNECTIONS = 10_000


class Transaction:
    """A transaction on one connection, for one call at a time.

    Jobs enqueued in it exist when it commits.
    """

    def __init__(self, client: "AsyncClient", session: Any) -> None:
        self._client = client
        self._session = session
        self._is_shared = session.is_shared
        self._has_failed = False
        self._ran_foreign = False
        self._is_busy = False
        self._process = os.getpid()

    async def insert(
        self, args: object, *, kind: str | None = None, **options: Unpack[JobOptions]
    ) -> Job[Any]:
        """Enqueue a job in this transaction; see `AsyncClient.insert`."""
        (job,) = await self.insert_many([args], kind=kind, **options)
        return job

    async def insert_many(
        self,
        args: Iterable[object],
        *,
        kind: str | None = None,
        opts: Sequence[JobOptions | None] | None = None,
        **options: Unpack[JobOptions],
    ) -> list[Job[Any]]:
        """Enqueue jobs in this transaction; see `AsyncClient.insert_many`.

        After an error of the database, such as `UniqueConflict`, the transaction can only be rolled
        back: let the error leave the block.
        """
        new = new_jobs(args, kind, options, opts)
        if not new:
            return []
        with self._statement():
            await self._client._know_lanes(self._session, new)
            return await _insert(self._session, self._client.database.sql, new)

    async def execute(self, statement: str, *values: object) -> str:
        """Run a statement of your own; returns the server's word on it, such as `INSERT 0 1`."""
        with self._statement(foreign=True):
            answer: str = await self._session.execute(statement, *values)
            return answer

    async def fetch(self, statement: str, *values: object) -> list[dict[str, Any]]:
        """Run a query of your own and return its rows."""
        with self._statement(foreign=True):
            return [dict(row) for row in await self._session.fetch(statement, *values)]

    @contextmanager
    def _statement(self, *, foreign: bool = False) -> "Iterator[None]":
        self._check_process()
        if self._is_busy:
            raise ValidationError(
                "a transaction takes one call at a time; await the one that runs before the next"
            )
        self._is_busy = True
        self._ran_foreign |= foreign
        try:
            with translated(foreign=foreign):
                yield
        except BaseException:
            self._has_failed = True
            raise
        finally:
            self._is_busy = False

    @property
    def _is_own(self) -> bool:
        """Whether this process opened it; in a forked child the connection is the parent's."""
        return self._process == os.getpid()

    def _check_process(self) -> None:
        """Raise in a forked child, before anything is said on the parent's connection."""
        if not self._is_own:
            raise ValidationError(
                "this transaction was opened in another process; open one in this process"
            )

    async def _leave(self) -> None:
        """Undo what statements of others changed in the session; else nobody gets it again."""
        if self._ran_foreign and self._is_own and not self._is_shared:
            try:
                await self._session.reset()
            except DRIVER_ERRORS:
                with suppress(*DRIVER_ERRORS):  # one that broke has left the pool by itself
                    self._session.terminate()

    async def _check(self) -> None:
        """Raise when the server would answer a commit by rolling back, which it does silently."""
        self._check_process()
        if self._has_failed:
            with translated():
                await self._session.execute("select")


class AsyncClient:
    """A connection to one Awa schema. Use it as a context manager, or call `close`.

    `database_url` is a PostgreSQL address, by default what AWA_DATABASE_URL says at the first use;
    `schema` likewise is AWA_SCHEMA or `awa`. Connections open at first use, at most
    `max_connections` for calls. A worker started with `start` has three more of its own.

    Errors are those of `awa.errors`: `DatabaseUnreachable`, `SchemaNotMigrated`,
    `PermissionMissing`, `ValidationError`, …; nothing is written when a call raises, except that
    after `DatabaseUnreachable` the outcome of the last statement may be unknown.
    """

    def __init__(
        self,
        database_url: str | None = None,
        max_connections: int = 10,
        *,
        schema: str | None = None,
    ) -> None:
        check_number("max_connections", max_connections, 1, MAX_CONNECTIONS)
        self._address = database_url
        self._schema = schema
        self._max_connections = max_connections
        self._database: Database | None = None
        self._registry = Registry()
        self._worker: Worker | None = None
        self._worker_process = 0
        self._reads_lanes: bool | None = None
        self._lanes: set[tuple[str, int]] = set()

    @property
    def database(self) -> Database:
        """Where the client goes. Without an address of its own it asks the environment, once."""
        if self._database is None:
            environ = dict(os.environ)
            if self._address is not None:
                environ["AWA_DATABASE_URL"] = self._address
            if self._schema is not None:
                load_statements(self._schema)  # an empty name would mean the default below
                environ["AWA_SCHEMA"] = self._schema
            self._database = Database(
                load_database_settings(environ), pool_size=self._max_connections
            )
        return self._database

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Stop the worker if one runs, and close every connection."""
        await self.shutdown()
        if self._database is not None:
            await self._database.close()

    # --- schema ---------------------------------------------------------------------------------

    async def migrate(self) -> int:
        """Bring the schema to this release's version, which is returned.

        The role needs the right to create a schema. Raises the errors of `awa_migrations`.
        """
        settings = self.database.settings
        report = await run_migrations(settings.database_url, schema=settings.schema)
        return report.to_version

    async def require_schema(self) -> int:
        """Return the schema's version; raises when this release cannot work with it."""
        return await self.database.require_schema()

    # --- enqueue --------------------------------------------------------------------------------

    async def insert(
        self, args: object, *, kind: str | None = None, **options: Unpack[JobOptions]
    ) -> Job[Any]:
        """Enqueue one job and return it.

        `args` is a dataclass or pydantic instance, or a dict with `kind`. Options are those of
        `InsertOptions`: queue, priority, max_attempts, run_at, tags, metadata, unique_opts.
        Raises `UniqueConflict` when another job holds the unique key.
        """
        (job,) = await self.insert_many([args], kind=kind, **options)
        return job

    async def insert_many(
        self,
        args: Iterable[object],
        *,
        kind: str | None = None,
        opts: Sequence[JobOptions | None] | None = None,
        **options: Unpack[JobOptions],
    ) -> list[Job[Any]]:
        """Enqueue jobs, all or none, and return them in order.

        `opts` has an entry for each job, None or a mapping with what differs from the options of
        the call. An error of one job has a note with its position, counted from 0.
        """
        new = new_jobs(args, kind, options, opts)
        if not new:
            return []
        async with self.database.session() as session:
            return await _insert(session, self.database.sql, new)

    async def insert_many_copy(
        self,
        args: Iterable[object],
        *,
        kind: str | None = None,
        opts: Sequence[JobOptions | None] | None = None,
        **options: Unpack[JobOptions],
    ) -> list[Job[Any]]:
        """Enqueue jobs in one transaction; duplicates are left out of what is returned.

        Otherwise like `insert_many`.
        """
        new = new_jobs(args, kind, options, opts)
        if not new:
            return []
        async with self.database.session() as session:
            return await _insert(session, self.database.sql, new, skip=True)

    async def enqueue_many_copy(
        self,
        args: Iterable[object],
        *,
        kind: str | None = None,
        opts: Sequence[JobOptions | None] | None = None,
        **options: Unpack[JobOptions],
    ) -> int:
        """Enqueue jobs by COPY, the fastest way, and return how many.

        All or none: one duplicate makes the whole call raise `UniqueConflict`. Jobs with a `run_at`
        or a unique key, and all jobs when the role may not insert into the schema's tables, take
        the slower way of `insert_many`. `opts` as there.
        """
        new = new_jobs(args, kind, options, opts)
        if not new:
            return 0
        settings = self.database.settings
        async with self.database.session() as session:
            return await store.enqueue_copy(session, self.database.sql, settings.schema, new)

    @asynccontextmanager
    async def transaction(self) -> "AsyncIterator[Transaction]":
        """Open a transaction; it commits at the end of the block and rolls back on an error.

        What the block raises goes through as it is. When a statement failed and the block went on
        nevertheless, leaving it raises `DatabaseError` and nothing is committed.
        """
        async with self.database.lend() as session:
            transaction = session.transaction()
            with translated():
                await transaction.start()
            opened = Transaction(self, session)
            try:
                await set_local(session, session.local)
                yield opened
                await opened._check()
                with translated():
                    await transaction.commit()
            except BaseException:
                if opened._is_own:
                    with suppress(*DRIVER_ERRORS):  # a broken session has rolled back by itself
                        await transaction.rollback()
                raise
            finally:
                await opened._leave()

    # --- look -----------------------------------------------------------------------------------

    async def get_job(self, job_id: int) -> Job[Any]:
        """Return a job with its output. Raises `JobNotFound`."""
        async with self.database.session() as session:
            name = "get_job"
            if await session.fetchval(self.database.sql["stores_outputs"]):
                name = "get_job_with_output"
            row = await session.fetchrow(self.database.sql[name], job_id)
        if row is None:
            raise JobNotFound(job_id)
        return Job(job_row(row))

    async def list_jobs(
        self,
        state: JobState | str | None = None,
        kind: str | None = None,
        queue: str | None = None,
        limit: int = 100,
    ) -> list[Job[Any]]:
        """Return jobs, next or newest first within a state; outputs are not loaded."""
        check_number("limit", limit, 1, MAX_LISTED)
        wanted = None if state is None else str(_state(state))
        rows = await self.database.fetch("list_jobs", wanted, kind, queue, limit)
        return [Job(job_row(row)) for row in rows]

    async def queue_counts(self, queue: str | None = None) -> list[QueueCounts]:
        """Return exact counts of every queue, or of one."""
        return [QueueCounts(**row) for row in await self.database.fetch("queue_counts", queue)]

    # --- administer -----------------------------------------------------------------------------

    async def cancel(self, job_id: int) -> Job[Any]:
        """Cancel a job that has not ended, and return it.

        A running attempt loses its claim at once and is asked to stop. A job that has ended
        already stays as it is: look at the state of what is returned.
        """
        if await self.database.value("cancel", job_id) is None:
            raise JobNotFound(job_id)
        return await self.get_job(job_id)

    async def retry(self, job_id: int) -> Job[Any]:
        """Run a failed or cancelled job again from attempt 0, or a waiting one now."""
        found = await self.database.value("retry", job_id)
        if found is None:
            raise JobNotFound(job_id)
        if found in {"completed", "running", "available", "waiting_external"}:
            raise AwaError(f"job {job_id} is {found}; only a job that failed, was cancelled or "
                           "waits for its time can be retried")  # fmt: skip
        return await self.get_job(job_id)

    async def pause_queue(self, queue: str, paused_by: str | None = None) -> None:
        """Stop claims of a queue, on every worker, until it is resumed. Running jobs go on."""
        check_name("queue", queue)
        await self.database.value("pause_queue", queue, paused_by)

    async def resume_queue(self, queue: str) -> None:
        """End a pause."""
        check_name("queue", queue)
        await self.database.value("resume_queue", queue)

    # --- work -----------------------------------------------------------------------------------

    def task[F: "Callable[..., Any]"](
        self,
        args_type: Any = None,
        *,
        kind: str | None = None,
        queue: str | None = None,
        output: Any = None,
    ) -> "Callable[[F], F]":
        """Register a handler: `@client.task(SendEmail)`; see `Registry.add`."""
        return self._registry.task(args_type, kind=kind, queue=queue, output=output)

    @property
    def registry(self) -> Registry:
        """The handlers that are registered."""
        return self._registry

    async def start(
        self,
        queues: Sequence[Any] | None = None,
        *,
        settings: WorkerSettings | None = None,
        name: str = "embedded",
        state_folder: Path | None = None,
        **knobs: Any,
    ) -> None:
        """Start working in this process and return.

        `queues` are (name, max_workers) pairs or mappings, see `QueueSettings`; without them the
        queues that handlers name are served, or `default`. `settings` are a worker's other knobs,
        or pass them by name, such as `poll_interval_ms=50` or `drain_timeout=timedelta(...)`.
        """
        if self.worker is not None:
            raise AwaError("the worker of this client runs already; call shutdown first")
        made = worker_settings(queues, settings, knobs, self._registry)
        worker = Worker(
            self.database, self._registry, made, name=name, version=release(),
            state_folder=state_folder,
        )  # fmt: skip
        self._worker, self._worker_process = worker, os.getpid()
        try:
            await worker.start()
        except BaseException:
            self._worker = None
            raise

    async def shutdown(self, timeout_ms: int | None = None) -> bool:
        """Stop working: claim no more, let handlers finish, write outcomes.

        Returns whether every attempt came to its end within the limit, which is the drain timeout
        of the settings or `timeout_ms`. Does nothing when no worker runs.
        """
        worker, self._worker = self.worker, None
        if worker is None:
            return True
        return await worker.stop(None if timeout_ms is None else timeout_ms / 1000)

    @property
    def worker(self) -> Worker | None:
        """The worker that runs in this process, None when there is none."""
        return self._worker if self._worker_process == os.getpid() else None

    async def _know_lanes(self, session: Any, new: Sequence[NewJob]) -> None:
        """Register new lanes in a short transaction, so that a long one never holds one up.

        On a connection of its own: the pool may have none left while transactions wait for this.
        """
        sql = self.database.sql
        for lane in store.lanes_of(new):
            if lane in self._lanes:
                continue
            if self._reads_lanes is None:
                self._reads_lanes = await session.fetchval(sql["reads_lanes"])
            if not self._reads_lanes or not await session.fetchval(sql["lane_exists"], *lane):
                other = await self.database.dedicated("register")
                try:
                    async with step(other):
                        await other.fetchval(sql["register_lane"], *lane)
                finally:
                    await other.close()
            self._lanes.add(lane)


def new_jobs(
    args: Iterable[object],
    kind: str | None,
    options: JobOptions,
    opts: Sequence[JobOptions | None] | None = None,
) -> list[NewJob]:
    """Check args and options of a call; an error names the position of the job at fault."""
    jobs = list(args)
    if opts is not None and len(opts) != len(jobs):
        raise ValidationError(f"opts has {len(opts)} entries for {len(jobs)} jobs; give one each")
    made = InsertOptions(**checked_names(options))
    new = []
    for position, one in enumerate(jobs):
        try:
            own = opts[position] if opts is not None else None
            these = InsertOptions(**checked_names({**options, **own})) if own else made
            new.append(parse_new_job(one, these, kind=kind))
        except (AwaError, TypeError) as error:
            if len(jobs) > 1:
                error.add_note(f"job at position {position}; nothing was enqueued")
            raise
    return new


def worker_settings(
    queues: Sequence[Any] | None,
    settings: WorkerSettings | None,
    knobs: Mapping[str, Any],
    registry: Registry,
) -> WorkerSettings:
    """Return the settings of a worker from the forms that `start` takes."""
    if settings is not None:
        if queues is not None or knobs:
            raise ValidationError("pass settings, or queues and single knobs, not both")
        return settings
    given: dict[str, Any] = {}
    for name, value in knobs.items():
        if name.endswith("_ms"):
            given[name.removesuffix("_ms")] = timedelta(milliseconds=value)
        else:
            given[name] = value
    if queues is None:
        queues = [{"name": name} for name in sorted(registry.queues)] or [{"name": "default"}]
    made = WorkerSettings(queues=parse_queues(queues), **given)
    missing = registry.queues - {queue.name for queue in made.queues}
    if missing:
        raise ValidationError(
            f"a handler expects queue {min(missing)!r}, which is not among the queues to serve"
        )
    return made


async def _insert(
    session: Any, sql: dict[str, str], new: list[NewJob], *, skip: bool = False
) -> list[Job[Any]]:
    ids = await store.enqueue(session, sql, new, skip=skip)
    now = datetime.now(UTC)
    return [
        Job(inserted_row(job_id, job, now))
        for job_id, job in zip(ids, new, strict=True)
        if job_id is not None
    ]


def _state(state: JobState | str) -> JobState:
    return state if isinstance(state, JobState) else JobState.parse(state)
