"""`python -m bench.soak`: the randomised proof of the queue, by minutes or by jobs."""

import argparse
import asyncio
import random
import sys
import tempfile
from pathlib import Path

from bench.cluster import find_binaries


def main() -> int:
    """Run one soak, print its verdict, and return 1 when a promise was broken."""
    parser = argparse.ArgumentParser(prog="python -m bench.soak", description=__doc__)
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--jobs", type=int, default=10**9, help="stop producing after so many")
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(10**6))
    parser.add_argument("--workers", type=int, default=3)
    parser.add_argument("--producers", type=int, default=2)
    parser.add_argument("--fault-every", type=float, default=2.0, help="seconds, on average")
    parser.add_argument("--rate", type=float, default=500.0, help="jobs a second to aim at")
    parser.add_argument("--only", default="", help="kinds of faults, with commas between")
    parser.add_argument("--folder", type=Path, help="keeps journals and logs")
    parser.add_argument("--postgres", help="folder of the server's programs")
    options = parser.parse_args()
    sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
    from support.soak.run import Plan, soak  # noqa: PLC0415 - found only now

    folder = options.folder or Path(tempfile.mkdtemp(prefix="awa-soak-"))
    folder.mkdir(parents=True, exist_ok=True)
    plan = Plan(
        options.seed, options.minutes * 60, options.jobs, options.workers, options.producers,
        options.fault_every, options.rate,
        tuple(filter(None, options.only.split(","))),
    )  # fmt: skip
    print(f"seed {plan.seed}, journals in {folder}", flush=True)
    verdict = asyncio.run(soak(plan, folder, find_binaries(options.postgres)))
    print((folder / "verdict.txt").read_text())
    print(f"the same as JSON, with all faults: {folder / 'verdict.json'}")
    return 1 if verdict["broken"] else 0


if __name__ == "__main__":
    sys.exit(main())
