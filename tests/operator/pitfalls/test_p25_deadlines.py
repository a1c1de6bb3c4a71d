"""P25: a slow migration is not killed, and its deadline can be moved."""

import asyncio
from datetime import datetime, timedelta
from typing import Any

import pytest

from cluster.databases import KubeDatabase
from cluster.images import Images
from support.operating import Site
from support.planning.world import World

SLOW = """
import asyncio, os, asyncpg

async def main():
    session = await asyncpg.connect(os.environ["AWA_DATABASE_URL"])
    for _ in range(8):
        await session.execute("select pg_sleep(5)")

asyncio.run(main())
os.execvp("awa", ["awa", "migrate"])
"""


def test_p25_a_deadline_that_is_edited_meanwhile_counts_and_nothing_runs_twice(world: World):
    world.settle()
    job = next(iter(world.jobs.values()))
    assert job.manifest["spec"]["activeDeadlineSeconds"] == 3600
    world.edit(migration={"activeDeadlineSeconds": 7200})
    world.settle()
    assert job.manifest["spec"]["activeDeadlineSeconds"] == 7200
    assert len(world.jobs_made) == 1


@pytest.mark.timeout(180)
@pytest.mark.slow
async def test_p25_a_migration_that_outlives_its_first_deadline_ends_in_its_own_time(
    site: Site, kube_database: KubeDatabase, images: Images
):
    """Forty seconds of statements and a deadline of thirty, which is moved while the Job runs."""
    await asyncio.to_thread(site.namespace.apply, kube_database.secret("db"))
    migration = {
        "mode": "Job", "command": ["python3", "-c", SLOW], "image": images.worker.name,
        "activeDeadlineSeconds": 30,
    }  # fmt: skip

    def one_job() -> dict[str, Any]:
        (job,) = site.list("jobs") or [{}]
        return job

    await site.start().until_leads()
    site.queue(migration=migration, replicas=0)
    await site.until(lambda: one_job().get("status", {}).get("active") == 1, what="the Job runs")
    (pod,) = site.list("pods", "app.kubernetes.io/component=migration")
    assert not {"livenessProbe", "startupProbe"} & pod["spec"]["containers"][0].keys()
    site.queue(migration={**migration, "activeDeadlineSeconds": 3600}, replicas=0)
    await site.until(
        lambda: site.condition("Ready").get("status") == "True", timedelta(seconds=90), "migrated"
    )
    job = one_job()
    status = job["status"]
    took = datetime.fromisoformat(status["completionTime"]) - datetime.fromisoformat(
        status["startTime"]
    )
    assert took > timedelta(seconds=30)
    assert (status["succeeded"], status.get("failed", 0)) == (1, 0)
    (same,) = site.list("pods", "app.kubernetes.io/component=migration")
    assert same["metadata"]["uid"] == pod["metadata"]["uid"]
    assert [one["restartCount"] for one in same["status"]["containerStatuses"]] == [0]
