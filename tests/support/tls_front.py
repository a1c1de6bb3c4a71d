"""TLS before a server of this machine that has none."""

import asyncio
import contextlib
import socket
import ssl
import threading
from pathlib import Path
from typing import Self

from support.loops import accept_no_more, leave_nothing

LIMIT_SECONDS = 10.0


class TlsFront:
    """Listens with a certificate and forwards to a port. Use as a context manager."""

    def __init__(self, port: int, key: Path, certificate: Path) -> None:
        self._behind = port
        self._context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        self._context.load_cert_chain(certificate, key)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._server: asyncio.Server | None = None
        self.port = 0

    @property
    def address(self) -> str:
        """Address for clients."""
        return f"https://127.0.0.1:{self.port}"

    def greet(self, context: ssl.SSLContext) -> None:
        """Connect once. Raises `ssl.SSLError` if the certificate is not trusted."""
        with (
            socket.create_connection(("127.0.0.1", self.port), LIMIT_SECONDS) as raw,
            context.wrap_socket(raw, server_hostname="127.0.0.1"),
        ):
            pass

    def __enter__(self) -> Self:
        self._thread.start()
        asyncio.run_coroutine_threadsafe(self._start(), self._loop).result(LIMIT_SECONDS)
        return self

    def __exit__(self, *_: object) -> None:
        asyncio.run_coroutine_threadsafe(self._stop(), self._loop).result(LIMIT_SECONDS)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(LIMIT_SECONDS)
        self._loop.close()

    async def _start(self) -> None:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0, ssl=self._context)
        self.port = self._server.sockets[0].getsockname()[1]

    async def _stop(self) -> None:
        assert self._server is not None
        await accept_no_more(self._server.sockets)
        self._server.close()
        await leave_nothing()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        sides, pumps = [writer], list[asyncio.Task[None]]()
        try:
            behind_reader, behind_writer = await asyncio.open_connection("127.0.0.1", self._behind)
            sides.append(behind_writer)
            pumps.append(asyncio.create_task(_pump(reader, behind_writer)))
            pumps.append(asyncio.create_task(_pump(behind_reader, writer)))
            await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for pump in pumps:
                pump.cancel()
            await asyncio.gather(*pumps, return_exceptions=True)
            for side in sides:
                side.transport.abort()


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(ConnectionError, ssl.SSLError):
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
