"""`python -m bench.kube`: the operator's own levels on a real API server.

It runs as a local process with the chart's rights, so that its memory and processor time are seen.
Only the pods of `rollouts` become ready; the others have no image. Times between requests are those
of the API server's audit log. One JSON line for each figure, then a table with the levels that were
aimed at: good, and best.
"""

import argparse
import asyncio
import json
import sys
from collections.abc import AsyncIterator
from dataclasses import asdict
from functools import partial
from pathlib import Path

import awa_migrations
from bench.cluster import find_binaries
from bench.kube.endurance import churn, database_away
from bench.kube.faults import (
    deaf_databases,
    disconnects,
    namespace_deletion,
    restart_of_the_api_server,
)
from bench.kube.figures import Figure, table
from bench.kube.flow import changes, failover, grow, jobs, steady
from bench.kube.rollouts import rollouts
from bench.kube.scaling import sessions, wake_and_scale_up
from bench.kube.stage import Stage, stage


def main() -> int:
    """Measure and print; 0 whatever the levels say."""
    line = argparse.ArgumentParser(prog="python -m bench.kube", description=__doc__)
    line.add_argument("--queues", default="1,100,1000", help="how many Queues (1,100,1000)")
    line.add_argument("--seconds", type=float, default=60, help="length of a steady look (60)")
    line.add_argument("--rate", type=int, default=50, help="changes a second (50)")
    line.add_argument("--churn", type=int, default=5000, help="changes of a long run (5000)")
    line.add_argument("--away", type=float, default=60, help="seconds without a database (60)")
    line.add_argument("--postgres", help="folder of the PostgreSQL binaries")
    line.add_argument("--out", type=Path, help="append the JSON lines to this file too")
    args = line.parse_args()
    with stage(find_binaries(args.postgres)) as made:
        figures = asyncio.run(_print(made, args))
    print("\n".join(table(figures)))
    return 0


async def _print(made: Stage, args: argparse.Namespace) -> list[Figure]:
    figures = []
    async for figure in _measure(made, args):
        text = json.dumps({**asdict(figure), "verdict": figure.verdict})
        print(text, flush=True)
        if args.out is not None:
            with args.out.open("a") as out:
                out.write(text + "\n")
        figures.append(figure)
    return figures


async def _measure(made: Stage, args: argparse.Namespace) -> AsyncIterator[Figure]:
    await awa_migrations.migrate(made.dsn)
    await asyncio.to_thread(made.secret, "db", made.dsn)
    operator = await made.site.start(LOG_LEVEL="info").until_leads()
    there = 0
    for count in (int(one) for one in args.queues.split(",")):
        for figure in [
            *await grow(made, there, count),
            *await steady(operator, count, args.seconds),
        ]:
            yield figure
        there = count
    for step in (
        sessions,
        partial(changes, count=there, rate=args.rate),
        jobs,
        rollouts,
        wake_and_scale_up,
        partial(database_away, length=args.away),
        partial(churn, operator=operator, count=there, rate=args.rate, wanted=args.churn),
        partial(restart_of_the_api_server, operator=operator),
        partial(deaf_databases, count=there, rate=args.rate),
        partial(failover, leader=operator),
        disconnects,
        namespace_deletion,
    ):
        for figure in await step(made):
            yield figure


if __name__ == "__main__":
    sys.exit(main())
