"""A few pages over HTTP, such as health and metrics, of a worker, of `awa up` and of the operator.

The server is small on purpose: GET and HEAD, one request a connection, everything limited.
"""

import asyncio
import contextlib
import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, Self

LONGEST_REQUEST = 8 * 1024
REQUEST_SECONDS = 5.0
MAX_CONNECTIONS = 64


@dataclass(frozen=True, slots=True)
class Answer:
    """What a page answers."""

    status: HTTPStatus
    body: bytes
    content_type: str = "application/json"

    @classmethod
    def of_json(cls, document: Mapping[str, Any], *, ok: bool = True) -> Self:
        """Answer a JSON document with 200, or 503."""
        status = HTTPStatus.OK if ok else HTTPStatus.SERVICE_UNAVAILABLE
        return cls(status, json.dumps(document).encode() + b"\n")

    @classmethod
    def of_metrics(cls, exposition: bytes) -> Self:
        """Answer the text format of Prometheus."""
        return cls(HTTPStatus.OK, exposition, "text/plain; version=0.0.4; charset=utf-8")


type Page = Callable[[], Awaitable[Answer]]


class HttpServer:
    """Serves pages by their path."""

    def __init__(self, pages: Mapping[str, Page]) -> None:
        self._pages = pages
        self._server: asyncio.Server | None = None
        self._open = 0

    async def start(self, host: str, port: int) -> tuple[str, int]:
        """Listen, and return where: port 0 takes a free one. Raises OSError when it cannot."""
        self._server = await asyncio.start_server(self._serve, host, port, limit=LONGEST_REQUEST)
        found_host, found_port = self._server.sockets[0].getsockname()[:2]
        return found_host, found_port

    def close(self) -> None:
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
    return Answer(status, json.dumps({"error": status.phrase}).encode() + b"\n")
