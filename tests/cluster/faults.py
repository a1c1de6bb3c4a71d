"""Doing things to the parts of a running node, from any process of the test run."""

import json
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psutil

from cluster.errors import ClusterError

# Images are large, and the machine may have much to do.
ANSWER_SECONDS = 300.0


@dataclass(frozen=True, slots=True)
class Part:
    """A part of the node: `cluster.part("kube-apiserver")`.

    Every `with` block puts things right at its end. They are the whole run's: other tests of the
    run see the fault too.
    """

    name: str
    warden: "Warden"

    def start(self) -> None:
        """Start it. It is running, but perhaps not ready, when this returns."""
        self.warden.ask("start", part=self.name)

    def stop(self) -> None:
        """Ask it to end and wait for that."""
        self.warden.ask("stop", part=self.name)

    def kill(self) -> None:
        """Kill -9 it."""
        self.warden.ask("kill", part=self.name)

    def freeze(self) -> None:
        """Stop it where it is: connections stay open and nobody answers."""
        self.warden.ask("freeze", part=self.name)

    def thaw(self) -> None:
        """Let it go on."""
        self.warden.ask("thaw", part=self.name)

    @contextmanager
    def stopped(self) -> Iterator[None]:
        """Have it stopped for a while."""
        self.stop()
        try:
            yield
        finally:
            self.start()

    @contextmanager
    def frozen(self) -> Iterator[None]:
        """Have it frozen for a while."""
        self.freeze()
        try:
            yield
        finally:
            self.thaw()


@dataclass(frozen=True, slots=True)
class Warden:
    """The process that owns the node."""

    folder: Path

    def ask(self, what: str, *, part: str = "", path: str = "") -> None:
        """Have something done. Raises ClusterError with the reason when it cannot be."""
        with socket.socket(socket.AF_UNIX) as line:
            line.settimeout(ANSWER_SECONDS)
            line.connect(str(self.folder / "warden.sock"))
            line.sendall(json.dumps({"what": what, "part": part, "path": path}).encode() + b"\n")
            with line.makefile() as answer:
                heard = json.loads(answer.readline() or "{}")
        if "done" not in heard:
            raise ClusterError(f"{what} {part}{path}: {heard.get('failed', 'no answer')}")


def processes_of(pod: str) -> list[psutil.Process]:
    """Return the processes of a worker's pod; a container's are the machine's."""
    return [one for one in psutil.process_iter() if _variables(one).get("AWA_POD_NAME") == pod]


def _variables(process: psutil.Process) -> dict[str, str]:
    try:
        return process.environ()
    except (psutil.NoSuchProcess, psutil.AccessDenied):
        return {}
