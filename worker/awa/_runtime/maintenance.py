"""What the elected leader does, each duty on its own so that a slow one delays no other.

Leadership is a row with an expiry in the database. A leader that cannot renew it stops; a short
overlap harms nothing, because every duty is safe beside itself. A leader that may not do a duty
which another could do lets others lead.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta

from awa._runtime.identity import Identity
from awa._runtime.listener import Listener
from awa._runtime.promoter import Promoter
from awa._runtime.service import Service
from awa._store.database import Database, backoff_seconds
from awa.errors import AwaError, PermissionMissing
from awa.logs import text_without_values
from awa.metrics import WorkerMetrics
from awa.settings import WorkerSettings

log = logging.getLogger("awa.maintenance")

EVACUATE_LIMIT = 1000
UNABLE_SECONDS = 5.0
"""A duty that has failed here for so long, though the database answers, may be done elsewhere."""
NOT_AGAIN_SECONDS = 600.0
"""How long a worker that has given up for that goes on the next time; others may be as unable."""
TIDY_AFTER = timedelta(seconds=2)
"""So long a new leader leaves tidying alone: its sessions are as new, and jobs wait for them."""
_DUTY_NAME = "maintenance"
HOLDERS = (("awa",), ("other",), ("prepared",))
"""Whose transactions are told apart; each has its series all the time."""


@dataclass(frozen=True, slots=True)
class Duty:
    """Something to do every so often."""

    name: str
    interval: timedelta
    run: Callable[[], Awaitable[None]]
    rest: Callable[[], Awaitable[None]] | None = None
    """Waits for the next time, when that is not just the interval."""
    after: timedelta = timedelta(0)
    """How long a new leader waits before the first time."""


class Maintenance(Service):
    """Stands for election, and does the leader's duties while it leads."""

    name = "maintenance"

    def __init__(
        self,
        database: Database,
        settings: WorkerSettings,
        identity: Identity,
        listener: Listener,
        metrics: WorkerMetrics,
        *,
        may_judge: Callable[[], bool],
    ) -> None:
        super().__init__()
        self._database = database
        self._settings = settings
        self._identity = identity
        self._listener = listener
        self._metrics = metrics
        self._may_judge = may_judge
        self.longest_pause = settings.leader_check_interval.total_seconds()
        self.leads = False
        self.failing: dict[str, str | None] = {}
        """Duties that failed the last time, and why if that can be said; until they are done here
        or somebody else leads."""
        self._unable = asyncio.Event()
        self._goes_on_until = 0.0
        self.horizon_seconds: float | None = None
        self.oldest_transactions: dict[tuple[str, ...], float] = {}
        self.prune_outcome = "none"
        self.unknown_kinds: dict[tuple[str, ...], float] = {}
        """Jobs that nobody knows how to run, by kind and queue; empty unless this worker leads."""
        promoter = Promoter(database, settings, listener, metrics)
        often = settings.cleanup_interval
        soon = min(often, TIDY_AFTER)
        self._duties = [
            Duty("promote", settings.promote_interval, promoter.run, promoter.rest),
            Duty("holes", settings.promote_interval, promoter.settle, promoter.pause_settling),
            Duty("rescue", settings.rescue_interval, self._rescue),
            Duty("deadline", settings.deadline_interval, self._deadlines),
            Duty("unknown_kinds", often, self._unknown_kinds, after=soon),
            Duty("rotate", often, self._rotate, after=soon),
            Duty("evacuate", often, self._evacuate, after=soon),
            Duty("prune", often, self._prune, after=soon),
            Duty("retire", often, self._retire, after=soon),
            Duty("transactions", often, self._transactions, after=soon),
        ]

    async def run(self) -> None:
        """Try for leadership for ever; lead until it cannot be renewed."""
        while True:
            self.leads = await self._elected()
            self.progressed()
            if self.leads:
                log.info("leading maintenance", extra={"worker": self._identity.worker_id})
                failure: Exception | None = None
                try:
                    await self._lead()
                except Exception as error:  # noqa: BLE001 - raised again below
                    failure = error
                finally:
                    self.leads = False
                # Not at a stop, which waits for no server: the session ends with its lock.
                await self._listener.leader_awake()
                if failure is not None:
                    raise failure
                if self._unable.is_set():
                    # Time for all others, those too that are not notified.
                    await asyncio.sleep(2 * self._settings.leader_check_interval.total_seconds())
            else:
                self.failing.clear()
            await self._wait_for_election()

    async def resign(self) -> None:
        """Let another worker lead at once."""
        await self._database.value("resign", _DUTY_NAME, self._identity.worker_id)

    async def _wait_for_election(self) -> None:
        """Wait until a leader may have fallen silent, or one has said that it goes."""
        election = self._listener.election
        with suppress(TimeoutError):
            async with asyncio.timeout(self._settings.leader_check_interval.total_seconds()):
                await election.wait()
        election.clear()

    async def _elected(self) -> bool:
        return bool(
            await self._database.value(
                "lead", _DUTY_NAME, self._identity.worker_id, self._settings.leader_lease
            )
        )

    async def _lead(self) -> None:
        self._unable.clear()
        async with asyncio.TaskGroup() as duties:
            tasks = [duties.create_task(self._keep_doing(duty)) for duty in self._duties]
            try:
                while True:
                    with suppress(TimeoutError):
                        async with asyncio.timeout(
                            self._settings.leader_check_interval.total_seconds()
                        ):
                            await self._unable.wait()
                    if self._unable.is_set():
                        await self._give_up()
                        return
                    if not await self._elected():
                        log.info("no longer leading", extra={"worker": self._identity.worker_id})
                        return
                    self.progressed()
            finally:
                for task in tasks:
                    task.cancel()
                self.unknown_kinds, self.oldest_transactions = {}, {}
                self.horizon_seconds = None

    async def _give_up(self) -> None:
        """Let others lead, who may be able to do what cannot be done here."""
        log.error(
            "a duty cannot be done here, others may lead",
            extra={"duty": ", ".join(sorted(self.failing))},
        )
        self._goes_on_until = asyncio.get_running_loop().time() + NOT_AGAIN_SECONDS
        await self.resign()

    async def _keep_doing(self, duty: Duty) -> None:
        clock = asyncio.get_running_loop().time
        failures, failing_since = 0, 0.0
        await asyncio.sleep(duty.after.total_seconds())
        while True:
            try:
                await duty.run()
            except Exception as error:  # one duty must not end the others; it is counted
                failures += 1
                reason = self.failing[duty.name] = text_without_values(error)
                self._metrics.duties[(duty.name, "failed")] += 1
                if failures == 1:
                    failing_since = clock()
                    log.error(
                        "duty failed",
                        extra={
                            "duty": duty.name,
                            "error": type(error).__name__,
                            "reason": reason,
                        },
                        exc_info=None if isinstance(error, AwaError) else error,
                    )
                is_ours = isinstance(error, PermissionMissing) or not isinstance(error, AwaError)
                is_late = clock() > max(failing_since + UNABLE_SECONDS, self._goes_on_until)
                if is_ours and is_late:
                    self._unable.set()
                await asyncio.sleep(backoff_seconds(failures, 10.0))
                continue
            failures = 0
            self.failing.pop(duty.name, None)
            self._metrics.duties[(duty.name, "done")] += 1
            if duty.rest is not None:
                await duty.rest()
            else:
                await asyncio.sleep(duty.interval.total_seconds())

    async def _rescue(self) -> None:
        for row in await self._database.fetch("rescue", self._may_judge()):
            self._metrics.rescued["dead_worker"] += row["rescued"]
            log.warning(
                "jobs of a dead worker rescued",
                extra={"worker": row["worker_id"], "jobs": row["rescued"]},
            )

    async def _deadlines(self) -> None:
        rows = await self._database.fetch("rescue_overdue")
        self._metrics.rescued["deadline"] += len(rows)

    async def _unknown_kinds(self) -> None:
        rows = await self._database.fetch("unknown_kinds")
        found: dict[tuple[str, ...], float] = {}
        for row in rows:
            pair = self._metrics.unknown_labels(row["kind"], row["queue"])
            found[pair] = found.get(pair, 0.0) + row["jobs"]
        self.unknown_kinds = found

    async def _rotate(self) -> None:
        settings = self._settings
        await self._database.value("rotate", settings.slot_interval, settings.slot_max_bytes)

    async def _evacuate(self) -> None:
        await self._database.value("evacuate", self._settings.evacuate_after, EVACUATE_LIMIT)

    async def _prune(self) -> None:
        settings = self._settings
        while True:
            rows = await self._database.fetch(
                "prune", settings.completed_retention, settings.ring_max_bytes
            )
            outcome = rows[0]["outcome"]
            self.horizon_seconds = rows[0]["horizon_seconds"]
            self._metrics.duties[("prune", outcome)] += 1
            reason = "size" if rows[0]["before_its_time"] else "retention"
            self._metrics.pruned[reason] += rows[0]["pruned_jobs"]
            if outcome != self.prune_outcome and outcome not in {"none", "pruned"}:
                log.warning(
                    "a slot cannot be reclaimed yet",
                    extra={
                        "reason": outcome,
                        "slot": rows[0]["pruned_slot"],
                        "blocker": rows[0]["blocker"],
                    },
                )
            self.prune_outcome = outcome
            if outcome != "pruned":
                return

    async def _retire(self) -> None:
        settings = self._settings
        while True:
            gone = await self._database.value(
                "retire",
                settings.completed_retention,
                settings.failed_retention,
                settings.cleanup_batch_size,
            )
            if gone < settings.cleanup_batch_size:
                return

    async def _transactions(self) -> None:
        rows = await self._database.fetch("oldest_transactions")
        self.oldest_transactions = dict.fromkeys(HOLDERS, 0.0)
        self.oldest_transactions |= {(row["holder"],): row["seconds"] for row in rows}
