"""A TCP proxy that misbehaves on command.

It runs its own loop in a thread, so it works for tests with and without a loop, and goes on
while the test blocks. A command has taken effect when its method returns.
"""

import asyncio
import contextlib
import socket
import struct
import threading
from collections.abc import Coroutine
from dataclasses import dataclass, field
from datetime import timedelta
from enum import Enum, auto
from typing import Self

from support.loops import accept_no_more, leave_nothing

COMMAND_LIMIT_SECONDS = 10.0
CHUNK_BYTES = 65536


@dataclass(frozen=True)
class Passage:
    """What to do with a piece of traffic: forward `data`, send `reply` back, then maybe cut."""

    data: bytes = b""
    reply: bytes = b""
    cut: bool = False


class Tap:
    """Sees the traffic of one connection and decides what passes; this one passes everything."""

    is_silent = False
    """Whether all further traffic is lost, ends included: neither side ever hears of the other."""

    def from_client(self, data: bytes) -> Passage:
        """Judge bytes on their way to the server."""
        return Passage(data)

    def from_server(self, data: bytes) -> Passage:
        """Judge bytes on their way to the client."""
        return Passage(data)


class Mode(Enum):
    """How the proxy treats its connections."""

    FORWARD = auto()
    BLACK_HOLE = auto()
    REFUSE = auto()


@dataclass(eq=False)
class _Connection:
    client: tuple[asyncio.StreamReader, asyncio.StreamWriter]
    server: tuple[asyncio.StreamReader, asyncio.StreamWriter]
    tap: Tap
    ended: asyncio.Event = field(default_factory=asyncio.Event)

    def abort(self) -> None:
        """Reset both sides: neither learns why, and unsent data is lost."""
        for _, writer in (self.client, self.server):
            reset(writer)
        self.ended.set()


