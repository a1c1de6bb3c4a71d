"""The test kit: run jobs one at a time, on the real path.

    async def test_welcome_mail(client):
        job = await client.insert(Welcome(user=7))
        done = await work_one(client)
        assert done.is_completed and done.job.output == {"sent": True}

`work_one` claims, runs and finishes through the same code as a worker, so args, outputs, errors and
retries are what they will be in production. `handler_job` makes the job that a handler is given, to
call a handler by itself.
"""

import asyncio
import secrets
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from awa._runtime.executor import Executor
from awa._runtime.permits import Permits
from awa._store import jobs
from awa._store.attempts import Flush, GivenBack, SealedAttempt
from awa._store.jobs import ClaimRequest
from awa.client import AsyncClient
from awa.job import Job
from awa.metrics import WorkerMetrics
from awa.options import derived_kind
from awa.outcome import Cancelled, Completed, Failed, Outcome, RetryRequested, Snoozed
from awa.queue_settings import QueueSettings
from awa.running import ClaimHead, RunningJob
from awa.settings import WorkerSettings


@dataclass(frozen=True, slots=True)
class WorkResult:
    """How one job went. `job` is the row read again afterwards; False when there was no job."""

    job: Job[Any] | None = None
    outcome: Outcome | GivenBack | None = None

    def __bool__(self) -> bool:
        return self.job is not None

    @property
    def is_completed(self) -> bool:
        """Whether the job completed."""
        return isinstance(self.outcome, Completed)

    @property
    def is_failed(self) -> bool:
        """Whether the job failed for good, or used up its attempts."""
        return self.job is not None and str(self.job.state) == "failed"

    @property
    def is_retryable(self) -> bool:
        """Whether the job failed and will run again."""
        return isinstance(self.outcome, Failed | RetryRequested) and not self.is_failed

    @property
    def is_cancelled(self) -> bool:
        """Whether the handler cancelled the job."""
        return isinstance(self.outcome, Cancelled)

    @property
    def is_snoozed(self) -> bool:
        """Whether the handler put the job off."""
        return isinstance(self.outcome, Snoozed)

    @property
    def error(self) -> str | None:
        """The text of the latest error entry, None when there is none."""
        if self.job is None or not self.job.errors:
            return None
        return str(self.job.errors[-1]["error"])


NO_JOB = WorkResult()


async def work_one(client: AsyncClient, queue: str = "default") -> WorkResult:
    """Run the next due job of a queue with the client's handlers; `NO_JOB` when none is due.

    Jobs whose time has come are made ready first. A job of a kind without a handler is handed back,
    as a worker would.
    """
    database = client.database
    settings = WorkerSettings(queues=(QueueSettings(name=queue, max_workers=1),))
    await database.fetch("promote", settings.promote_batch_size)
    worker = await database.value(
        "register_worker", "awa.testing", "0", "localhost", 0, [queue],
        list(client.registry.kinds), timedelta(seconds=90), "", "", "", None, None,
    )  # fmt: skip
    try:
        async with database.session() as session:
            sealed = await _run_next(client, session, worker, settings)
            if sealed is None:
                return NO_JOB
            stores = bool(await session.fetchval(database.sql["stores_outputs"]))
            await jobs.finish(session, database.sql, Flush([sealed]), store_outputs=stores)
    finally:
        await database.value("mark_dead", worker, "test ended")
    at = sealed.claim.seqs.index(sealed.seq)
    return WorkResult(await client.get_job(sealed.claim.items[at][0]), sealed.outcome)


async def work_all(
    client: AsyncClient, queue: str = "default", limit: int = 1000
) -> list[WorkResult]:
    """Run due jobs of a queue until none is left, `limit` at most."""
    results: list[WorkResult] = []
    while len(results) < limit and (result := await work_one(client, queue)):
        results.append(result)
    return results


def handler_job[T](
    args: T,
    *,
    kind: str | None = None,
    queue: str = "default",
    attempt: int = 1,
    max_attempts: int = 25,
    priority: int = 2,
    output: Any = None,
) -> Job[T]:
    """Return the job that a handler is given, without a database; `output` is the declared type.

    The kind is that of the args' class, as at `insert`; a dict needs `kind`.
    """
    kind = derived_kind(args) if kind is None else kind
    now = datetime.now(UTC)
    head = ClaimHead(queue, priority, now, None)
    return RunningJob(head, (1, kind, now, now, attempt - 1, max_attempts, None), args, output)


async def _run_next(
    client: AsyncClient, session: Any, worker: int, settings: WorkerSettings
) -> SealedAttempt | None:
    ended: asyncio.Future[SealedAttempt] = asyncio.get_running_loop().create_future()
    permits = Permits(settings)
    executor = Executor(client.registry, permits, ended.set_result, WorkerMetrics(), 1)
    queue = settings.queues[0]
    request = ClaimRequest(
        (queue.name,), (1,), (queue.deadline.total_seconds(),), (60.0,), client.registry.kinds
    )
    claims: Iterable[Any] = ()
    passed = 1
    while passed and not claims:  # past jobs of kinds without a handler, which go back
        claims, beyond = await jobs.claim(
            session, client.database.sql, worker, secrets.randbits(62), request
        )
        passed = beyond.passed
    if not claims:
        return None
    permits.take(queue.name, 1)
    await executor.run(claims)
    try:
        return await ended
    finally:
        executor.close()
