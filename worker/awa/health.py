"""Health and metrics of a supervisor's processes over HTTP.

`/healthz` answers 200 as long as the processes get on, and looks at no database: 503 only when an
event loop stands still, or a claim loop does while the database answers. A drain is no fault.
`/readyz` answers 200 when every process is registered, its services run and the schema fits, and
says in JSON what is missing. `/metrics` is the text format of Prometheus, one set of series however
many processes there are.

The server is small on purpose: GET and HEAD, one request a connection, everything limited.
"""

import asyncio
import contextlib
import functools
import json
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, Self

from awa._runtime.condition import Condition, Stage
from awa._runtime.service import State
from awa._runtime.supervisor import Supervisor
from awa.errors import ValidationError
from awa.metrics import exposition
from awa.settings import WorkerSettings
from awa_migrations import packaged_catalog

DEFAULT_ADDRESS = "127.0.0.1:8321"
OFF = "off"
LONGEST_REQUEST = 8 * 1024
REQUEST_SECONDS = 5.0
MAX_CONNECTIONS = 64
_WORST_FIRST = (State.stopped, State.failing, State.stalled, State.running)


@dataclass(frozen=True, slots=True)
class Answer:
    """What a page answers."""

    status: HTTPStatus
    body: bytes
    content_type: str = "application/json"

    @classmethod
    def of_json(cls, document: Mapping[str, Any], status: HTTPStatus = HTTPStatus.OK) -> Self:
        """Answer a JSON document."""
        return cls(status, json.dumps(document).encode() + b"\n")


type Page = Callable[[], Awaitable[Answer]]


class HealthPages:
    """The pages of one supervisor."""

    def __init__(self, supervisor: Supervisor, settings: WorkerSettings) -> None:
        self._supervisor = supervisor
        # Beyond this the process counts as dead to the others anyway.
        self._silence_limit = settings.heartbeat_staleness.total_seconds()

    async def healthz(self) -> Answer:
        """Whether a restart would help nothing."""
        silent = self._supervisor.silent_for() > self._silence_limit
        if self._supervisor.stopping or (self._supervisor.live and not silent):
            return Answer.of_json({"live": True})
        what = "an event loop" if silent else "a claim loop"
        return Answer.of_json(
            {"live": False, "reason": f"{what} makes no progress"}, HTTPStatus.SERVICE_UNAVAILABLE
        )

    async def readyz(self) -> Answer:
        """Whether jobs run here as they should."""
        conditions = await self._supervisor.conditions()
        found = summary(conditions, shutting_down=self._supervisor.stopping)
        status = HTTPStatus.OK if found["ready"] else HTTPStatus.SERVICE_UNAVAILABLE
        return Answer.of_json(found, status)

    async def metrics(self) -> Answer:
        """Return what all processes have counted."""
        text = exposition(await self._supervisor.families())
        return Answer(HTTPStatus.OK, text, "text/plain; version=0.0.4; charset=utf-8")


def summary(conditions: Iterable[Condition], *, shutting_down: bool) -> dict[str, Any]:
    """Return several processes as one: each part is as good as in the worst of them."""
    found = list(conditions)
    versions = [one.schema_version for one in found if one.schema_version is not None]
    reasons = [one.reason for one in found if one.reason is not None]
    loading = not found or any(one.stage is Stage.loading for one in found)
    reason = reasons[0] if reasons else "a process is starting" if loading else None
    return {
        "ready": not shutting_down and bool(found) and all(one.ready for one in found),
        "postgres_connected": bool(found) and all(one.postgres_connected for one in found),
        "schema_version": min(versions, default=None),
        "expected_schema_version": _expected_version(),
        "schema_compatible": bool(found) and all(one.schema_compatible is True for one in found),
        "services": _services(found),
        "shutting_down": shutting_down,
        "leader": any(one.leader for one in found),
        "processes": len(found),
        "reason": reason,
    }


@functools.cache
def _expected_version() -> int:
    return packaged_catalog().latest


def _services(conditions: Iterable[Condition]) -> dict[str, str]:
    worst: dict[str, str] = {}
    for condition in conditions:
        for name, state in condition.services.items():
            worst[name] = min(state, worst.get(name, state), key=_WORST_FIRST.index)
    return worst


@dataclass(frozen=True, slots=True)
class Address:
    """Where a server listens."""

    host: str
    port: int

    @classmethod
    def parse(cls, text: str, name: str) -> Self:
        """Read `host:port`, with an IPv6 host in brackets; `name` is the knob that is at fault."""
        host, separator, port = text.rpartition(":")
        host = host.removeprefix("[").removesuffix("]") if host.startswith("[") else host
        if not separator or not port.isdecimal() or int(port) > 65535 or not host:
            raise ValidationError(f"{name} is host:port, such as 0.0.0.0:8321, not {text!r}")
        return cls(host, int(port))


class HttpServer:
    """Serves pages by their path."""

    def __init__(self, pages: Mapping[str, Page]) -> None:
        self._pages = pages
        self._server: asyncio.Server | None = None
        self._open = 0

    async def start(self, address: Address) -> Address:
        """Listen, and return where: port 0 takes a free one. Raises OSError when it cannot."""
        self._server = await asyncio.start_server(
            self._serve, address.host, address.port, limit=LONGEST_REQUEST
        )
        host, port = self._server.sockets[0].getsockname()[:2]
        return Address(host, port)

    async def close(self) -> None:
        """Listen no more; what is being answered is cut off."""
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
            answer = _refusal(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE)
            head = b""
        else:
            answer = await self._page(head)
        lines = [
            f"HTTP/1.1 {answer.status.value} {answer.status.phrase}",
            f"Content-Type: {answer.content_type}",
            f"Content-Length: {len(answer.body)}",
            "Cache-Control: no-store",
            "X-Content-Type-Options: nosniff",
            "Connection: close",
        ]
        if answer.status is HTTPStatus.METHOD_NOT_ALLOWED:
            lines.append("Allow: GET, HEAD")
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
    return Answer.of_json({"error": status.phrase}, status)


def servers(pages: HealthPages, settings: WorkerSettings) -> list[tuple[Address, HttpServer, bool]]:
    """Return the servers that settings ask for; False with those that may fail to start."""
    health, metrics = settings.health_address, settings.metrics_address
    by_path: dict[str, Page] = {"/healthz": pages.healthz, "/readyz": pages.readyz}
    if metrics is None:
        by_path["/metrics"] = pages.metrics
    made = []
    if health != OFF:
        address = Address.parse(health or DEFAULT_ADDRESS, "health_address")
        made.append((address, HttpServer(by_path), health is not None))
    if metrics not in {None, OFF}:
        address = Address.parse(str(metrics), "metrics_address")
        made.append((address, HttpServer({"/metrics": pages.metrics}), True))
    return made
