"""`python -m bench.soak_kube`: the randomised proof on a cluster, while everything around fails.

The operator runs in its pod, from the chart. Prints what happens, a table of faults with the
longest time until a job began again, and one line for each promise.
"""

import argparse
import asyncio
import random
import signal
import sys
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

if TYPE_CHECKING:
    from support.kube_soak.run import Report


def main() -> int:
    """Run one soak, print its verdict, and return 1 when a promise was broken."""
    from cluster.demo.screen import Screen  # noqa: PLC0415 - found only now
    from cluster.demo.stage import set_up  # noqa: PLC0415
    from cluster.source import newest  # noqa: PLC0415
    from support.kube_soak.run import Plan, soak  # noqa: PLC0415

    line = argparse.ArgumentParser(prog="python -m bench.soak_kube", description=__doc__)
    line.add_argument("--minutes", type=float, default=10)
    line.add_argument("--seed", type=int, default=random.SystemRandom().randrange(10**6))
    line.add_argument("--rest", type=float, default=10, help="seconds between faults, on average")
    line.add_argument("--only", default="", help="kinds of faults, with commas between")
    line.add_argument("--folder", type=Path, help="keeps objects and the operator's log")
    line.add_argument("--kubernetes", default=newest(), metavar="MINOR")
    options = line.parse_args()
    only = tuple(filter(None, options.only.split(",")))
    plan = Plan(options.seed, options.minutes * 60, options.rest, options.folder, only)
    if plan.folder is not None:
        plan.folder.mkdir(parents=True, exist_ok=True)
    screen = Screen()
    screen.say(f"seed {plan.seed}")
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with set_up(screen, options.kubernetes) as stage:
        report = asyncio.run(soak(stage, plan, screen.say))
        print("\n".join(_lines(report)), flush=True)
    return 0 if report.verdict.holds else 1


def _lines(report: "Report") -> list[str]:
    counts = Counter(fault.kind for fault in report.faults)
    return [
        f"{report.jobs} jobs, {report.runs} runs, {report.rescued} jobs that ran again, "
        f"{report.migrations} migrations, {len(report.faults)} faults",
        *(
            f"{kind:<20} {count:>4}   longest until a job began: "
            f"{report.longest_gaps.get(kind, float('nan')):.1f} s"
            for kind, count in sorted(counts.items())
        ),
        f"{len(report.waits)} jobs were in hand of lost pods, and began again after "
        f"{max(report.waits, default=0):.1f} s at most",
        f"a changed spec was seen {max(report.observed, default=0):.1f} s after a fault of the "
        f"API server at most, of {len(report.observed)}",
        *report.verdict.lines(),
    ]


if __name__ == "__main__":
    sys.exit(main())
