"""The commands that a driver understands, and everything of them that is not the queue's own.

A driver is a program with the commands `describe`, `setup`, `enqueue`, `produce`, `hold` and
`work`; docs/operations/benchmarks.md says what each does and prints. `serve` makes such a program
of a `Driver`.
"""

import argparse
import asyncio
import json
import mmap
import os
import random
import resource
import signal
import struct
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

Report = Callable[[int], None]

# What JSON needs around the number and the padding of a job.
ENVELOPE_BYTES = 24
_PROGRESS = struct.Struct("<Qdd")


class Driver(ABC):
    """What a queue has to be able to do. A job is `{"seq": number, "pad": "x…"}`."""

    @abstractmethod
    def describe(self) -> dict[str, str]:
        """Return `peer`, `version`, `store` and the queries that count jobs."""

    @abstractmethod
    async def setup(self) -> None:
        """Create the schema in an empty database."""

    @abstractmethod
    async def open_producer(self, connections: int) -> None:
        """Get ready to enqueue over at most that many connections at a time."""

    @abstractmethod
    async def close_producer(self) -> None:
        """Close what `open_producer` has opened."""

    @abstractmethod
    async def enqueue(self, jobs: range, pad: str, due: datetime | None) -> None:
        """Insert the jobs with one bulk call."""

    @abstractmethod
    async def insert(self, seq: int, pad: str) -> None:
        """Insert and commit one job."""

    @abstractmethod
    async def insert_held(self, seq: int, pad: str, hold: timedelta) -> None:
        """Insert one job in a transaction that stays open for `hold` before its commit."""

    @abstractmethod
    async def prepare(self, report: Report) -> None:
        """Do all that a worker does before it takes jobs; handlers call `report` first."""

    @abstractmethod
    async def work(self, stop: asyncio.Event) -> None:
        """Take jobs until `stop` is set, then shut down."""


def serve(
    driver: Driver, arguments: Sequence[str], loop_factory: Callable[[], asyncio.AbstractEventLoop]
) -> None:
    """Carry out the one command that the arguments ask for."""
    args = _parser().parse_args(arguments)
    if args.command == "describe":
        _print(driver.describe())
        return
    commands: dict[str, Callable[[], Coroutine[Any, Any, None]]] = {
        "setup": driver.setup,
        "enqueue": lambda: _enqueue(driver, args),
        "produce": lambda: _produce(driver, args),
        "hold": lambda: _hold(driver, args),
        "work": lambda: _work(driver),
    }
    with asyncio.Runner(loop_factory=loop_factory) as runner:
        runner.run(commands[args.command]())


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser()
    parser.add_argument(
        "command", choices=["describe", "setup", "enqueue", "produce", "hold", "work"]
    )
    for name, default in (("start", 0), ("count", 1000), ("batch", 1000), ("payload", 100)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--delay-min", type=float, default=0)
    parser.add_argument("--delay-max", type=float, default=0)
    parser.add_argument("--rate", type=float, default=200)
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--producers", type=int, default=1)
    parser.add_argument("--hold-ms", type=float, default=10)
    return parser


def _print(record: dict[str, Any]) -> None:
    print(json.dumps(record), flush=True)


def _padding(payload_bytes: int) -> str:
    return "x" * max(0, payload_bytes - ENVELOPE_BYTES)


def _cpu_seconds() -> float:
    spent = resource.getrusage(resource.RUSAGE_SELF)
    return spent.ru_utime + spent.ru_stime


async def _enqueue(driver: Driver, args: argparse.Namespace) -> None:
    await driver.open_producer(1)
    pad = _padding(args.payload)
    end = args.start + args.count
    cpu, began = _cpu_seconds(), time.time()
    for first in range(args.start, end, args.batch):
        jobs = range(first, min(first + args.batch, end))
        await driver.enqueue(jobs, pad, _due(args.delay_min, args.delay_max))
    said = {"jobs": args.count, "seconds": time.time() - began, "cpu": _cpu_seconds() - cpu}
    await driver.close_producer()
    _print(said)


def _due(least_seconds: float, most_seconds: float) -> datetime | None:
    if most_seconds <= 0:
        return None
    # Spreads a load; nothing is kept secret by it.
    delay = random.uniform(least_seconds, most_seconds)  # noqa: S311
    return datetime.now(UTC) + timedelta(seconds=delay)


async def _produce(driver: Driver, args: argparse.Namespace) -> None:
    """Open loop: each insert starts when it is due, whether or not the last one has ended."""
    await driver.open_producer(10)
    pad = _padding(args.payload)
    lines: list[str] = []

    async def insert(seq: int) -> None:
        called = time.time()
        await driver.insert(seq, pad)
        lines.append(f"{seq} {called:.6f} {time.time():.6f}\n")

    total = int(args.rate * args.seconds)
    async with asyncio.TaskGroup() as group:
        began = time.time()
        for seq in range(total):
            await asyncio.sleep(max(0.0, began + seq / args.rate - time.time()))
            group.create_task(insert(seq))
    await driver.close_producer()
    _report_path("sent").write_text("".join(lines))
    _print({"jobs": total})


async def _hold(driver: Driver, args: argparse.Namespace) -> None:
    """Let several producers commit one transaction after the other, each held open a while."""
    await driver.open_producer(args.producers)
    pad = _padding(args.payload)
    hold = timedelta(milliseconds=args.hold_ms)
    began = time.time()

    async def produce(numbers: Iterator[int]) -> int:
        committed = 0
        while time.time() - began < args.seconds:
            await driver.insert_held(next(numbers), pad, hold)
            committed += 1
        return committed

    numbers = iter(range(sys.maxsize))
    counts = await asyncio.gather(*(produce(numbers) for _ in range(args.producers)))
    said = {"jobs": sum(counts), "seconds": time.time() - began}
    await driver.close_producer()
    _print(said)


async def _work(driver: Driver) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    await driver.prepare(_reporter())
    print("PREPARED", flush=True)
    await asyncio.to_thread(sys.stdin.readline)
    await driver.work(stop)


def _report_path(kind: str) -> Path:
    return Path(os.environ["BENCH_RUN_DIR"]) / f"{kind}.{os.getpid()}"


def _reporter() -> Report:
    """Return what a handler calls first: it counts, and with BENCH_LATENCY=1 it logs the start."""
    count = _counter()
    if os.environ.get("BENCH_LATENCY") != "1":
        return lambda seq: count(time.time())
    # Open until the process ends; one unbuffered write for each start.
    log = _report_path("starts").open("ab", buffering=0)

    def report(seq: int) -> None:
        now = time.time()
        log.write(b"%d %.6f\n" % (seq, now))
        count(now)

    return report


def _counter() -> Callable[[float], None]:
    """Return a function that writes the number of calls, and the first and last time, for others.

    They go into a mapped file: another process reads them while the handlers run, for a fraction
    of a microsecond a job.
    """
    with _report_path("progress").open("w+b") as file:
        file.truncate(_PROGRESS.size)
        shown = mmap.mmap(file.fileno(), _PROGRESS.size)
    handled, first = 0, 0.0

    def count(now: float) -> None:
        nonlocal handled, first
        if not handled:
            first = now
        handled += 1
        _PROGRESS.pack_into(shown, 0, handled, first, now)

    return count
