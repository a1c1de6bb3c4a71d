"""All parts of one replica of the operator: put together, started, ended."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine
from datetime import timedelta
from typing import Any

from awa.http_pages import HttpServer
from awa_operator.apply import Executor
from awa_operator.audit import Audit
from awa_operator.cache import Cache, Listeners
from awa_operator.databases import QueueKey
from awa_operator.errors import ApiError, NotLeading
from awa_operator.events import Herald
from awa_operator.health import HealthPages, LoopLag, Signs
from awa_operator.kube import Access, Kube
from awa_operator.lease import Election, Tenure, Terms
from awa_operator.lease_store import KubeLease
from awa_operator.metrics import Metrics
from awa_operator.observe import Observer, utcnow
from awa_operator.poller import Poller
from awa_operator.reconcile import Reconciler
from awa_operator.report import Reporter
from awa_operator.schema_check import missing_fields
from awa_operator.secret_reader import SecretReader
from awa_operator.settings import OperatorSettings
from awa_operator.watching import Watching
from awa_operator.work_queue import Backoff, WorkQueue

log = logging.getLogger(__name__)

NUDGE = timedelta(seconds=1)
"""How soon the Queues of a database look at a new one among them."""
LEASE_REQUEST = timedelta(seconds=5)
_SCHEMA_RETRY_SECONDS = 5.0
_DEGRADED_FIELDS = "the definition of Queue is older than the operator"

type BeforeWrite = Callable[[str], Awaitable[None]]


async def let_pass(_: str) -> None:
    """Let a write pass."""


class Process:
    """One replica. `before_write` is awaited before every write, with what is written."""

    def __init__(
        self,
        settings: OperatorSettings,
        access: Access,
        metrics: Metrics,
        before_write: BeforeWrite = let_pass,
    ) -> None:
        self.settings = settings
        self.metrics = metrics
        self._before_write = before_write
        self._lease_kube = Kube(access, LEASE_REQUEST)
        self._kube = Kube(access, settings.request_timeout, may_write=self._may_write)
        self.cache = Cache(
            Listeners(changed=self._changed, nudged=self._nudged, removed=self._changed)
        )
        self._poller = Poller(self._changed, notes=metrics)
        self._observer = Observer(
            self.cache,
            self._kube,
            SecretReader(self._kube, fresh_for=timedelta(seconds=settings.secret_seconds)),
            self._poller,
            concurrent_rollouts=settings.concurrent_rollouts,
            led_before=lambda: self.election.led_before,
        )
        self._reconciler = self._make_reconciler()
        self.queue: WorkQueue[QueueKey] = self._make_queue()
        self.election = self._make_election()
        self.audit = Audit(
            self._kube,
            self.cache,
            metrics,
            namespaces=settings.namespaces,
            every=timedelta(seconds=settings.audit_seconds),
            grace=timedelta(seconds=settings.audit_grace_seconds),
            known=self._begin_to_act,
            restart=lambda: self.watching.restart(),
        )
        self.watching = Watching(access, self.cache, metrics, settings, self.audit.relist_soon)
        self.lag = LoopLag(metrics.event_loop_lag.observe)
        self.missing_fields: tuple[str, ...] = ()

    async def run(self, stop: asyncio.Event) -> None:
        """Run until `stop` is set, then end within three seconds.

        Raises what ended a part that must not end.
        """
        self.watching.start()
        parts = [
            self._part("queue", self.queue.run()),
            self._part("election", self.election.run()),
            self._part("audit", self.audit.run()),
            self._part("lag", self.lag.run()),
            self._part("schema", self._check_schema()),
        ]
        stopped = asyncio.create_task(stop.wait(), name="stop")
        try:
            done, _ = await asyncio.wait([*parts, stopped], return_when=asyncio.FIRST_COMPLETED)
        finally:
            stopped.cancel()
            await self._end(parts)
        for part in done:
            if part is not stopped:
                part.result()

    async def start_pages(self) -> tuple[list[HttpServer], int, int]:
        """Serve health and metrics; return the servers and the ports. Raises `OSError`."""
        pages = self._pages()
        health = HttpServer({"/healthz": pages.healthz, "/readyz": pages.readyz})
        metrics = HttpServer({"/metrics": pages.metrics})
        host = self.settings.bind_address
        _, health_port = await health.start(host, self.settings.health_port)
        _, metrics_port = await metrics.start(host, self.settings.metrics_port)
        return [health, metrics], health_port, metrics_port

    # --- parts -----------------------------------------------------------------------------

    def _make_reconciler(self) -> Reconciler:
        executor = Executor(self._kube, self.cache, self._poller, self.metrics, self._guard)
        return Reconciler(
            self.cache,
            self._observer,
            executor,
            Reporter(self._kube, self.cache, self._guard),
            Herald(self._kube, self._guard),
            self.metrics,
            resync=timedelta(seconds=self.settings.resync_seconds),
            today=utcnow,
        )

    def _make_queue(self) -> WorkQueue[QueueKey]:
        settings = self.settings
        queue = WorkQueue(
            self._reconcile,
            concurrency=settings.concurrency,
            backoff=Backoff(
                timedelta(seconds=settings.retry_first_seconds),
                timedelta(seconds=settings.retry_longest_seconds),
            ),
            timeout=timedelta(seconds=settings.reconcile_timeout_seconds),
            notes=self.metrics,
        )
        queue.pause()
        return queue

    def _make_election(self) -> Election:
        settings = self.settings
        terms = Terms(
            duration=timedelta(seconds=settings.lease_duration_seconds),
            renew_every=timedelta(seconds=settings.lease_renew_seconds),
            retry_every=timedelta(seconds=settings.lease_retry_seconds),
        )
        return Election(
            KubeLease(self._lease_kube, settings.lease_namespace, settings.lease_name),
            Tenure(settings.identity, terms),
            started=self._begin_to_act,
            stopped=self._act_no_more,
            notes=self.metrics,
        )

    def _pages(self) -> HealthPages:
        signs = Signs(
            loop_lag=self.lag.lag,
            stuck_for=self.queue.stuck_for,
            deaf_for=self.election.deaf_for,
            silent_for=self._silent_for,
            audits_failed=lambda: self.audit.failed_in_a_row,
            synced=lambda: self.audit.synced,
            leads=lambda: self.election.leads,
            watching=lambda: self.watching.is_running,
            missing_fields=lambda: self.missing_fields,
        )
        return HealthPages(
            signs,
            self.metrics.exposition,
            lag_limit=timedelta(seconds=self.settings.loop_lag_seconds),
            stuck_limit=timedelta(seconds=self.settings.stuck_seconds),
        )

    def _silent_for(self) -> timedelta:
        """Return how long a watch is silent, zero while the API server may be away."""
        limit = timedelta(seconds=self.settings.lease_renew_seconds * 3)
        return self.watching.silent_for() if self.election.heard_ago() < limit else timedelta(0)

    def _part(self, name: str, run: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        return asyncio.create_task(run, name=name)

    # --- who may act -------------------------------------------------------------------------

    def _may_write(self) -> timedelta:
        return self.election.check()

    async def _guard(self, what: str) -> None:
        """Let a write pass only while the lease is held."""
        self.election.check()
        await self._before_write(what)

    def _begin_to_act(self) -> None:
        if not (self.audit.synced and self.election.leads):
            return
        for entry in self.cache.queues():
            self.queue.add(entry.key)
        self.queue.resume()

    def _act_no_more(self) -> None:
        self.queue.pause()
        self._observer.forget_all()
        self.metrics.forget_queues()

    async def _reconcile(self, key: QueueKey) -> timedelta | None:
        return await self._reconciler(key) if self.audit.serves(key[0]) else None

    def _changed(self, key: QueueKey) -> None:
        self.queue.add(key)

    def _nudged(self, key: QueueKey) -> None:
        self.queue.add_after(key, NUDGE)

    # --- what runs all the time ----------------------------------------------------------------

    async def _check_schema(self) -> None:
        """Tell of fields that the served definition lacks, until there are none."""
        told: tuple[str, ...] | None = None
        while True:
            try:
                self.missing_fields = await missing_fields(self._kube)
            except (ApiError, NotLeading) as error:
                log.debug("the definition cannot be read", extra={"error": str(error)})
                await asyncio.sleep(_SCHEMA_RETRY_SECONDS)
                continue
            self.metrics.degraded.labels(_DEGRADED_FIELDS).set(1 if self.missing_fields else 0)
            if self.missing_fields and self.missing_fields != told:
                told = self.missing_fields
                log.error(
                    "%s; fields are dropped when written: upgrade the chart awa-crds",
                    _DEGRADED_FIELDS,
                    extra={"fields": list(told)},
                )
            await asyncio.sleep(self.settings.resync_seconds)

    async def _end(self, parts: list[asyncio.Task[None]]) -> None:
        """Finish what runs, hand over the lease, close everything; each step has a limit."""
        watching = asyncio.create_task(self.watching.stop(), name="stop watching")
        queue = parts[0]
        limit = timedelta(seconds=self.settings.shutdown_seconds * 0.6)
        if not queue.done():
            await self.queue.drain(limit)
        for part in parts:
            part.cancel()
        await asyncio.gather(*parts, return_exceptions=True)
        await self._within(1.0, self.election.release())
        await self._within(0.5, self._poller.stop())
        await asyncio.gather(watching, return_exceptions=True)
        await self._within(0.5, self._kube.close())
        await self._within(0.5, self._lease_kube.close())

    async def _within(self, seconds: float, step: Awaitable[None]) -> None:
        try:
            async with asyncio.timeout(seconds):
                await step
        except TimeoutError:
            log.warning("a step of the shutdown took too long and was left")
