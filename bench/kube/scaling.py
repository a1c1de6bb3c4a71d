"""Levels of scaling, and what the operator costs a database."""

import asyncio

import asyncpg

import awa
from bench.kube.audit import now, requests
from bench.kube.figures import Figure
from bench.kube.stage import Stage, seconds
from support.waiting import eventually

POLL_SECONDS = 5
TIMES = 5
NATIVE = {
    "mode": "Native", "minReplicas": 0, "maxReplicas": 20, "targetJobsPerReplica": 10,
    "pollIntervalSeconds": POLL_SECONDS, "cooldownSeconds": 3600,
}  # fmt: skip
ASLEEP = """
    select count(distinct objid) from pg_locks
     where locktype = 'advisory' and objsubid = 2 and objid > 1000000
       and mode = 'ShareLock' and granted
"""
"""The queues that a session sleeps on: see `sleep` in the operator's statements."""
SESSIONS = "select count(*) from pg_stat_activity where application_name like 'awa operator%'"


async def sessions(stage: Stage) -> list[Figure]:
    """Count the operator's sessions at the one database of all Queues."""
    session = await asyncpg.connect(stage.dsn)
    count = await session.fetchval(SESSIONS)
    await session.close()
    return [Figure("sessions for a database", count, "", 2, 1)]


async def wake_and_scale_up(stage: Stage) -> list[Figure]:
    """Enqueue for queues that sleep, then a backlog; look at the time until they are scaled."""
    names = [f"s{number}" for number in range(TIMES)]
    woken, raised = [], []
    async with awa.AsyncClient(stage.dsn) as client:
        for name in names:
            # The first job of all makes a queue known to its database; nothing tells of that one.
            job = await client.insert({}, kind="none", queue=name)
            await client.cancel(job.id)
        await asyncio.to_thread(stage.create, names, replicas=None, scaling=NATIVE)
        await _until_asleep(stage, len(names))
        for name in names:
            woken.append(await _until_scaled(stage, client, name, jobs=1))
            raised.append(await _until_scaled(stage, client, name, jobs=100))
    return [
        Figure("wake from zero, slowest", max(woken), "s", POLL_SECONDS + 2, 1.0),
        Figure("backlog to scale, slowest", max(raised), "s", POLL_SECONDS + 2, POLL_SECONDS + 0.5),
    ]


async def _until_asleep(stage: Stage, count: int) -> None:
    """Wait until the operator's session sleeps on so many queues: the next insert notifies it."""
    session = await asyncpg.connect(stage.dsn)

    async def sleeps() -> bool:
        found: int = await session.fetchval(ASLEEP)
        return found >= count

    try:
        await eventually(sleeps, seconds(60), what=f"{count} queues sleep")
    finally:
        await session.close()


async def _until_scaled(stage: Stage, client: awa.AsyncClient, name: str, *, jobs: int) -> float:
    """Enqueue; return the seconds until the operator asked for more replicas."""
    before, began = _replicas(stage, name), now()
    await client.insert_many([{}] * jobs, kind="none", queue=name)
    since = now()
    await stage.until(lambda: _replicas(stage, name) > before, 60, f"{name} is scaled")

    def scaled() -> list[float]:
        seen = requests(stage.site, began)
        return [one.at for one in seen if one.is_operators and one.name == f"{name}-worker"]

    at: list[float] = await stage.site.until(scaled, seconds(10), "the audit log tells of it")
    return max(at[0] - since, 0.0)


def _replicas(stage: Stage, name: str) -> int:
    found: int = stage.site.get("deployment", f"{name}-worker")["spec"]["replicas"]
    return found
