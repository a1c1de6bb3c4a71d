"""Levels while all is well: many Queues, their rest, their changes, their Jobs, a new leader."""

import asyncio
import time

import psutil

from bench.kube.audit import gaps, now, requests
from bench.kube.figures import Figure, percentiles
from bench.kube.stage import Stage, seconds
from support.operating import Operator
from support.waiting import eventually

JOB = {"mode": "Job", "command": ["migrate"], "image": "awa.test/none:1"}
MEMORY = {1: (110, 85), 100: (125, 90), 1000: (250, 130)}
CHANGE_LEVELS = (1.0, 0.25)
CHANGING_SECONDS = 10


async def grow(stage: Stage, there: int, count: int) -> list[Figure]:
    """Create Queues until there are `count`, and wait until each is ready."""
    began = time.monotonic()
    await asyncio.to_thread(stage.create, [f"q{number}" for number in range(there, count)])
    await stage.until(lambda: stage.with_condition("Ready", "True") >= count, 300, "each is ready")
    return [Figure(f"{count} Queues ready", time.monotonic() - began, "s", 60 if there else None)]


async def steady(operator: Operator, count: int, length: float) -> list[Figure]:
    """Look at memory, requests and processor time while nothing happens."""
    await eventually(
        lambda: operator.metric("awa_operator_workqueue_depth") == 0,
        seconds(60), what="nothing is in line",
    )  # fmt: skip
    process = psutil.Process(operator.popen.pid)
    counter = "awa_operator_api_requests_total"
    before, cpu = operator.metric(counter), process.cpu_times()
    await asyncio.sleep(length)
    spent = process.cpu_times()
    used = (spent.user + spent.system) - (cpu.user + cpu.system)
    memory = MEMORY.get(count, (None, None))
    made = (operator.metric(counter) - before) * 60 / length
    return [
        Figure(f"RSS at {count}", process.memory_info().rss / 2**20, "MiB", *memory),
        Figure(f"requests in a minute at {count}", made, "", 10 + 0.1 * count, 8),
        Figure(f"processor at {count}", used / length * 100, "% of a core", 5, 1),
    ]


async def changes(
    stage: Stage, count: int, rate: int, name: str = "change to status"
) -> list[Figure]:
    """Change specs at a rate; look at the time from each change to the status that answers it."""
    kube, since = await stage.patching(), now()
    for second in range(CHANGING_SECONDS):
        began = time.monotonic()
        for number in range(rate):
            at = second * rate + number
            await stage.change(kube, f"q{at % count}", int(since) + at)
            await asyncio.sleep(max((number + 1) / rate - (time.monotonic() - began), 0))
    await kube.close()

    def answered() -> list[float]:
        seen = requests(stage.site, since)
        changed = [one for one in seen if one.does("patch", "queues") and "bench" in one.uri]
        answers = [one for one in seen if one.does("patch", "queues", "status")]
        found = list(gaps(changed, answers))
        return found if len(found) == CHANGING_SECONDS * rate else []

    took = await stage.site.until(answered, seconds(60), "each change is answered")
    return percentiles(name, took, CHANGE_LEVELS)


async def jobs(stage: Stage) -> list[Figure]:
    """Create Queues on databases of their own; look at the time until their Jobs are created."""
    since, names = now(), [f"m{number}" for number in range(20)]
    for name in names:
        await asyncio.to_thread(stage.secret, name, stage.dsn)
    for name in names:
        database = {"connectionSecretRef": {"name": name}}
        await asyncio.to_thread(stage.create, [name], migration=JOB, database=database)
    await stage.until(lambda: len(stage.site.list("jobs")) >= len(names), 60, "each has its Job")
    owners = {
        job["metadata"]["name"]: job["metadata"]["ownerReferences"][0]["name"]
        for job in stage.site.list("jobs")
    }

    def logged() -> list[float]:
        seen = requests(stage.site, since)
        made = {owners.get(one.name): one.at for one in seen if one.does("create", "jobs")}
        if not made.keys() >= set(names):
            return []
        return [made[one.name] - one.at for one in seen if one.does("create", "queues")]

    took = await stage.site.until(logged, seconds(10), "the audit log tells of each Job")
    return percentiles("Queue to Job", took, (2.0, 0.5))


async def failover(stage: Stage, leader: Operator) -> list[Figure]:
    """Kill the leader, and end the next one; look at the time until another acts."""
    figures = []
    standby = await stage.site.start(LOG_LEVEL="info").until_ready()
    for how, good, best in (("kill -9", 30.0, 17.0), ("SIGTERM", 5.0, 2.0)):
        began = time.monotonic()
        if how == "kill -9":
            leader.kill()
        else:
            await asyncio.to_thread(leader.stop)
        await standby.until_leads()
        figures.append(Figure(f"failover after {how}", time.monotonic() - began, "s", good, best))
        leader = standby
        standby = await stage.site.start(LOG_LEVEL="info").until_ready()
    return figures
