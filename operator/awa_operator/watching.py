"""Runs kopf, which watches: in a thread with a loop of its own, begun again whenever it ends.

kopf ends all tasks of its loop when it ends, and it ends for errors that a new start cures; neither
may end the process. Its own retries have no end either, so an API server that is away is waited
for. Every event is handed over to the loop of the process.
"""

import asyncio
import contextlib
import logging
import random
import threading
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, NoReturn, cast

import aiohttp
import kopf

from awa_operator.cache import Cache
from awa_operator.handlers import Login, make_registry, watch_ours
from awa_operator.kube import CONNECT_SECONDS, Access
from awa_operator.metrics import Metrics
from awa_operator.resources import QUEUES, WATCHED, Resource
from awa_operator.settings import OperatorSettings

log = logging.getLogger(__name__)

FIRST_LISTS_SECONDS = 30.0
"""For how long after the start lists are those of the start."""
CRD_RETRY_SECONDS = 3.0
STEADY_SECONDS = 60.0
"""What held for so long is begun again without a wait that grew before."""
INSIST_SECONDS = 1.0
JOIN_SECONDS = 2.0
"""How long to wait for kopf at the end; it is left behind after that."""


@dataclass(frozen=True, slots=True)
class EndlessBackoff:
    """Waits that double from `first` to `longest`, with jitter, without an end. In seconds."""

    first: float
    longest: float

    def __iter__(self) -> Iterator[float]:
        """Yield the waits, from the first on for each who asks."""
        wait = self.first
        while True:
            yield wait * random.uniform(0.5, 1.0)  # noqa: S311 - no secret depends on it
            wait = min(wait * 2, self.longest)


class Pauses:
    """How long to wait before what ended is begun again."""

    def __init__(self, backoff: EndlessBackoff) -> None:
        self._backoff = backoff
        self._waits = iter(backoff)

    def after(self, held: float) -> float:
        """Return the wait after something that held for `held` seconds."""
        if held > STEADY_SECONDS:
            self._waits = iter(self._backoff)
        return next(self._waits)


def backoff(settings: OperatorSettings) -> EndlessBackoff:
    """Return the waits between tries of a watch, of a login, and of all watches."""
    return EndlessBackoff(settings.watch_retry_first_seconds, settings.watch_retry_longest_seconds)


async def insist_on_cancels() -> NoReturn:
    """Cancel again what was cancelled a second ago and goes on.

    When kopf ends, a watch that begins anew at that moment loses its cancel, and kopf would wait
    for it for ever.
    """
    before: set[asyncio.Task[Any]] = set()
    while True:
        await asyncio.sleep(INSIST_SECONDS)
        cancelled = {task for task in asyncio.all_tasks() if task.cancelling()}
        for task in cancelled & before:
            task.cancel()
        before = cancelled


def kopf_settings(settings: OperatorSettings) -> kopf.OperatorSettings:
    """Return how kopf is to behave: watch, write nothing, never give up."""
    made = kopf.OperatorSettings()
    made.process.ultimate_exiting_timeout = None
    made.posting.enabled = False
    made.scanning.disabled = True
    made.networking.error_backoffs = backoff(settings)
    made.networking.request_timeout = settings.request_timeout_seconds * 2
    made.networking.connect_timeout = CONNECT_SECONDS
    made.watching.inactivity_timeout = settings.watch_silence_seconds
    made.watching.chunk_size = 500
    made.queueing.idle_timeout = 1.0
    made.queueing.exit_timeout = 0.1
    watch_ours(made)
    return made


