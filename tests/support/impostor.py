"""Answers in place of a PostgreSQL server: what a real one says only when it is broken or old."""

import asyncio
import struct
from collections.abc import Awaitable, Callable

type Answer = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]
type Serve = Callable[[Answer], Awaitable[str]]


def message(kind: bytes, body: bytes) -> bytes:
    """Return a message of the wire protocol."""
    return kind + struct.pack("!I", len(body) + 4) + body


def refusing(sqlstate: str, text: str) -> Answer:
    """A server whose answer to every start is a fatal error."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1000)
        writer.write(fatal(sqlstate, text))
        await writer.drain()
        writer.close()

    return answer


def of_version(version: str, *, then: bytes = b"") -> Answer:
    """A server that lets everybody in, says how old it is and `then`, and waits for a word."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1000)
        writer.write(message(b"R", struct.pack("!I", 0)))
        for name, value in (
            ("server_version", version),
            ("server_encoding", "UTF8"),
            ("client_encoding", "UTF8"),
            ("standard_conforming_strings", "on"),
        ):
            writer.write(message(b"S", f"{name}\0{value}\0".encode()))
        writer.write(message(b"K", struct.pack("!II", 1, 1)))
        writer.write(message(b"Z", b"I") + then)
        await writer.drain()
        await reader.read(1000)
        writer.close()

    return answer


def fatal(sqlstate: str, text: str) -> bytes:
    """Return the message with which a server ends a session; then it says nothing more."""
    return message(b"E", f"SFATAL\0VFATAL\0C{sqlstate}\0M{text}\0\0".encode())
