"""Levels over time: a database that is away, and as many changes as a day brings."""

import asyncio
import time

import psutil

from bench.kube.audit import now, requests
from bench.kube.figures import Figure
from bench.kube.scaling import POLL_SECONDS
from bench.kube.stage import Stage, seconds
from support.operating import Operator

REACHABLE = "DatabaseReachable"
SCALED = "s"
"""How the names of the Queues begin that `scaling` has made."""
LOOKS = 10
SETTLED = 0.2
"""The part of the changes after which memory is compared; until then it fills its caches."""


async def database_away(stage: Stage, length: float) -> list[Figure]:
    """Take the database away; look at what becomes of workers, and what follows its return."""
    names = [one["metadata"]["name"] for one in stage.site.list("queues.awa.dev")]
    count = sum(name.startswith(SCALED) for name in names)
    since, began = now(), time.monotonic()
    await asyncio.to_thread(stage.server.stop)
    await stage.until(
        lambda: stage.with_condition(REACHABLE, "False", SCALED) >= count, 60, "each says so"
    )
    said = time.monotonic() - began
    await asyncio.sleep(max(length - said, 0))
    written = [
        one
        for one in requests(stage.site, since)
        if one.is_operators and one.resource in {"deployments", "pods"} and one.writes
    ]
    await asyncio.to_thread(stage.server.start)
    back = time.monotonic()
    await stage.until(
        lambda: stage.with_condition(REACHABLE, "True", SCALED) >= count, 120, "each has it again"
    )
    again = time.monotonic() - back
    two_polls = 2.0 * POLL_SECONDS
    away = f"the database was away for {length:g} s"
    return [
        Figure(f"{away}: until each Queue says so", said, "s", two_polls, two_polls),
        Figure(f"{away}: writes to Deployments and pods", len(written), "", 0, 0),
        Figure(f"{away}: until each Queue has it again", again, "s", 30, POLL_SECONDS),
    ]


async def churn(
    stage: Stage, operator: Operator, count: int, rate: int, wanted: int
) -> list[Figure]:
    """Change specs for a long time; look at how memory grows once its caches are filled."""
    process, kube, memory = psutil.Process(operator.popen.pid), await stage.patching(), []
    began, first = time.monotonic(), int(now())
    for number in range(wanted):
        await stage.change(kube, f"q{number % count}", first + number)
        await asyncio.sleep(max((number + 1) / rate - (time.monotonic() - began), 0))
        if (number + 1) % max(wanted // LOOKS, 1) == 0:
            memory.append(process.memory_info().rss / 2**20)
    took = time.monotonic() - began
    await kube.close()
    await stage.until_answered(f"q{(wanted - 1) % count}", seconds(60))
    settled = memory[int(len(memory) * SETTLED)]
    return [
        Figure("changes, one after the other", wanted, ""),
        Figure("changes a second", wanted / took, ""),
        Figure("memory after them", memory[-1], "MiB"),
        Figure("growth of memory once settled", (memory[-1] / settled - 1) * 100, "%", 10, 1),
    ]
