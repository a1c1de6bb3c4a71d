"""`/healthz`, `/readyz` and `/metrics` over HTTP.

`/healthz` proves that the process gets on: its loop turns, work that is there gets done, renewals
of the lease come back through a watch, and what watches told agrees with a list. It fails only for
what a restart would cure, so never because of a database, nor because the API server is away.
`/readyz` says whether the process knows what there is. Standbys are as ready as the leader.
"""

import asyncio
import contextlib
import json
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from http import HTTPStatus

LONGEST_REQUEST = 8 * 1024
REQUEST_SECONDS = 5.0
MAX_CONNECTIONS = 32
LAG_INTERVAL_SECONDS = 0.5
DEAF_AFTER = timedelta(seconds=90)
"""How long the watch of the lease may be silent although the lease was renewed."""
SILENT_AFTER = timedelta(seconds=240)
"""How long a watch may say nothing while others hear; the server sends a bookmark each minute."""


class LoopLag:
    """Measures how late the event loop is, all the time."""

    def __init__(self, observe: Callable[[float], None]) -> None:
        self._observe = observe
        self._beat = time.monotonic()
        self._worst: list[tuple[float, float]] = []

    async def run(self) -> None:
        """Measure until cancelled."""
        while True:
            await asyncio.sleep(LAG_INTERVAL_SECONDS)
            now = time.monotonic()
            lag = max(now - self._beat - LAG_INTERVAL_SECONDS, 0.0)
            self._beat = now
            self._observe(lag)
            self._worst = [(at, was) for at, was in self._worst if now - at < REQUEST_SECONDS * 4]
            if lag > LAG_INTERVAL_SECONDS:
                self._worst.append((now, lag))

    def lag(self) -> timedelta:
        """Return the worst lag of the last 20 seconds, counting one that lasts."""
        lasting = time.monotonic() - self._beat - LAG_INTERVAL_SECONDS
        return timedelta(seconds=max([lasting, 0.0, *(was for _, was in self._worst)]))


@dataclass(frozen=True, slots=True, kw_only=True)
class Signs:
    """Where the signs of life are read."""

    loop_lag: Callable[[], timedelta]
    stuck_for: Callable[[], timedelta]
    deaf_for: Callable[[], timedelta]
    silent_for: Callable[[], timedelta]
    audits_failed: Callable[[], int]
    synced: Callable[[], bool]
    leads: Callable[[], bool]
    watching: Callable[[], bool]
    missing_fields: Callable[[], tuple[str, ...]]


@dataclass(frozen=True, slots=True)
class Answer:
    """What a page answers."""

    status: HTTPStatus
    body: bytes
    content_type: str = "application/json"

    @classmethod
    def of(cls, document: Mapping[str, object], *, ok: bool) -> "Answer":
        """Answer a JSON document with 200 or 503."""
        status = HTTPStatus.OK if ok else HTTPStatus.SERVICE_UNAVAILABLE
        return cls(status, json.dumps(document).encode() + b"\n")


type Page = Callable[[], Awaitable[Answer]]


class HealthPages:
    """What the pages answer. Two audits in a row that found something are a deaf watch."""

    def __init__(
        self,
        signs: Signs,
        exposition: Callable[[], bytes],
        *,
        lag_limit: timedelta,
        stuck_limit: timedelta,
    ) -> None:
        self._signs = signs
        self._exposition = exposition
        self._lag_limit = lag_limit
        self._stuck_limit = stuck_limit

    async def healthz(self) -> Answer:
        """Whether a restart would cure nothing."""
        problems = self.problems()
        return Answer.of({"live": not problems, "problems": problems}, ok=not problems)

    def problems(self) -> list[str]:
        """Return what a restart would cure."""
        signs, found = self._signs, []
        if signs.loop_lag() > self._lag_limit:
            found.append("the event loop stands still")
        if signs.stuck_for() > self._stuck_limit:
            found.append("work waits and none gets done")
        if signs.deaf_for() > DEAF_AFTER:
            found.append("the lease was renewed and its watch told nothing")
        if signs.silent_for() > SILENT_AFTER:
            found.append("a watch says nothing while others hear")
        if signs.audits_failed() >= 2:
            found.append("watches miss what lists show")
        return found

    async def readyz(self) -> Answer:
        """Whether the process knows what there is."""
        signs = self._signs
        ready = signs.synced() and signs.watching()
        document = {
            "ready": ready,
            "synced": signs.synced(),
            "watching": signs.watching(),
            "leader": signs.leads(),
            "missing_crd_fields": list(signs.missing_fields()),
        }
        return Answer.of(document, ok=ready)

    async def metrics(self) -> Answer:
        """Return all series; thousands of Queues are written in a thread."""
        text = await asyncio.to_thread(self._exposition)
        return Answer(HTTPStatus.OK, text, "text/plain; version=0.0.4; charset=utf-8")


class HttpServer:
    """A small server: GET and HEAD, one request a connection, everything limited."""

    def __init__(self, pages: Mapping[str, Page]) -> None:
        self._pages = pages
        self._server: asyncio.Server | None = None
        self._open = 0

    async def start(self, host: str, port: int) -> int:
        """Listen and return the port. Raises `OSError`."""
        self._server = await asyncio.start_server(self._serve, host, port, limit=LONGEST_REQUEST)
        found: int = self._server.sockets[0].getsockname()[1]
        return found

    def close(self) -> None:
        """Listen no more."""
        if self._server is not None:
            self._server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._open += 1
        try:
            if self._open <= MAX_CONNECTIONS:
                async with asyncio.timeout(REQUEST_SECONDS):
                    await self._answer(reader, writer)
        except (TimeoutError, ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            self._open -= 1
            writer.close()
            with contextlib.suppress(ConnectionError):
                await writer.wait_closed()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = await reader.readuntil(b"\r\n\r\n")
        except asyncio.LimitOverrunError:
            head, answer = b"", _refusal(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE)
        else:
            answer = await self._page(head)
        lines = [
            f"HTTP/1.1 {answer.status.value} {answer.status.phrase}",
            f"Content-Type: {answer.content_type}",
            f"Content-Length: {len(answer.body)}",
            "Cache-Control: no-store",
            "Connection: close",
        ]
        writer.write("\r\n".join([*lines, "", ""]).encode())
        if not head.startswith(b"HEAD "):
            writer.write(answer.body)
        await writer.drain()

    async def _page(self, head: bytes) -> Answer:
        words = head.split(b"\r\n", 1)[0].decode("latin-1").split(" ")
        if len(words) != 3 or not words[2].startswith("HTTP/1."):
            return _refusal(HTTPStatus.BAD_REQUEST)
        if words[0] not in {"GET", "HEAD"}:
            return _refusal(HTTPStatus.METHOD_NOT_ALLOWED)
        page = self._pages.get(words[1].partition("?")[0])
        return _refusal(HTTPStatus.NOT_FOUND) if page is None else await page()


def _refusal(status: HTTPStatus) -> Answer:
    return Answer(status, json.dumps({"error": status.phrase}).encode() + b"\n")
