"""P27: no worker selector matches a migration's pods."""

import pytest

from awa_operator import labels
from awa_operator.render.deployment import render_pod_template
from awa_operator.render.migration_job import render_migration_job
from support.operating import Site
from support.planning.queues import make_queue
from support.stories import JOBS, LIMIT, pods, until_migration_pod, until_ready

LOCK = 27
HELD = f"""
import asyncio
import os

import asyncpg


async def migrate():
    session = await asyncpg.connect(os.environ["AWA_DATABASE_URL"])
    await session.execute("select pg_advisory_lock({LOCK})")
    await session.close()


asyncio.run(migrate())
"""
"""A migration that takes until the test lets go of a lock."""


def test_p27_no_worker_selector_matches_a_pod_of_a_job():
    queue = make_queue()
    selector = labels.worker_selector("email")
    job = render_migration_job(queue, 1, 1, [queue])
    pod = job["spec"]["template"]["metadata"]["labels"]
    assert not selector.items() <= pod.items()
    assert pod[labels.COMPONENT] != selector[labels.COMPONENT]
    worker = render_pod_template(queue, None)["metadata"]["labels"]
    assert selector.items() <= worker.items()


@pytest.mark.timeout(420)
async def test_p27_a_pod_of_a_migration_outlives_whatever_becomes_of_the_count(
    site: Site, image, apply, kube_database, connect
):
    worker = {"image": image(1)}
    await site.start().until_leads()
    apply(worker=worker)
    await until_ready(site, "mail")
    holder = await connect(kube_database.dsn)
    await holder.execute(f"select pg_advisory_lock({LOCK})")
    held = {"command": ["python", "-c", HELD]}
    apply(worker=worker, migration=held)
    await until_migration_pod(site)
    running = pods_of_migrations(site)
    for replicas in (2, 0):
        apply(worker=worker, migration=held, replicas=replicas)

        def are_there(replicas: int = replicas) -> bool:
            return len(pods(site)) == replicas

        await site.until(are_there, LIMIT, f"{replicas} workers")
    assert pods_of_migrations(site) == running
    await holder.close()
    await until_ready(site, "mail")
    assert pods_of_migrations(site) == dict.fromkeys(running, "Succeeded")


def pods_of_migrations(site: Site) -> dict[str, str]:
    """Return the phases of the pods of migrations, by uid."""
    return {one["metadata"]["uid"]: one["status"]["phase"] for one in site.list("pods", JOBS)}
