"""Our driver: the queue of this repository, through its public API alone."""

import asyncio
import importlib.metadata
import json
import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cached_property
from typing import Any

import uvloop

import awa
from bench.contract import Driver, Report, serve

QUEUE = "bench"


@dataclass(frozen=True, slots=True)
class Noop:
    """A job that has nothing to do."""

    seq: int
    pad: str


class AwaDriver(Driver):
    """Settings: `max_connections`, `queue` (settings of the queue) and `start` (of the worker)."""

    def __init__(self, dsn: str, settings: Mapping[str, Any]) -> None:
        self._dsn = dsn
        self._settings = settings
        self._connections = settings.get("max_connections", 10)

    @cached_property
    def _client(self) -> awa.AsyncClient:
        return awa.AsyncClient(self._dsn, max_connections=self._connections)

    def describe(self) -> dict[str, str]:
        return {
            "peer": "awa",
            "version": importlib.metadata.version("awa-worker"),
            "store": "postgres",
            # What is in the ring, and what pruning has taken out of it meanwhile.
            "done_sql": "select (select coalesce(sum(completed_count), 0)::bigint"
            " from awa.receipt_completion_batches)"
            " + (select coalesce(sum(removed), 0)::bigint"
            " from awa.lane_totals where state = 'completed')",
            "stored_sql": "select count(*) from awa.ready_entries",
        }

    async def setup(self) -> None:
        async with self._client as client:
            await client.migrate()

    async def open_producer(self, connections: int) -> None:
        self._connections = max(connections, self._connections)
        await self._client.require_schema()

    async def close_producer(self) -> None:
        await self._client.close()

    async def enqueue(self, jobs: range, pad: str, due: datetime | None) -> None:
        await self._client.enqueue_many_copy(
            [Noop(seq, pad) for seq in jobs], queue=QUEUE, run_at=due
        )

    async def insert(self, seq: int, pad: str) -> None:
        await self._client.insert(Noop(seq, pad), queue=QUEUE)

    async def insert_held(self, seq: int, pad: str, hold: timedelta) -> None:
        async with self._client.transaction() as transaction:
            await transaction.insert(Noop(seq, pad), queue=QUEUE)
            await asyncio.sleep(hold.total_seconds())

    async def prepare(self, report: Report) -> None:
        await self._client.require_schema()

        @self._client.task(Noop, queue=QUEUE)
        async def noop(job: awa.Job[Noop]) -> None:
            report(job.args.seq)

    async def work(self, stop: asyncio.Event) -> None:
        queue = {"name": QUEUE, **self._settings.get("queue", {})}
        await self._client.start([queue], **self._settings.get("start", {}))
        await stop.wait()
        await self._client.shutdown(timeout_ms=10_000)
        await self._client.close()


def main() -> None:
    """Serve one command of the benchmark."""
    settings = json.loads(os.environ.get("BENCH_OPTS") or "{}")
    driver = AwaDriver(os.environ.get("BENCH_DSN", ""), settings)
    serve(driver, sys.argv[1:], uvloop.new_event_loop)


if __name__ == "__main__":
    main()