class FaultProxy:
    """Listens on a free port of 127.0.0.1 and forwards to `host:port`, with faults.

    `start` it (or use it as a context manager), point the client at `address`, then:
    `cut()` resets the connections of this moment; `black_hole()` holds everything back, in both
    directions, until `forward()`; `refuse()` resets connections and every new one; `delay(t)`
    lets each piece of traffic wait, in each direction. `forward()` ends all of these.
    `redirect(host, port)` leads to another server from then on.
    """

    def __init__(self, host: str, port: int) -> None:
        self._upstream = (host, port)
        self._mode = Mode.FORWARD
        self._changed = asyncio.Condition()
        self._delay_seconds = 0.0
        self._connections: set[_Connection] = set()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name="fault-proxy", daemon=True)
        self._listener: asyncio.Server | None = None
        self.host, self.port = "127.0.0.1", 0

    def make_tap(self) -> Tap:
        """Return what watches a new connection; subclasses look into the traffic here."""
        return Tap()

    def start(self) -> None:
        """Listen."""
        self._thread.start()
        self._command(self._listen())

    def stop(self) -> None:
        """Reset every connection and stop listening. Safe to repeat."""
        if not self._thread.is_alive():
            return
        self._command(self._close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(COMMAND_LIMIT_SECONDS)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def address(self) -> str:
        """`host:port` for the client."""
        return f"{self.host}:{self.port}"

    @property
    def connections(self) -> int:
        """How many connections are open now."""
        return len(self._connections)

    def forward(self) -> None:
        """Behave; what was held back goes out now."""
        self._command(self._set(Mode.FORWARD, 0.0))

    def cut(self) -> None:
        """Reset all connections of this moment; new ones are served."""
        self._command(self._cut())

    def redirect(self, host: str, port: int, *, cut: bool = True) -> None:
        """Serve new connections from another server; those to the former one are reset, or stay."""
        self._upstream = (host, port)
        if cut:
            self.cut()

    def black_hole(self) -> None:
        """Hold back all traffic, of new connections too: a partition that may heal."""
        self._command(self._set(Mode.BLACK_HOLE, self._delay_seconds))

    def refuse(self) -> None:
        """Reset all connections and every new one: a server that is down."""
        self._command(self._set(Mode.REFUSE, self._delay_seconds))
        self.cut()

    def lead_to(self, host: str, port: int) -> None:
        """Forward new connections to another server, as the address of a cluster does."""
        self._upstream = (host, port)

    def delay(self, by: timedelta) -> None:
        """Let each piece of traffic wait in each direction."""
        self._command(self._set(self._mode, by.total_seconds()))

    # --- on the proxy's own loop -------------------------------------------------------------

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_forever()
        self._loop.close()

    def _command(self, coroutine: Coroutine[object, object, None]) -> None:
        asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(COMMAND_LIMIT_SECONDS)

    async def _listen(self) -> None:
        self._listener = await asyncio.start_server(self._serve, self.host, 0)
        self.port = self._listener.sockets[0].getsockname()[1]

    async def _close(self) -> None:
        assert self._listener is not None
        await accept_no_more(self._listener.sockets)
        self._listener.close()
        await self._cut()
        await leave_nothing()

    async def _set(self, mode: Mode, delay_seconds: float) -> None:
        async with self._changed:
            self._mode, self._delay_seconds = mode, delay_seconds
            self._changed.notify_all()

    async def _cut(self) -> None:
        for connection in list(self._connections):
            connection.abort()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._mode is Mode.REFUSE:
            reset(writer)
            return
        try:
            upstream = await asyncio.open_connection(*self._upstream)
        except OSError:
            reset(writer)
            return
        connection = _Connection((reader, writer), upstream, self.make_tap())
        self._connections.add(connection)
        # Whichever ends first ends the others: either side's stream, or a cut.
        parts = [
            asyncio.create_task(self._pump_up(connection)),
            asyncio.create_task(self._pump_down(connection)),
            asyncio.create_task(connection.ended.wait()),
        ]
        try:
            await asyncio.wait(parts, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for part in parts:
                part.cancel()
            await asyncio.gather(*parts, return_exceptions=True)
            self._connections.discard(connection)
            for _, side in (connection.client, connection.server):
                side.close()

    async def _pump_up(self, connection: _Connection) -> None:
        (reader, back), (_, onward) = connection.client, connection.server
        with contextlib.suppress(ConnectionError):
            while data := await reader.read(CHUNK_BYTES):
                await self._hold()
                if not connection.tap.is_silent:
                    passage = connection.tap.from_client(data)
                    back.write(passage.reply)
                    await self._pass_on(connection, passage, onward)
        await self._keep_silent(connection)

    async def _pump_down(self, connection: _Connection) -> None:
        (reader, _), (_, onward) = connection.server, connection.client
        with contextlib.suppress(ConnectionError):
            while data := await reader.read(CHUNK_BYTES):
                await self._hold()
                if not connection.tap.is_silent:
                    await self._pass_on(connection, connection.tap.from_server(data), onward)
        await self._keep_silent(connection)

    async def _keep_silent(self, connection: _Connection) -> None:
        if connection.tap.is_silent:
            await connection.ended.wait()

    async def _hold(self) -> None:
        if self._delay_seconds:
            await asyncio.sleep(self._delay_seconds)
        async with self._changed:
            await self._changed.wait_for(lambda: self._mode is not Mode.BLACK_HOLE)

    async def _pass_on(
        self, connection: _Connection, passage: Passage, onward: asyncio.StreamWriter
    ) -> None:
        onward.write(passage.data)
        with contextlib.suppress(ConnectionError):
            await onward.drain()
        if passage.cut:
            connection.abort()


def reset(writer: asyncio.StreamWriter) -> None:
    """Close with RST instead of FIN and throw away what was not sent."""
    raw = writer.get_extra_info("socket")
    if raw is not None and raw.fileno() >= 0:
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()
