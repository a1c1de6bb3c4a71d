"""How the workers of one queue are started: command, folder, environment."""

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path

from awa.manifest import LocalView

AWA = "awa"
HEALTH_ADDRESS = "AWA_HEALTH_ADDRESS"
HOST = "127.0.0.1"


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """The workers of one queue: each is the same command, with a state folder of its own."""

    queue: str
    command: tuple[str, ...]
    folder: Path
    """Where they run: the manifest's folder, so that handlers beside it can be imported."""
    state: Path
    environment: Mapping[str, str] = field(repr=False)
    serves_pages: bool
    """Whether each worker serves its metrics on a port of its own."""
    drain_timeout: timedelta

    @classmethod
    def of(cls, view: LocalView, folder: Path, state: Path, *, serves_pages: bool) -> "Launch":
        """Return how the workers of a manifest in `folder` are started.

        A manifest that says itself where its workers serve their pages is left in peace.
        """
        return cls(
            queue=view.queue_name,
            command=_resolved(view.command),
            folder=folder,
            state=state,
            environment=_environment(view.environment),
            serves_pages=serves_pages and HEALTH_ADDRESS not in view.environment,
            drain_timeout=view.drain_timeout,
        )

    def state_of(self, number: int) -> Path:
        """Return where the worker of a number keeps what its successor must know."""
        return self.state / str(number)

    def environment_of(self, number: int, port: int | None) -> dict[str, str]:
        """Return the whole environment of the worker of a number; `port` is that of its pages."""
        pages = {} if port is None else {HEALTH_ADDRESS: f"{HOST}:{port}"}
        return {
            **self.environment,
            **pages,
            "AWA_STATE_FOLDER": str(self.state_of(number)),
            "AWA_WORKER_NAME": f"{self.queue}-{number}",
        }


def _resolved(command: tuple[str, ...]) -> tuple[str, ...]:
    """Let `awa` be this very one, wherever it is installed."""
    if command[0] == AWA:
        return (sys.executable, "-P", "-m", AWA, *command[1:])
    return command


def _environment(own: Mapping[str, str]) -> dict[str, str]:
    """Put the manifest's variables over those of this process, and ours below both.

    Programs of this Python environment come first on the path, as if it had been activated.
    """
    path = os.environ.get("PATH", os.defpath)
    return {
        # Many workers share this machine's ports, so they serve no pages unless told to.
        HEALTH_ADDRESS: "off",
        "AWA_LOG_FORMAT": "text",
        "PYTHONUNBUFFERED": "1",
        **os.environ,
        "PATH": os.pathsep.join((str(Path(sys.executable).parent), path)),
        **own,
    }
