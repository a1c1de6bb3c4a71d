"""`python -m bench.poll`: what the operator's look at a database costs, by how much there is.

One JSON line for each case: some hundred looks of one session, as the operator takes them, at a
database of its own. `cpu_ms` is the processor time that the server spends on the statement for
signals, which does not depend on what else the machine does; `server_ms` is how long it takes there
by the clock; `look_ms` is everything that the operator waits for in one look.
"""

import argparse
import asyncio
import json
import os
import statistics
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import asyncpg

import awa_migrations
from awa import AsyncClient
from awa_operator.database import Session
from awa_operator.dsn import Dsn
from bench.cluster import Cluster, find_binaries, running_cluster

LEAD = timedelta(seconds=10)
BATCH = 20_000
REGISTER = "select awa.register_worker_v1('b', '0', 'h', 1, '{q0}', '{k}', '1h', 'o', $1, $1)"
CLAIM = "select count(*) from awa.claim_v1($1, $2, array[$3], array[$4::int], '{0}', '{60}', '{k}')"
SIGNALS = "explain (analyze, timing off, format json) select * from awa.signals_v1($1, '10 s')"
SCANNED = (
    "select coalesce(sum(seq_tup_read), 0)::bigint from pg_stat_user_tables"
    " where relname ~ '_\\d\\d$' or relname in ('deferred_jobs', 'done_entries')"
)


@dataclass(frozen=True, slots=True)
class Case:
    """What a database holds: queues asked for, jobs of each state, workers, claims in hand.

    `closed` says that all those claims have been completed since the workers' last heartbeats.
    """

    name: str
    queues: int = 1
    ready: int = 0
    later: int = 0
    workers: int = 0
    claims: int = 0
    closed: bool = False


CASES = (
    Case("empty"),
    Case("1M ready", ready=1_000_000),
    Case("1M later", later=1_000_000),
    Case("1M ready, 100 queues", queues=100, ready=1_000_000),
    Case("100 workers, 100 claims", ready=100_000, workers=100, claims=100),
    Case("10 workers, 5,000 claims", ready=100_000, workers=10, claims=5_000),
    Case("10 workers, 5,000 closed", ready=100_000, workers=10, claims=5_000, closed=True),
)


@asynccontextmanager
async def _filled(cluster: Cluster, case: Case) -> AsyncIterator[asyncpg.Connection]:
    name = "poll_bench"
    control = await asyncpg.connect(cluster.dsn("postgres"))
    await control.execute(f"create database {name}")
    await awa_migrations.migrate(cluster.dsn(name), schema="awa")
    admin = await asyncpg.connect(cluster.dsn(name), command_timeout=300)
    async with AsyncClient(cluster.dsn(name), 2) as client:
        for at in range(0, max(case.ready, 1), BATCH):
            queue = f"q{at // BATCH % case.queues}"
            count = min(BATCH, case.ready - at)
            await client.insert_many([{"n": n} for n in range(count)], kind="k", queue=queue)
        for _ in range(0, case.later, BATCH):
            await admin.execute(
                "insert into awa.deferred_jobs (job_id, run_at, created_at, lane_id, attempt,"
                " max_attempts, state, reason, kind, args) select nextval('awa.deferred_id') * 1024"
                " + 1023, now() + interval '1 hour' * (1 + random()), now(), lane, 0, 25,"
                " 'scheduled', 'scheduled', 'k', '{}' from generate_series(1, $1::int) n,"
                " awa.register_lane_v1('q0', 2::smallint) lane", BATCH,
            )  # fmt: skip
    workers = [await admin.fetchval(REGISTER, f"pod-{n}") for n in range(case.workers)]
    for number in range(case.claims):
        worker = workers[number % len(workers)]
        await admin.fetchval(CLAIM, worker, number + 1, "q0", 10)
    if case.closed:
        await admin.execute(
            "insert into awa.receipt_completion_batches select claim_id, claimed_at, now(),"
            " lane_id, 10, slot, items from awa.claim_batches"
        )
    await admin.execute("vacuum analyze")
    try:
        yield admin
    finally:
        await admin.close()
        await control.execute(f"drop database {name}")
        await control.close()


async def _measure(cluster: Cluster, case: Case, looks: int) -> dict[str, object]:
    async with _filled(cluster, case) as admin:
        queues = [f"q{n}" for n in range(case.queues)]
        session = await Session.open(Dsn(cluster.dsn("poll_bench")), "awa")
        before = await admin.fetchval(SCANNED)
        took, server = [], []
        for _ in range(looks):
            began = time.perf_counter()
            await session.probe()
            await session.signals(queues, LEAD)
            await session.workers(["o"])
            took.append(1000 * (time.perf_counter() - began))
            (row,) = json.loads(await admin.fetchval(SIGNALS, queues))
            server.append(row["Execution Time"])
        cpu = await _cpu_ms(admin, queues, looks)
        await admin.execute("select pg_stat_clear_snapshot()")
        found = await session.signals(queues, LEAD)
        session.close()
        return {
            "case": case.name,
            "ready": sum(one.ready for one in found.values()),
            "running": sum(one.running for one in found.values()),
            "cpu_ms": round(cpu, 2),
            "server_ms": _spread(server),
            "look_ms": _spread(took),
            "rows_of_whole_scans": await admin.fetchval(SCANNED) - before,
        }


async def _cpu_ms(admin: asyncpg.Connection, queues: list[str], looks: int) -> float:
    """Return the processor time of the server for one statement, over many."""
    process = Path(f"/proc/{admin.get_server_pid()}/stat")

    def used() -> float:
        fields = process.read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    before = used()
    for _ in range(looks):
        await admin.fetch("select * from awa.signals_v1($1, '10 s')", queues)
    return 1000 * (used() - before) / looks


def _spread(values: list[float]) -> dict[str, float]:
    cuts = statistics.quantiles(values, n=100)
    return {"p50": round(statistics.median(values), 2), "p99": round(cuts[98], 2)}


async def _run(options: argparse.Namespace) -> None:
    async with running_cluster(find_binaries(options.postgres), options.tmp) as cluster:
        for case in CASES:
            if options.only in case.name:
                print(json.dumps(await _measure(cluster, case, options.looks)), flush=True)


def main() -> int:
    """Measure every case and print it."""
    parser = argparse.ArgumentParser(prog="python -m bench.poll", description=__doc__)
    parser.add_argument("--looks", type=int, default=500, help="at each database (default: 500)")
    parser.add_argument("--only", default="", help="cases whose name contains this")
    parser.add_argument("--postgres", help="folder of the server's programs")
    parser.add_argument("--tmp", type=Path, help="where the server's folder goes")
    asyncio.run(_run(parser.parse_args()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
