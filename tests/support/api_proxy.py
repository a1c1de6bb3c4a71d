"""A proxy before an API server that speaks HTTP and misbehaves on command.

Clients use plain HTTP; the API server is spoken to as it wants. It runs its own loop in a thread.
"""

import asyncio
import contextlib
import json
import socket
import ssl
import threading
import time
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any, Self

import aiohttp
from aiohttp import web

from support.loops import accept_no_more, leave_nothing

COMMAND_LIMIT_SECONDS = 10.0
_HOP = {
    "accept-encoding", "connection", "content-encoding", "content-length", "host",
    "transfer-encoding",
}  # fmt: skip

type Event = dict[str, Any]
type Matches = Callable[["Seen"], bool]


@dataclass(frozen=True, slots=True)
class Seen:
    """One request that came through."""

    at: float
    method: str
    path: str
    query: dict[str, str]
    agent: str

    @property
    def is_watch(self) -> bool:
        """Whether it is a watch."""
        return self.query.get("watch") == "true"

    @property
    def is_write(self) -> bool:
        """Whether it changes something."""
        return self.method not in {"GET", "HEAD"} and self.query.get("dryRun") is None


@dataclass(frozen=True, slots=True)
class Fault:
    """What happens to requests that match: an answer of ours, or a wait before or after them."""

    matches: Matches
    status: int = 0
    headers: dict[str, str] = field(default_factory=dict)
    delay: timedelta = timedelta(0)
    late: timedelta = timedelta(0)
    reason: str = "InternalError"


