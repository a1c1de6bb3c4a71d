"""The fault proxy does to plain TCP what its methods say."""

import asyncio
import contextlib
import gc
import socket
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from functools import partial

import pytest

from support.proxy import FaultProxy
from support.waiting import eventually, eventually_sync

NOBODY = 1
"""A port on which nothing listens."""

GREETING = b"hello"

type Dial = Callable[[FaultProxy], Awaitable[Streams]]
type Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


@pytest.fixture
async def echo_port() -> AsyncIterator[int]:
    """A server that says hello, then sends back what it gets."""

    async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            writer.write(GREETING)
            while data := await reader.read(1024):
                writer.write(data)
        except ConnectionError:
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(echo, "127.0.0.1", 0)
    yield server.sockets[0].getsockname()[1]
    server.close()


@pytest.fixture
def proxy(echo_port: int) -> Iterator[FaultProxy]:
    with FaultProxy("127.0.0.1", echo_port) as running:
        yield running


@pytest.fixture
async def dial() -> AsyncIterator[Dial]:
    """Connect through a proxy; closed after the test."""
    opened: list[Streams] = []

    async def connect(proxy: FaultProxy) -> Streams:
        opened.append(await asyncio.open_connection(proxy.host, proxy.port))
        return opened[-1]

    yield connect
    for _, writer in opened:
        writer.transport.abort()


async def greeted(streams: Streams) -> Streams:
    async with asyncio.timeout(5):
        assert await streams[0].readexactly(len(GREETING)) == GREETING
    return streams


async def said_back(streams: Streams, text: bytes) -> bytes:
    reader, writer = streams
    writer.write(text)
    async with asyncio.timeout(5):
        return await reader.readexactly(len(text))


async def is_reset(streams: Streams) -> bool:
    async with asyncio.timeout(5):
        try:
            return await streams[0].read(1) == b""
        except ConnectionError:
            return True


async def turns_away(dial: Dial, proxy: FaultProxy) -> bool:
    """Say whether a new connection is reset, during the handshake or right after it."""
    try:
        return await is_reset(await dial(proxy))
    except ConnectionError:
        return True


async def test_it_forwards_both_ways(proxy: FaultProxy, dial: Dial) -> None:
    streams = await greeted(await dial(proxy))
    assert await said_back(streams, b"ping") == b"ping"
    assert proxy.connections == 1
    streams[1].close()
    await eventually(lambda: proxy.connections == 0)


async def test_cut_resets_open_connections_and_serves_new_ones(
    proxy: FaultProxy, dial: Dial
) -> None:
    old = await greeted(await dial(proxy))
    await said_back(old, b"up")
    proxy.cut()
    assert await is_reset(old)
    assert await said_back(await greeted(await dial(proxy)), b"again") == b"again"


async def test_black_hole_holds_everything_until_it_heals(proxy: FaultProxy, dial: Dial) -> None:
    streams = await greeted(await dial(proxy))
    await said_back(streams, b"up")
    proxy.black_hole()
    answer = asyncio.create_task(said_back(streams, b"held"))
    done, _ = await asyncio.wait([answer], timeout=0.2)
    assert not done
    proxy.forward()
    assert await answer == b"held"


async def test_a_connection_in_the_black_hole_can_be_cut(proxy: FaultProxy, dial: Dial) -> None:
    proxy.black_hole()
    streams = await dial(proxy)
    await eventually(lambda: proxy.connections == 1)
    # Both directions have something to hold back now: this, and the server's greeting.
    streams[1].write(b"lost")
    proxy.cut()
    assert await is_reset(streams)
    await eventually(lambda: proxy.connections == 0)


async def test_refuse_turns_everybody_away_until_it_forwards_again(
    proxy: FaultProxy, dial: Dial
) -> None:
    old = await greeted(await dial(proxy))
    await said_back(old, b"up")
    proxy.refuse()
    assert await is_reset(old)
    assert await turns_away(dial, proxy)
    proxy.forward()
    assert await said_back(await greeted(await dial(proxy)), b"back") == b"back"


async def test_delay_lets_each_direction_wait(proxy: FaultProxy, dial: Dial) -> None:
    streams = await greeted(await dial(proxy))
    await said_back(streams, b"up")
    proxy.delay(timedelta(milliseconds=50))
    started = time.monotonic()
    await said_back(streams, b"slow")
    assert time.monotonic() - started >= 0.1


async def test_a_server_that_is_not_there_resets_the_client(dial: Dial) -> None:
    with FaultProxy("127.0.0.1", NOBODY) as nowhere:
        assert await turns_away(dial, nowhere)


async def test_stop_ends_connections_and_may_be_repeated(echo_port: int, dial: Dial) -> None:
    proxy = FaultProxy("127.0.0.1", echo_port)
    proxy.start()
    streams = await greeted(await dial(proxy))
    await said_back(streams, b"up")
    proxy.stop()
    proxy.stop()
    assert await is_reset(streams)


def test_a_stop_under_clients_that_keep_connecting_leaves_nothing_open() -> None:
    """Or a collection of garbage would find it in the middle of another test."""
    for _ in range(10):
        served = list[None]()
        with FaultProxy("127.0.0.1", NOBODY) as proxy, ThreadPoolExecutor(3) as clients:
            for _ in range(3):
                clients.submit(keep_connecting, proxy.port, served)
            eventually_sync(partial(has_fifty, served), what="clients")
            proxy.stop()
    gc.collect()


def has_fifty(served: list[None]) -> bool:
    return len(served) > 50


def keep_connecting(port: int, served: list[None]) -> None:
    """Connect until nobody listens any more."""
    with contextlib.suppress(ConnectionRefusedError):
        while True:
            with contextlib.suppress(ConnectionResetError, TimeoutError):
                socket.create_connection(("127.0.0.1", port), 1).close()
                served.append(None)
