"""C29: pods that are stopped lose no job, and busy ones are not chosen."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from datetime import timedelta
from typing import Any

import pytest

import awa
from cluster.databases import KubeDatabase
from support.definitions import queue_definition
from support.holding import HOLD, Gates, Hold, has_ended
from support.operating import Site, site, took
from support.postgres import Connect
from support.stories import LIMIT, WORKERS, apply, image, pods, until_ready
from support.waiting import eventually

__all__ = ["apply", "image", "queue_definition", "site"]

pytestmark = [pytest.mark.timeout(420), pytest.mark.kubernetes]

IMPORT_KEY = 7
SLOW_IMPORT = f"""{HOLD}

import asyncio

asyncio.run(wait({IMPORT_KEY}))
"""


@pytest.fixture
async def gates(kube_database: KubeDatabase, connect: Connect) -> Gates:
    return await Gates(await connect(kube_database.dsn)).make()


@pytest.fixture
async def client(kube_database: KubeDatabase) -> AsyncIterator[awa.AsyncClient]:
    async with awa.AsyncClient(kube_database.dsn) as made:
        yield made


async def until_pods(site: Site, is_so: Callable[[dict[str, Any]], bool], count: int = 1) -> None:
    """Wait until so many worker pods are as they should be."""

    def found() -> bool:
        return sum(is_so(one) for one in site.list("pods", WORKERS)) >= count

    await site.until(found, LIMIT, f"{count} pods are as they should be")


def is_running(pod: dict[str, Any]) -> bool:
    statuses = pod.get("status", {}).get("containerStatuses") or ()
    return any("running" in one["state"] for one in statuses)


async def test_a_pod_that_is_deleted_during_its_imports_is_gone_at_once_and_claims_nothing(
    site, image, apply, gates, client
):
    await gates.shut(IMPORT_KEY)
    await site.start().until_leads()
    apply(worker={"image": image(1, SLOW_IMPORT, "c29-import")}, replicas=1)
    await until_pods(site, is_running)
    (name,) = [one["metadata"]["name"] for one in site.list("pods", WORKERS)]
    job = await client.insert(Hold(1), queue="mail")

    async def imports() -> bool:
        return await gates.session.fetchval(
            "select exists (select from pg_locks where locktype = 'advisory' and not granted"
            " and database = (select oid from pg_database where datname = current_database()))"
        )

    await eventually(imports, LIMIT, what="the modules are being imported")
    began = time.monotonic()
    await asyncio.to_thread(site.namespace.kubectl, "delete", f"pod/{name}")
    # Its grace period is half a minute and more; that is how long a lost signal would take.
    assert took(began) < timedelta(seconds=15)
    found = await client.get_job(job.id)
    assert (found.state, found.attempt) == (awa.JobState.Available, 0)


async def test_a_worker_behind_a_shell_says_that_signals_do_not_reach_it(site, image, apply, gates):
    await site.start().until_leads()
    behind = ["sh", "-c", "awa worker handlers; exit $?"]
    apply(worker={"image": image(1, HOLD, "c29-hold"), "command": behind}, replicas=1)
    await until_ready(site, "mail")
    (pod,) = site.list("pods", WORKERS)
    said = site.namespace.kubectl("logs", pod["metadata"]["name"])
    assert "PID 1 of this container is a shell" in said


async def test_fewer_pods_are_the_idle_ones_gone_and_no_job_is_interrupted(
    site, image, apply, gates, client
):
    await gates.shut(1, 2, 3, 4)
    await site.start().until_leads()
    at_once = {"stabilizationWindowSeconds": 0, "policies": [
        {"type": "Percent", "value": 100, "periodSeconds": 1}
    ]}  # fmt: skip
    scaling = {
        "mode": "Native", "minReplicas": 1, "maxReplicas": 4, "targetJobsPerReplica": 1,
        "pollIntervalSeconds": 1, "behavior": {"scaleDown": at_once, "scaleUp": at_once},
    }  # fmt: skip
    worker = {"image": image(1, HOLD, "c29-hold"), "concurrency": 1}
    apply(worker=worker, scaling=scaling, replicas=None)
    await until_ready(site, "mail")
    keys = {(await client.insert(Hold(key), queue="mail")).id: key for key in (1, 2, 3, 4)}
    where = dict(await gates.until_runs(4))
    assert len({*where.values()}) == 4, "each of them has one"

    # The oldest pod is the last one that Kubernetes would take of itself.
    born = {
        one["metadata"]["name"]: one["metadata"]["creationTimestamp"]
        for one in site.list("pods", WORKERS)
    }
    by_age = sorted(keys, key=lambda job: born[where[job]])
    idle, busy = by_age[:2], by_age[2:]
    await gates.open(*(keys[job] for job in idle))
    for job in idle:
        await has_ended(client, job)

    def are_two() -> bool:
        return len(pods(site)) == 2

    await site.until(are_two, LIMIT, "two pods are gone")
    left = {one["metadata"]["name"] for one in site.list("pods", WORKERS) if is_staying(one)}
    assert left == {where[job] for job in busy}
    await gates.open(*(keys[job] for job in busy))
    for job in busy:
        assert (await has_ended(client, job)).output == {"pod": where[job]}
    assert len(await gates.runs()) == 4


def is_staying(pod: dict[str, Any]) -> bool:
    return "deletionTimestamp" not in pod["metadata"]
