"""Getting jobs: places first, then one call, then hand over; and knowing when to wait for what.

Nothing visible does not mean nothing there: numbers may be drawn whose transaction is still open.
Then the claimer asks again soon, at growing intervals up to the poll interval. It asks producers to
notify it only when nothing is on its way, or when what is on its way takes longer than a moment: a
worker that keeps up with busy producers counts as awake. A claim whose answer is lost is given back
by its token.
"""

import asyncio
import logging
import secrets
from collections.abc import Awaitable, Callable

from awa._runtime.identity import Identity
from awa._runtime.listener import Listener
from awa._runtime.permits import Permits
from awa._runtime.service import Service
from awa._store import jobs
from awa._store.attempts import Claim
from awa._store.database import Database
from awa._store.faults import ClusterUnknown, WorkerDeclaredDead
from awa._store.jobs import Beyond, ClaimRequest
from awa._store.line import Line
from awa.errors import AwaError
from awa.metrics import WorkerMetrics
from awa.settings import WorkerSettings

log = logging.getLogger("awa.claimer")

BUSY_SECONDS = 0.05
"""After so long without a pause the worker counts as awake and producers stop notifying."""
LONGEST_PASS_SECONDS = 0.02
"""Between two claims that found nothing but jobs of kinds that other workers run."""
BRIEF_PAUSES = 3
"""So many looks in a row, 1, 2 and 4 ms apart, may find jobs only on their way without a pause."""
LONGEST_SLEEP_SECONDS = 5.0
"""How long a worker that is notified sleeps all the same: a net under everything else."""


