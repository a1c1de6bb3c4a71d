"""Enough of PostgreSQL's wire protocol to say at which message a connection shall be cut.

Follows statements through simple queries and through Parse/Bind/Execute, so that a prepared
statement is recognised by its text each time it is executed. Encryption is declined.
"""

import struct
import threading
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import timedelta
from enum import Enum

from support.postgres import Server
from support.proxy import FaultProxy, Passage, Tap

SSL_REQUEST, GSS_REQUEST = 80877103, 80877104
# Server messages that answer an execution, as opposed to preparing it.
FIRST_ANSWERS = frozenset(b"DCEIsGHW")


type MakeProxy = Callable[[Server], "PostgresProxy"]


class When(Enum):
    """Where in the life of a statement the connection is cut."""

    BEFORE_SENT = "before the server sees it"
    BEFORE_ANSWER = "after the server has finished it, before the client hears anything of it"
    AFTER_FIRST_ANSWER = "after the client got the first message of the answer"


@dataclass
class CutPoint:
    """Cut at the `nth` execution of a statement that contains `text` (case-insensitively).

    Executions are counted over all connections from the moment of arming. It trips once;
    afterwards everything is forwarded. A `silent` one tells neither side: what either of them
    sends from then on is lost, and the connection stays open.
    """

    text: str
    when: When
    nth: int = 1
    silent: bool = False
    _seen: int = 0
    _tripped: threading.Event = field(default_factory=threading.Event)

    @property
    def tripped(self) -> bool:
        """Whether the cut has happened."""
        return self._tripped.is_set()

    def wait(self, limit: timedelta = timedelta(seconds=10)) -> None:
        """Return when the cut has happened; AssertionError at the limit."""
        if not self._tripped.wait(limit.total_seconds()):
            raise AssertionError(f"no cut {self.when.value}: {self.text!r} (seen {self._seen})")

    def wait_quietly(self, limit: timedelta) -> bool:
        """Return whether the cut has happened within a limit, for who can do without it."""
        return self._tripped.wait(limit.total_seconds())

    def counts(self, statement: str) -> bool:
        """Count an execution; True when it is the one to cut at."""
        if self.text.lower() not in statement.lower():
            return False
        self._seen += 1
        return self._seen == self.nth

    def trip(self) -> None:
        """Note that the cut has happened."""
        self._tripped.set()


class PostgresProxy(FaultProxy):
    """A fault proxy that can cut a connection at a chosen message."""

    _point: CutPoint | None = None

    def cut_at(self, text: str, when: When, *, nth: int = 1, silent: bool = False) -> CutPoint:
        """Arm a cut, replacing the one armed before; wait for it with the returned `wait`."""
        self._point = CutPoint(text, when, nth, silent)
        return self._point

    def make_tap(self) -> Tap:
        """Follow a new connection."""
        return PostgresTap(lambda: self._point)


class DeafProxy(FaultProxy):
    """A proxy that loses every notification, as a pooler in transaction mode does."""

    def make_tap(self) -> Tap:
        """Follow a new connection."""
        return _DeafTap(lambda: None)


class PostgresTap(Tap):
    """Follows one connection and says when the armed cut point is reached."""

    def __init__(self, armed: Callable[[], CutPoint | None]) -> None:
        self._armed = armed
        self._startup: bytes | None = b""
        self._client, self._server = Messages(), Messages()
        self._statements: dict[bytes, str] = {}
        self._portals: dict[bytes, str] = {}
        # Ready-for-query messages: owed by the server since the start, and seen so far.
        self._rounds_sent = self._rounds_done = 0
        self._awaited: CutPoint | None = None
        self._awaited_round = 0

    def from_client(self, data: bytes) -> Passage:
        """Forward whole messages up to one that must not reach the server."""
        out, reply = bytearray(), bytearray()
        if self._startup is not None:
            data = self._take_startup(data, out, reply)
        for message in self._client.feed(data):
            statement = self._executed(message)
            point = self._armed()
            if statement is not None and point is not None and point.counts(statement):
                if point.when is When.BEFORE_SENT:
                    return self._trip(point, Passage(bytes(out), bytes(reply), cut=True))
                self._awaited, self._awaited_round = point, self._rounds_sent
            if message[:1] in (b"Q", b"S", b"F"):
                self._rounds_sent += 1
            out += message
        return Passage(bytes(out), bytes(reply))

    def from_server(self, data: bytes) -> Passage:
        """Forward whole messages up to one that must not reach the client."""
        out = bytearray()
        for message in self._server.feed(data):
            is_round_end = message[:1] == b"Z"
            point = self._awaited
            if point is None or self._rounds_done != self._awaited_round:
                out += message
            elif point.when is When.AFTER_FIRST_ANSWER:
                out += message
                if message[0] in FIRST_ANSWERS:
                    return self._trip(point, Passage(bytes(out), cut=True))
            elif is_round_end:
                return self._trip(point, Passage(bytes(out), cut=True))
            self._rounds_done += is_round_end
        return Passage(bytes(out))

    def _trip(self, point: CutPoint, passage: Passage) -> Passage:
        """Cut, or fall silent, with what passes before."""
        self.is_silent = point.silent
        point.trip()
        return replace(passage, cut=not point.silent)

    def _take_startup(self, data: bytes, out: bytearray, reply: bytearray) -> bytes:
        """Handle the untyped messages before the session; return what follows them."""
        rest = (self._startup or b"") + data
        while len(rest) >= 8:
            length, code = struct.unpack_from("!II", rest)
            if len(rest) < length:
                break
            message, rest = rest[:length], rest[length:]
            if code in (SSL_REQUEST, GSS_REQUEST):
                reply += b"N"
            else:
                out += message
                self._startup = None
                # The session opens with a ready-for-query that no request asks for.
                self._rounds_sent = 1
                return rest
        self._startup = rest
        return b""

    def _executed(self, message: bytes) -> str | None:
        """Return the text of the statement that this client message executes, if it does."""
        kind, body = message[:1], message[5:]
        if kind == b"Q":
            return body[:-1].decode(errors="replace")
        if kind == b"P":
            name, query, _ = body.split(b"\0", 2)
            self._statements[name] = query.decode(errors="replace")
        elif kind == b"B":
            portal, name, _ = body.split(b"\0", 2)
            self._portals[portal] = self._statements.get(name, "")
        elif kind == b"E":
            return self._portals.get(body.split(b"\0", 1)[0], "")
        return None


class _DeafTap(PostgresTap):
    def from_server(self, data: bytes) -> Passage:
        """Leave out what the session listens for."""
        kept = [message for message in self._server.feed(data) if message[:1] != b"A"]
        return Passage(b"".join(kept))


class Messages:
    """Splits a byte stream into whole typed messages."""

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, data: bytes) -> list[bytes]:
        """Return the messages that `data` completes, with their type and length bytes."""
        stream, start = self._rest + data, 0
        messages = []
        while len(stream) - start >= 5:
            end = start + 1 + struct.unpack_from("!I", stream, start + 1)[0]
            if len(stream) < end:
                break
            messages.append(stream[start:end])
            start = end
        self._rest = stream[start:]
        return messages