class ApiProxy:
    """Forwards to an API server. Use as a context manager; `address` is for clients.

    `with proxy.failing(...)`: requests are answered with an error. `with proxy.dropping(...)`:
    watch events are lost silently. `with proxy.silent(...)`: watches say nothing, no bookmarks.
    `cut()` resets every connection of clients.
    """

    def __init__(self, upstream: str, authority: Path) -> None:
        self._upstream = upstream.rstrip("/")
        self._context = ssl.create_default_context(cafile=str(authority))
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._serve, name="api-proxy", daemon=True)
        self._session: aiohttp.ClientSession | None = None
        self._runner: web.AppRunner | None = None
        self._transports: set[asyncio.Transport] = set()
        self._faults: list[Fault] = []
        self._lost: list[Callable[[Event], bool]] = []
        self._silent: list[Matches] = []
        self._watches: dict[web.StreamResponse, Seen] = {}
        self.answered: Callable[[Seen, int], None] = lambda *_: None
        """Called with each request and the status of its answer, before that is passed back."""
        self.seen: list[Seen] = []
        self._listening: socket.socket | None = None
        self.port = 0

    @property
    def address(self) -> str:
        """Address for clients."""
        return f"http://127.0.0.1:{self.port}"

    def __enter__(self) -> Self:
        self._thread.start()
        self._command(self._start())
        return self

    def __exit__(self, *_: object) -> None:
        self._command(self._stop())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(COMMAND_LIMIT_SECONDS)

    @contextlib.contextmanager
    def failing(
        self,
        status: int,
        matches: Matches = lambda _: True,
        *,
        retry_after: int | None = None,
        reason: str = "InternalError",
    ) -> Iterator[None]:
        """Answer requests with an error; open watches that match end."""
        headers = {} if retry_after is None else {"Retry-After": str(retry_after)}
        fault = Fault(matches, status=status, headers=headers, reason=reason)
        self._faults.append(fault)
        self.cut()
        try:
            yield
        finally:
            self._faults.remove(fault)

    @contextlib.contextmanager
    def slow(self, by: timedelta, matches: Matches = lambda _: True) -> Iterator[None]:
        """Let requests wait before they are forwarded."""
        fault = Fault(matches, delay=by)
        self._faults.append(fault)
        try:
            yield
        finally:
            self._faults.remove(fault)

    @contextlib.contextmanager
    def late_answers(self, by: timedelta, matches: Matches = lambda _: True) -> Iterator[None]:
        """Let answers wait before they are passed back: what they tell of has happened by then."""
        fault = Fault(matches, late=by)
        self._faults.append(fault)
        try:
            yield
        finally:
            self._faults.remove(fault)

    @contextlib.contextmanager
    def dropping(self, lost: Callable[[Event], bool]) -> Iterator[None]:
        """Lose watch events silently."""
        self._lost.append(lost)
        try:
            yield
        finally:
            self._lost.remove(lost)

    @contextlib.contextmanager
    def silent(self, matches: Matches) -> Iterator[None]:
        """Let watches stay open and say nothing."""
        self._silent.append(matches)
        try:
            yield
        finally:
            self._silent.remove(matches)

    def cut(self) -> None:
        """Reset every connection of clients."""
        self._command(self._cut())

    def inject(self, event: Event, matches: Matches = lambda _: True) -> int:
        """Send an event to all watches of this moment that match; return how many were told.

        One that the client ends meanwhile, for what another was told, is not.
        """
        line = json.dumps(event).encode() + b"\n"
        told = 0
        for back in [back for back, seen in list(self._watches.items()) if matches(seen)]:
            with contextlib.suppress(ConnectionResetError):
                self._command(back.write(line))
                told += 1
        return told

    def writes(self, since: float = 0.0) -> list[Seen]:
        """Return the requests that change something, apart from leases."""
        return [
            one
            for one in self.seen
            if one.at >= since and one.is_write and "/leases" not in one.path
        ]

    # --- in the proxy's own loop -------------------------------------------------------------

    def _serve(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.set_default_executor(ThreadPoolExecutor(2))
        self._loop.run_forever()
        self._loop.close()

    def _command(self, coroutine: Coroutine[Any, Any, None]) -> None:
        asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(COMMAND_LIMIT_SECONDS)

    async def _start(self) -> None:
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0, ssl=self._context), auto_decompress=False
        )
        app = web.Application(client_max_size=64 * 1024 * 1024)
        app.router.add_route("*", "/{path:.*}", self._handle)
        self._runner = web.AppRunner(
            app, access_log=None, shutdown_timeout=0.1, handler_cancellation=True
        )
        await self._runner.setup()
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port = self._listening.getsockname()[1]
        await web.SockSite(self._runner, self._listening).start()

    async def _stop(self) -> None:
        assert self._listening is not None
        await accept_no_more([self._listening])
        await self._cut()
        if self._runner is not None:
            await self._runner.cleanup()
        if self._session is not None and isinstance(self._session.connector, aiohttp.TCPConnector):
            await self._session.connector.close(abort_ssl=True)
            await self._session.close()
        await leave_nothing()

    async def _cut(self) -> None:
        for transport in list(self._transports):
            transport.abort()

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        if request.transport is not None:
            self._transports.add(request.transport)
        seen = Seen(
            time.monotonic(), request.method, request.path, dict(request.query),
            request.headers.get("User-Agent", ""),
        )  # fmt: skip
        self.seen.append(seen)
        for fault in list(self._faults):
            if fault.matches(seen):
                if fault.delay:
                    await asyncio.sleep(fault.delay.total_seconds())
                if fault.status:
                    return _refusal(fault)
        try:
            return await self._forward(request, seen)
        finally:
            if request.transport is None or request.transport.is_closing():
                self._transports = {one for one in self._transports if not one.is_closing()}

    async def _forward(self, request: web.Request, seen: Seen) -> web.StreamResponse:
        assert self._session is not None
        headers = {key: value for key, value in request.headers.items() if key.lower() not in _HOP}
        headers["Accept-Encoding"] = "identity"
        try:
            async with self._session.request(
                request.method,
                self._upstream + request.raw_path,
                headers=headers,
                data=await request.read() or None,
                skip_auto_headers=["Content-Type"],
                timeout=aiohttp.ClientTimeout(total=None, sock_connect=5),
            ) as answer:
                return await self._pass_back(request, seen, answer)
        except aiohttp.ClientConnectionError:
            if request.transport is not None:
                request.transport.abort()
            return web.Response(status=502)

    async def _pass_back(
        self, request: web.Request, seen: Seen, answer: aiohttp.ClientResponse
    ) -> web.StreamResponse:
        self.answered(seen, answer.status)
        late = sum((one.late for one in self._faults if one.matches(seen)), timedelta(0))
        await asyncio.sleep(late.total_seconds())
        kept = {key: value for key, value in answer.headers.items() if key.lower() not in _HOP}
        back = web.StreamResponse(status=answer.status, headers=kept)
        await back.prepare(request)
        if not seen.is_watch:
            await back.write(await answer.read())
            await back.write_eof()
            return back
        self._watches[back] = seen
        try:
            async for line in _lines(answer):
                if not self._is_lost(seen, json.loads(line)):
                    await back.write(line)
            await back.write_eof()
        finally:
            del self._watches[back]
        return back

    def _is_lost(self, seen: Seen, event: Event) -> bool:
        is_silent = any(matches(seen) for matches in self._silent)
        return is_silent or any(lost(event) for lost in self._lost)


async def _lines(answer: aiohttp.ClientResponse) -> Any:
    buffer = b""
    async for piece in answer.content.iter_any():
        buffer += piece
        *whole, buffer = buffer.split(b"\n")
        for line in whole:
            if line:
                yield line + b"\n"


def _refusal(fault: Fault) -> web.Response:
    body = {
        "kind": "Status",
        "apiVersion": "v1",
        "status": "Failure",
        "reason": fault.reason,
        "message": "a fault of the test",
        "code": fault.status,
    }
    return web.json_response(body, status=fault.status, headers=fault.headers)


def to(plural: str) -> Matches:
    """Return what matches requests about one kind."""

    def matches(seen: Seen) -> bool:
        return seen.path.endswith(f"/{plural}") or f"/{plural}/" in seen.path

    return matches
