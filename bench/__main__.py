"""`python -m bench`: measure, print one JSON line for each run, then the tables."""

import argparse
import asyncio
import json
import os
import platform
import signal
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TextIO

import asyncpg

from bench.awa_contender import ours
from bench.cluster import Cluster, NoServerError, find_binaries, running_cluster
from bench.contender import Contender, DriverError
from bench.gates import judge
from bench.graphile import NoBaselineError, baseline
from bench.record import Sample
from bench.run import Failure, Plan, carry_out
from bench.scenario import SCENARIOS, Sizes
from bench.table import tables

CONTENDERS = ("awa", "graphile")


def parser() -> argparse.ArgumentParser:
    """Return the command line; docs/operations/benchmarks.md explains it."""
    sizes = Sizes()
    line = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    line.add_argument(
        "scenarios",
        nargs="*",
        metavar="SCENARIO",
        help=f"any of {', '.join(SCENARIOS)} (default: all)",
    )
    line.add_argument("--reps", type=int, default=5, help="repetitions of each run (5)")
    line.add_argument("--contenders", default=",".join(CONTENDERS), help="comma-separated")
    line.add_argument("--jobs", type=int, default=sizes.jobs, help="jobs of a drain")
    line.add_argument("--pinned-jobs", type=int, default=sizes.pinned_jobs)
    line.add_argument("--future-jobs", type=int, default=sizes.future_jobs)
    line.add_argument("--rate", type=int, default=sizes.rate, help="inserts a second (latency)")
    line.add_argument("--seconds", type=float, default=sizes.seconds, help="length of latency")
    line.add_argument(
        "--quiet-wait", type=float, default=0, help="seconds to wait for a quiet machine"
    )
    line.add_argument("--postgres", help="folder of the PostgreSQL binaries")
    line.add_argument("--tmp", type=Path, help="where the server keeps its data meanwhile")
    line.add_argument("--out", type=Path, help="append the JSON lines to this file too")
    return line


def main() -> int:
    """Run the benchmark; 0 when every run gave figures, whatever the gates say."""
    line = parser()
    args = line.parse_args()
    if unknown := set(args.scenarios) - set(SCENARIOS):
        line.error(f"no such scenario: {', '.join(sorted(unknown))}")
    if unknown := set(args.contenders.split(",")) - set(CONTENDERS):
        line.error(f"no such contender: {', '.join(sorted(unknown))}")
    try:
        return asyncio.run(_interruptible(args))
    except (NoServerError, NoBaselineError, DriverError) as problem:
        print(problem, file=sys.stderr)
        return 1
    except (KeyboardInterrupt, asyncio.CancelledError):
        print("interrupted", file=sys.stderr)
        return 130


async def _interruptible(args: argparse.Namespace) -> int:
    """Make a termination signal end the server and the drivers as Ctrl-C does."""
    task = asyncio.current_task()
    if task is not None:
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    return await _measure(args)


async def _measure(args: argparse.Namespace) -> int:
    plan = Plan(
        scenarios=tuple(args.scenarios) or tuple(SCENARIOS),
        contenders=tuple([await _contender(name) for name in args.contenders.split(",")]),
        repetitions=args.reps,
        sizes=Sizes(
            jobs=args.jobs,
            pinned_jobs=args.pinned_jobs,
            future_jobs=args.future_jobs,
            rate=args.rate,
            seconds=args.seconds,
        ),
        quiet_wait_seconds=args.quiet_wait,
    )
    with ExitStack() as stack:
        out = stack.enter_context(args.out.open("a")) if args.out else None
        async with running_cluster(find_binaries(args.postgres), args.tmp) as cluster:
            samples, failures = await _report_runs(plan, cluster, out)
        for verdict in judge(samples):
            _emit(verdict.as_json(), out)
    print("\n".join(tables(samples)))
    return 1 if failures else 0


async def _contender(name: str) -> Contender:
    return ours() if name == "awa" else await baseline()


async def _report_runs(
    plan: Plan, cluster: Cluster, out: TextIO | None
) -> tuple[Sequence[Sample], Sequence[Failure]]:
    samples: list[Sample] = []
    failures: list[Failure] = []
    _emit(await _machine(cluster), out)
    async for result in carry_out(plan, cluster):
        _emit(result.as_json(), out)
        if isinstance(result, Failure):
            failures.append(result)
        else:
            samples.append(result)
    return samples, failures


async def _machine(cluster: Cluster) -> dict[str, object]:
    """Describe what the figures depend on, without naming the machine."""
    connection = await asyncpg.connect(cluster.dsn("postgres"))
    try:
        version = await connection.fetchval("show server_version")
    finally:
        await connection.close()
    return {
        "record": "machine",
        "cores": os.cpu_count(),
        "python": platform.python_version(),
        "postgres": version,
        "platform": f"{platform.system()} {platform.machine()}",
    }


def _emit(record: dict[str, object], out: TextIO | None) -> None:
    line = json.dumps(record, ensure_ascii=False)
    print(line, flush=True)
    if out is not None:
        print(line, file=out, flush=True)


if __name__ == "__main__":
    sys.exit(main())
