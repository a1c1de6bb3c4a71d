"""What a run serves over HTTP: the metrics of all its workers as one, and whether all is well."""

import asyncio
import os
from collections.abc import Sequence

from awa._fleet.fleet import Fleet
from awa._fleet.launch import HOST
from awa._fleet.replica import Replica
from awa._runtime.totals import Totals
from awa.errors import ValidationError
from awa.health import Address
from awa.http_pages import Answer, HttpServer
from awa.metrics import Family, FleetMetrics, exposition, families, families_of_text

LOOK_SECONDS = 2.0
"""How often workers are asked, so that what one counted is known when it has ended."""
ASK_SECONDS = 1.5
LONGEST_ANSWER = 16 * 1024 * 1024


class PagesUnavailable(ValidationError):
    """The address for metrics cannot be listened on."""


class Pages:
    """The pages of one run; `address` is `host:port`, port 0 for a free one."""

    def __init__(self, address: str) -> None:
        self._wanted = Address.parse(address, "--metrics-address")
        self._fleets: Sequence[Fleet] = ()
        self._totals = Totals()
        self._own = FleetMetrics()
        self._asking: asyncio.Task[None] | None = None
        self._server = HttpServer(
            {"/healthz": self._healthz, "/readyz": self._readyz, "/metrics": self._metrics}
        )

    async def start(self) -> Address:
        """Listen, and return where. Raises PagesUnavailable."""
        try:
            return Address(*await self._server.start(self._wanted.host, self._wanted.port))
        except OSError as error:
            raise PagesUnavailable(
                f"cannot listen on {self._wanted.host}:{self._wanted.port} "
                f"({os.strerror(error.errno or 0)}); "
                "give another --metrics-address"
            ) from None

    def watch(self, fleets: Sequence[Fleet]) -> None:
        """Ask the workers of these fleets from now on."""
        self._fleets = fleets
        self._asking = asyncio.create_task(self._keep_asking(), name="awa pages")

    def retire(self, replica: Replica) -> None:
        """Keep what a worker that has ended counted."""
        self._totals.retire(replica)

    async def close(self) -> None:
        """Serve no more."""
        if self._asking is not None:
            self._asking.cancel()
        self._server.close()

    async def _healthz(self) -> Answer:
        return Answer.of_json({"live": True})

    async def _readyz(self) -> Answer:
        queues = {
            fleet.launch.queue: {"wanted": fleet.wanted, "ready": fleet.ready}
            for fleet in self._fleets
        }
        ready = bool(queues) and all(f.ready >= f.wanted for f in self._fleets)
        return Answer.of_json({"ready": ready, "queues": queues}, ok=ready)

    async def _metrics(self) -> Answer:
        await self._ask_all()
        for fleet in self._fleets:
            key = (fleet.launch.queue,)
            self._own.wanted[key] = float(fleet.wanted)
            self._own.ready[key] = float(fleet.ready)
            self._own.restarts[key] = fleet.restarts
        text = exposition([*self._totals.families(), *families(self._own)])
        return Answer.of_metrics(text)

    async def _keep_asking(self) -> None:
        while True:
            await self._ask_all()
            await asyncio.sleep(LOOK_SECONDS)

    async def _ask_all(self) -> None:
        await asyncio.gather(*(self._ask(one) for fleet in self._fleets for one in fleet.replicas))

    async def _ask(self, replica: Replica) -> None:
        if replica.port is None:
            return
        found = await _metrics_of(replica.port)
        if found is not None and not replica.ended.done():
            self._totals.report(replica, found)


async def _metrics_of(port: int) -> list[Family] | None:
    """Return what a worker has counted, None when it does not answer."""
    try:
        async with asyncio.timeout(ASK_SECONDS):
            reader, writer = await asyncio.open_connection(HOST, port, limit=LONGEST_ANSWER)
            try:
                writer.write(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n")
                head, _, body = (await reader.read(LONGEST_ANSWER)).partition(b"\r\n\r\n")
                while more := await reader.read(LONGEST_ANSWER):
                    body += more
            finally:
                writer.close()
            return families_of_text(body.decode()) if b" 200 " in head.splitlines()[0] else None
    except (OSError, TimeoutError, ValueError, IndexError):
        return None
