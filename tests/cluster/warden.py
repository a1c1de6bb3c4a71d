"""Keeps one node: starts it, does to its parts what it is asked to, ends it when its owner is gone.

    python -m cluster.warden KUBERNETES_MINOR ALIVE_FILE VERDICT_FILE

The owner holds a lock on ALIVE_FILE, which the kernel releases when the owner ends, also by
kill -9. Prints one JSON line when the node is Ready, or why it is not. Answers requests on a Unix
socket, one JSON line each. At the end it writes what is left of the node on the machine to
VERDICT_FILE: a JSON list, which has to be empty.
"""

import contextlib
import fcntl
import json
import signal
import socketserver
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from cluster.builds import node_binaries
from cluster.errors import ClusterError
from cluster.node import Node
from cluster.place import taken_place

LOOK_SECONDS = 0.2


class _Server(socketserver.UnixStreamServer):
    """Requests one after another, in the main thread: parts die with the thread that made them."""

    timeout = LOOK_SECONDS
    node: Node
    ending = False

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that is gone is nobody's problem."""


class _Request(socketserver.StreamRequestHandler):
    server: _Server

    def handle(self) -> None:
        """Do what one line asks for and say how it went."""
        asked = json.loads(self.rfile.readline())
        try:
            answer = {"done": self._do(**asked)}
        except (ClusterError, OSError) as error:
            answer = {"failed": str(error)}
        self.wfile.write(json.dumps(answer).encode() + b"\n")

    def _do(self, what: str, part: str = "", path: str = "") -> object:
        node = self.server.node
        actions: dict[str, Callable[[], object]] = {
            "start": lambda: node.start_part(part),
            "stop": lambda: node.end_part(part),
            "kill": lambda: node.end_part(part, signal.SIGKILL),
            "freeze": lambda: node.freeze_part(part),
            "thaw": lambda: node.thaw_part(part),
            "cut": node.cut,
            "mend": node.mend,
            "load": lambda: node.load(Path(path)),
            "tag": lambda: node.tag(path, part),
            "end": lambda: setattr(self.server, "ending", True),
        }
        if what not in actions:
            raise ClusterError(f"cannot {what}")
        return actions[what]()


def main(minor: str, alive: Path, verdict: Path) -> int:
    """Keep a node until its owner is gone or asks for the end."""
    gone = threading.Event()
    for ignored in (signal.SIGINT, signal.SIGHUP):
        signal.signal(ignored, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, lambda *_: gone.set())
    threading.Thread(target=_wait_for_end, args=(alive, gone), daemon=True).start()
    programs = node_binaries(minor)
    with taken_place() as place:
        node = Node(place, programs)
        try:
            node.start()
            _serve(node, gone)
            return 0
        except ClusterError as error:
            _tell({"failed": str(error)})
            return 1
        finally:
            node.stop()
            # The owner's folder is gone when the owner was killed; nobody asks then.
            with contextlib.suppress(FileNotFoundError):
                verdict.write_text(json.dumps(place.leftovers()))


def _tell(answer: dict[str, object]) -> None:
    sys.stdout.write(json.dumps(answer) + "\n")
    sys.stdout.flush()


def _wait_for_end(alive: Path, gone: threading.Event) -> None:
    with alive.open() as file:
        fcntl.flock(file, fcntl.LOCK_SH)
    gone.set()


def _serve(node: Node, gone: threading.Event) -> None:
    address = node.place.folder / "warden.sock"
    with _Server(str(address), _Request) as server:
        server.node = node
        _tell({"ready": node.place.number})
        while not (server.ending or gone.is_set()):
            server.handle_request()
            node.take_note_of_ends()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3])))