class Watching:
    """Watches until stopped and puts what it hears into the cache.

    `relisted` is called when a watch begins anew with a list: what went in between was not told.
    """

    def __init__(
        self,
        access: Access,
        cache: Cache,
        metrics: Metrics,
        settings: OperatorSettings,
        relisted: Callable[[], None],
    ) -> None:
        self._access = access
        self._cache = cache
        self._metrics = metrics
        self._settings = settings
        self._relisted = relisted
        self._began_at: float | None = None
        self._started_at = time.monotonic()
        self._home: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._ending = threading.Event()
        self._stop_kopf: Callable[[], None] = lambda: None
        self._failures = 0
        self._open: set[str] = set()
        self._heard_at: dict[str, float] = {}
        access.noticed = self._notice
        access.heard = self._hear

    @property
    def is_running(self) -> bool:
        """Whether a watch of each kind was opened and has not failed since in a way that lasts."""
        lives = self._thread is not None and self._thread.is_alive() and self._failures < 3
        return lives and self._open >= {resource.plural for resource in WATCHED}

    def silent_for(self) -> timedelta:
        """Return for how long the most silent watch has said nothing, not even a bookmark."""
        heard = [self._heard_at.get(one.plural, self._started_at) for one in WATCHED]
        return timedelta(seconds=max(time.monotonic() - min(heard), 0.0))

    def start(self) -> None:
        """Begin to watch; call it in the loop of the process."""
        self._home = asyncio.get_running_loop()
        self._thread = threading.Thread(target=self._run, name="watching", daemon=True)
        self._thread.start()

    def restart(self) -> None:
        """End all watches; they are begun again at once."""
        self._metrics.watch_restarts.inc()
        self._stop_kopf()

    async def stop(self) -> None:
        """End all watches, within two seconds."""
        self._ending.set()
        self._stop_kopf()
        if self._thread is not None:
            await asyncio.to_thread(self._thread.join, JOIN_SECONDS)

    # --- in the loop of the process --------------------------------------------------------

    def _take(self, resource: Resource, kind: str, body: Mapping[str, Any]) -> None:
        self._failures = 0
        began = self._began_at
        if not kind and began is not None and time.monotonic() - began > FIRST_LISTS_SECONDS:
            self._relisted()
        if kind == "DELETED":
            self._cache.drop(resource, body)
        else:
            self._cache.put(resource, body)

    # --- in the thread -----------------------------------------------------------------------

    def _notice(self, verb: str, resource: str, code: str) -> None:
        if verb == "watch" and code == "200":
            self._open.add(resource)
            self._hear(resource)

    def _hear(self, resource: str) -> None:
        self._heard_at[resource] = time.monotonic()
        self._metrics.heard(resource, datetime.now(UTC))

    def _run(self) -> None:
        pauses = Pauses(backoff(self._settings))
        while not self._ending.is_set():
            is_first, began = self._began_at is None, time.monotonic()
            self._began_at = began
            self._open.clear()
            if not is_first:
                self._tell_home(self._relisted)
            try:
                asyncio.run(self._watch())
            except Exception as error:  # noqa: BLE001 - whatever ended it, it is begun again
                if self._ending.is_set():
                    return
                self._failures += 1
                log.warning("watching ended and is begun again", extra={"error": repr(error)})
                self._tell_home(self._metrics.watch_restarts.inc)
                self._ending.wait(pauses.after(time.monotonic() - began))

    async def _watch(self) -> None:
        loop, stop = asyncio.get_running_loop(), asyncio.Event()

        def stop_kopf() -> None:
            with contextlib.suppress(RuntimeError):
                loop.call_soon_threadsafe(stop.set)

        self._stop_kopf = stop_kopf
        if not await self._is_served(stop):
            return
        namespaces = self._settings.namespaces
        insisting = asyncio.create_task(insist_on_cancels())
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", category=FutureWarning)
                await kopf.operator(
                    registry=make_registry(self._sink, self._login()),
                    settings=kopf_settings(self._settings),
                    standalone=True,
                    # Else kopf looks for the name of a user, and in a container there is none.
                    identity=cast("Any", self._settings.identity),
                    clusterwide=not namespaces,
                    namespaces=namespaces,
                    stop_flag=stop,
                )
        finally:
            insisting.cancel()

    async def _is_served(self, stop: asyncio.Event) -> bool:
        """Wait until the API server knows Queues, as kopf looks only once; False to stop."""
        session, path = self._access.open_session(), QUEUES.path(None)
        waits = iter(EndlessBackoff(0.2, CRD_RETRY_SECONDS))
        async with session:
            while not (stop.is_set() or self._ending.is_set()):
                with contextlib.suppress(aiohttp.ClientError, TimeoutError, OSError):
                    url = f"{self._access.server}{path.rpartition('/')[0]}"
                    async with asyncio.timeout(CONNECT_SECONDS * 2), session.get(url) as answer:
                        if answer.status == 200:
                            found = await answer.json()
                            names = {one.get("name") for one in found.get("resources") or ()}
                            if QUEUES.plural in names:
                                return True
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(next(waits)):
                        await stop.wait()
        return False

    def _login(self) -> Login:
        """Return what kopf logs in with: at once at first, then not as fast as it is refused."""
        pauses, logged_in_at = Pauses(backoff(self._settings)), 0.0

        async def log_in() -> kopf.AiohttpSession:
            nonlocal logged_in_at
            if logged_in_at:
                await asyncio.sleep(pauses.after(time.monotonic() - logged_in_at))
            logged_in_at = time.monotonic()
            session = self._access.open_session()
            return kopf.AiohttpSession(server=self._access.server, aiohttp_session=session)

        return log_in

    def _sink(self, resource: Resource, kind: str, body: Mapping[str, Any]) -> None:
        self._tell_home(self._take, resource, kind, body)

    def _tell_home(self, what: Callable[..., None], *arguments: Any) -> None:
        if self._home is not None:
            with contextlib.suppress(RuntimeError):  # The process is at its end.
                self._home.call_soon_threadsafe(what, *arguments)
