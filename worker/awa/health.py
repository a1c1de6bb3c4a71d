"""Health and metrics of a supervisor's processes over HTTP.

`/healthz` answers 200 as long as the processes get on, and looks at no database: 503 only when an
event loop stands still, or a claim loop does while the database answers. A drain is no fault.
`/readyz` answers 200 when every process is registered, its services run and the schema fits, and
says in JSON what is missing. `/metrics` is the text format of Prometheus, one set of series however
many processes there are.
"""

import functools
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Self

from awa._runtime.condition import Condition, Stage
from awa._runtime.service import State
from awa._runtime.supervisor import Supervisor
from awa.errors import ValidationError
from awa.http_pages import Answer, HttpServer, Page
from awa.metrics import exposition
from awa.settings import WorkerSettings
from awa_migrations import packaged_catalog

DEFAULT_ADDRESS = "127.0.0.1:8321"
OFF = "off"
_WORST_FIRST = (State.stopped, State.failing, State.stalled, State.running)


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
        return Answer.of_json({"live": False, "reason": f"{what} makes no progress"}, ok=False)

    async def readyz(self) -> Answer:
        """Whether jobs run here as they should."""
        conditions = await self._supervisor.conditions()
        found = summary(conditions, shutting_down=self._supervisor.stopping)
        return Answer.of_json(found, ok=found["ready"])

    async def metrics(self) -> Answer:
        """Return what all processes have counted."""
        text = exposition(await self._supervisor.families())
        return Answer.of_metrics(text)


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