class Claimer(Service):
    """The loop that claims for one process."""

    name = "claimer"

    def __init__(  # noqa: PLR0913 - the parts of a worker that meet here
        self,
        database: Database,
        settings: WorkerSettings,
        identity: Identity,
        permits: Permits,
        listener: Listener,
        metrics: WorkerMetrics,
        *,
        kinds: tuple[str, ...],
        hand_over: Callable[[list[Claim]], None],
        may_claim: Callable[[], bool],
        declared_dead: Callable[[], Awaitable[None]],
    ) -> None:
        super().__init__()
        self._database = database
        self._settings = settings
        self._identity = identity
        self._permits = permits
        self._listener = listener
        self._metrics = metrics
        self._kinds = kinds
        self._hand_over = hand_over
        self._may_claim = may_claim
        self._declared_dead = declared_dead
        self._line = Line(database, "claim", settings.answer_timeout, synchronous_commit="off")
        self._turn = 0
        self._empty = 0
        self._passed = 0
        self._busy_since: float | None = None
        self._lost_tokens: list[int] = []
        self.stopping = asyncio.Event()
        self.claiming = False
        self.longest_pause = max(settings.poll_interval.total_seconds(), LONGEST_SLEEP_SECONDS)

    async def run(self) -> None:
        """Claim until `stopping` is set. The claim in flight is always waited for."""
        while not self.stopping.is_set():
            self._permits.freed.clear()
            request = self._request()
            if request is None or not self._may_claim():
                await self._wait_for_places()
                continue
            self.claiming = True
            try:
                claims, beyond = await self._claim(request)
            except WorkerDeclaredDead:
                await self._declared_dead()
                continue
            finally:
                self.claiming = False
            self.progressed()
            self._note(request, claims)
            if claims:
                self._hand_over(claims)
                await self._stay_awake()
            elif beyond.passed > sum(request.limits):
                # A long run of kinds that nobody knows, passed over as a whole; behind it is more.
                await asyncio.sleep(0)
            elif beyond.passed:
                # Jobs of other kinds are no reason to wait, but some come back again and again.
                self._passed += 1
                await self._wait(min(LONGEST_PASS_SECONDS, 0.001 * 2 ** min(self._passed, 20)))
            else:
                await self._rest(request, beyond.in_flight)

    async def close(self) -> None:
        """Close the session."""
        await self._line.close()

    def _request(self) -> ClaimRequest | None:
        offers = [(queue, self._permits.offer(queue.name)) for queue in self._settings.queues]
        offers = [(queue, limit) for queue, limit in offers if limit > 0]
        if not offers:
            return None
        # Every queue is first in turn, so that none lives of what others leave.
        self._turn = (self._turn + 1) % len(offers)
        offers = offers[self._turn :] + offers[: self._turn]
        return ClaimRequest(
            tuple(queue.name for queue, _ in offers),
            tuple(limit for _, limit in offers),
            tuple(queue.deadline.total_seconds() for queue, _ in offers),
            tuple(queue.priority_aging_interval.total_seconds() for queue, _ in offers),
            self._kinds,
        )

    async def _claim(self, request: ClaimRequest) -> tuple[list[Claim], Beyond]:
        if self._lost_tokens:
            await self._recover()
        token = secrets.randbits(62)
        try:
            async with self._line.step() as session:
                return await jobs.claim(
                    session, self._database.sql, self._identity.worker_id, token, request
                )
        except WorkerDeclaredDead:
            raise
        except ClusterUnknown:
            # The server at the address is another one than before.
            await self._database.arrive()
            raise
        except AwaError:
            self._lost_tokens.append(token)
            self._line.terminate()
            raise

    async def _recover(self) -> None:
        """Give back what lost answers may have claimed, before anything new is claimed."""
        for token in list(self._lost_tokens):
            returned = await self._identity.give_back(token)
            self._lost_tokens.remove(token)
            if returned:
                log.info("lost claim given back", extra={"jobs": returned})

    def _note(self, request: ClaimRequest, claims: list[Claim]) -> None:
        self._identity.took(claims)
        counts = dict.fromkeys(request.queues, 0)
        for claim in claims:
            head = claim.head
            counts[head.queue] += len(claim.seqs)
            oldest = claim.items[0][3]
            self._metrics.waited(head.queue, (head.claimed_at - oldest).total_seconds())
        for name, limit in zip(request.queues, request.limits, strict=True):
            self._permits.queues[name].wants_more = counts[name] >= limit
            if counts[name]:
                self._permits.take(name, counts[name])
                self._metrics.claimed[name] += counts[name]
        self._metrics.claims["jobs" if claims else "nothing"] += 1

    async def _stay_awake(self) -> None:
        self._empty = self._passed = 0
        now = self._permits.loop.time()
        if self._busy_since is None:
            self._busy_since = now
        elif now - self._busy_since > BUSY_SECONDS:
            await self._listener.awake()
        await asyncio.sleep(0)

    async def _rest(self, request: ClaimRequest, in_flight: bool) -> None:
        """Wait for a reason to look again.

        Places of a queue that had none and was not asked for are a reason too.
        """
        wake = self._listener.wake
        if not (in_flight and self._empty < BRIEF_PAUSES):
            self._busy_since = None
            if not self._listener.asleep and await self._listener.sleep():
                wake.clear()
                return  # look once more now that producers see us sleep
        self._empty += 1
        poll = self._settings.poll_interval.total_seconds()
        if in_flight:
            limit = min(poll, 0.001 * 2 ** min(self._empty - 1, 20))
        else:
            limit = LONGEST_SLEEP_SECONDS if self._listener.asleep else poll
        if len(request.queues) == len(self._settings.queues):
            await self._wait(limit, wake)
        else:
            offered_in = self._permits.seconds_until_offer()
            limit = limit if offered_in is None else min(limit, max(offered_in, 0.001))
            await self._wait(limit, wake, self._permits.freed)
        if wake.is_set():
            wake.clear()
            self._empty = 0

    async def _wait_for_places(self) -> None:
        limit = self._permits.seconds_until_offer()
        poll = self._settings.poll_interval.total_seconds()
        self._permits.freed.clear()
        self.progressed()
        if self._request() is not None and self._may_claim():
            return
        await self._listener.awake()  # nothing can be taken, so nobody needs to notify
        limit = poll if limit is None else min(max(limit, 0.001), LONGEST_SLEEP_SECONDS)
        await self._wait(limit, self._permits.freed)

    async def _wait(self, limit: float, *events: asyncio.Event) -> None:
        """Wait for any of some events, or a stop."""
        if any(event.is_set() for event in events):
            return
        waits = [asyncio.ensure_future(event.wait()) for event in (self.stopping, *events)]
        try:
            await asyncio.wait(waits, timeout=limit, return_when="FIRST_COMPLETED")
        finally:
            for wait in waits:
                wait.cancel()
