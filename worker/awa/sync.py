"""The blocking client: the asynchronous one, run by a loop in a thread of its own.

Safe to share between threads. In a forked child the first call starts a new thread with new
connections; the parent's are never touched there.
"""

import asyncio
import os
import threading
import weakref
from collections.abc import Callable, Coroutine, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Self, Unpack

from awa._store.counts import QueueCounts
from awa._store.database import leave_to_parent
from awa.client import MAX_CONNECTIONS, AsyncClient, Transaction
from awa.job import Job, JobState
from awa.limits import check_number
from awa.options import JobOptions
from awa.registry import Registry


class SyncTransaction:
    """A transaction on one connection. Jobs enqueued in it exist when it commits."""

    def __init__(self, run: Callable[[Coroutine[Any, Any, Any]], Any], inner: Transaction) -> None:
        self._run_there = run
        self._inner = inner

    def _run(self, coroutine: Coroutine[Any, Any, Any]) -> Any:
        if not self._inner._is_own:
            coroutine.close()
        self._inner._check_process()
        return self._run_there(coroutine)

    def insert(
        self, args: object, *, kind: str | None = None, **options: Unpack[JobOptions]
    ) -> Job[Any]:
        """Enqueue a job in this transaction; see `AsyncClient.insert`."""
        job: Job[Any] = self._run(self._inner.insert(args, kind=kind, **options))
        return job

    def insert_many(
        self,
        args: Iterable[object],
        *,
        kind: str | None = None,
        opts: Sequence[JobOptions | None] | None = None,
        **options: Unpack[JobOptions],
    ) -> list[Job[Any]]:
        """Enqueue jobs in this transaction; see `AsyncClient.insert_many`."""
        jobs: list[Job[Any]] = self._run(
            self._inner.insert_many(args, kind=kind, opts=opts, **options)
        )
        return jobs

    def execute(self, statement: str, *values: object) -> str:
        """Run a statement of your own; returns the server's word on it."""
        answer: str = self._run(self._inner.execute(statement, *values))
        return answer

    def fetch(self, statement: str, *values: object) -> list[dict[str, Any]]:
        """Run a query of your own and return its rows."""
        rows: list[dict[str, Any]] = self._run(self._inner.fetch(statement, *values))
        return rows


class Client:
    """A blocking connection to one Awa schema, with the calls of `AsyncClient`.

    It does not work jobs: register handlers with `task` and run them with `awa worker`.
    """

    def __init__(
        self,
        database_url: str | None = None,
        max_connections: int = 10,
        *,
        schema: str | None = None,
    ) -> None:
        self._address = database_url
        self._max_connections = max_connections
        self._schema = schema
        self._registry = Registry()
        self._lock = threading.Lock()
        self._owner = 0
        self._inner: AsyncClient | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        check_number("max_connections", max_connections, 1, MAX_CONNECTIONS)
        _clients.add(self)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close every connection and end the thread. The next call starts both again."""
        with self._lock:
            inner, loop, thread = self._inner, self._loop, self._thread
            self._inner = self._loop = self._thread = None
        if inner is None or loop is None or thread is None:
            return
        asyncio.run_coroutine_threadsafe(inner.close(), loop).result()
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()

    # --- enqueue --------------------------------------------------------------------------------

    def insert(
        self, args: object, *, kind: str | None = None, **options: Unpack[JobOptions]
    ) -> Job[Any]:
        """Enqueue one job and return it; see `AsyncClient.insert`."""
        job: Job[Any] = self._call(lambda inner: inner.insert(args, kind=kind, **options))
        return job

    def insert_many(
        self,
        args: Iterable[object],
        *,
        kind: str | None = None,
        opts: Sequence[JobOptions | None] | None = None,
        **options: Unpack[JobOptions],
    ) -> list[Job[Any]]:
        """Enqueue jobs with the same options, all or none; see `AsyncClient.insert_many`."""
        jobs: list[Job[Any]] = self._call(
            lambda inner: inner.insert_many(args, kind=kind, opts=opts, **options)
        )
        return jobs

    def insert_many_copy(
        self,
        args: Iterable[object],
        *,
        kind: str | None = None,
        opts: Sequence[JobOptions | None] | None = None,
        **options: Unpack[JobOptions],
    ) -> list[Job[Any]]:
        """Enqueue jobs, duplicates left out; see `AsyncClient.insert_many_copy`."""
        jobs: list[Job[Any]] = self._call(
            lambda inner: inner.insert_many_copy(args, kind=kind, opts=opts, **options)
        )
        return jobs

    def enqueue_many_copy(
        self,
        args: Iterable[object],
        *,
        kind: str | None = None,
        opts: Sequence[JobOptions | None] | None = None,
        **options: Unpack[JobOptions],
    ) -> int:
        """Enqueue jobs by COPY; see `AsyncClient.enqueue_many_copy`."""
        count: int = self._call(
            lambda inner: inner.enqueue_many_copy(args, kind=kind, opts=opts, **options)
        )
        return count

    @contextmanager
    def transaction(self) -> Iterator[SyncTransaction]:
        """Open a transaction; it commits at the end of the block and rolls back on an error.

        In a child that was forked within the block it can do neither, and leaves both to the
        parent.
        """
        opened = self._started().transaction()
        inner: Transaction = self._run(opened.__aenter__())
        try:
            yield SyncTransaction(self._run, inner)
        except BaseException as error:
            if inner._is_own:
                self._run(opened.__aexit__(type(error), error, error.__traceback__))
            else:
                leave_to_parent(opened)
            raise
        if not inner._is_own:
            leave_to_parent(opened)
        inner._check_process()
        self._run(opened.__aexit__(None, None, None))

    # --- look and administer --------------------------------------------------------------------

    def require_schema(self) -> int:
        """Return the schema's version; raises when this release cannot work with it."""
        version: int = self._call(lambda inner: inner.require_schema())
        return version

    def migrate(self) -> int:
        """Bring the schema to this release's version; see `AsyncClient.migrate`."""
        version: int = self._call(lambda inner: inner.migrate())
        return version

    def get_job(self, job_id: int) -> Job[Any]:
        """Return a job with its output. Raises `JobNotFound`."""
        job: Job[Any] = self._call(lambda inner: inner.get_job(job_id))
        return job

    def list_jobs(
        self,
        state: JobState | str | None = None,
        kind: str | None = None,
        queue: str | None = None,
        limit: int = 100,
    ) -> list[Job[Any]]:
        """Return jobs, next or newest first within a state; outputs are not loaded."""
        jobs: list[Job[Any]] = self._call(lambda inner: inner.list_jobs(state, kind, queue, limit))
        return jobs

    def queue_counts(self, queue: str | None = None) -> list[QueueCounts]:
        """Return exact counts of every queue, or of one."""
        counts: list[QueueCounts] = self._call(lambda inner: inner.queue_counts(queue))
        return counts

    def cancel(self, job_id: int) -> Job[Any]:
        """Cancel a job that has not ended, and return it; see `AsyncClient.cancel`."""
        job: Job[Any] = self._call(lambda inner: inner.cancel(job_id))
        return job

    def retry(self, job_id: int) -> Job[Any]:
        """Run a failed or cancelled job again; see `AsyncClient.retry`."""
        job: Job[Any] = self._call(lambda inner: inner.retry(job_id))
        return job

    def pause_queue(self, queue: str, paused_by: str | None = None) -> None:
        """Stop claims of a queue, on every worker, until it is resumed."""
        self._call(lambda inner: inner.pause_queue(queue, paused_by))

    def resume_queue(self, queue: str) -> None:
        """End a pause."""
        self._call(lambda inner: inner.resume_queue(queue))

    # --- handlers -------------------------------------------------------------------------------

    def task[F: Callable[..., Any]](
        self,
        args_type: Any = None,
        *,
        kind: str | None = None,
        queue: str | None = None,
        output: Any = None,
    ) -> Callable[[F], F]:
        """Register a handler for `awa worker`; see `Registry.add`."""
        return self._registry.task(args_type, kind=kind, queue=queue, output=output)

    @property
    def registry(self) -> Registry:
        """The handlers that are registered."""
        return self._registry

    # --- the thread -----------------------------------------------------------------------------

    def _call(self, ask: Callable[[AsyncClient], Coroutine[Any, Any, Any]]) -> Any:
        return self._run(ask(self._started()))

    def _run(self, coroutine: Coroutine[Any, Any, Any]) -> Any:
        loop = self._loop
        if loop is None:
            coroutine.close()
            raise RuntimeError("the client was closed during a call")
        future = asyncio.run_coroutine_threadsafe(coroutine, loop)
        try:
            return future.result()
        except BaseException:  # also Ctrl-C: what nobody waits for does not go on
            future.cancel()
            raise

    def _started(self) -> AsyncClient:
        with self._lock:
            if self._inner is None or self._owner != os.getpid():
                self._start()
            assert self._inner is not None  # noqa: S101 - just started
            return self._inner

    def _start(self) -> None:
        loop = asyncio.new_event_loop()
        ready = threading.Event()

        def serve() -> None:
            asyncio.set_event_loop(loop)
            loop.call_soon(ready.set)
            loop.run_forever()

        thread = threading.Thread(target=serve, name="awa client", daemon=True)
        thread.start()
        ready.wait()
        self._loop, self._thread, self._owner = loop, thread, os.getpid()
        self._inner = AsyncClient(self._address, self._max_connections, schema=self._schema)

    def _forget(self) -> None:
        """Let go, in a forked child, of what belongs to the parent; nothing is closed."""
        leave_to_parent((self._inner, self._loop))
        self._lock = threading.Lock()
        self._inner = self._loop = self._thread = None


# Locks and threads of the parent are of no use in a forked child.
_clients: weakref.WeakSet[Client] = weakref.WeakSet()


def _forget_all() -> None:
    for client in list(_clients):
        client._forget()


os.register_at_fork(after_in_child=_forget_all)
