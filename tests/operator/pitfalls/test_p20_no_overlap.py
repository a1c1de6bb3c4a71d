"""P20: two migrations never overlap, nor does an exclusive one with a worker."""

import asyncio
from dataclasses import replace
from datetime import timedelta
from functools import partial

import pytest

from awa_operator.actions import CreateJob, DeleteJob
from awa_operator.plan import plan_queue
from awa_operator.views import job_view
from cluster.databases import KubeDatabase
from cluster.images import Images
from support.api_proxy import Seen, to
from support.operating import Site
from support.planning.world import World

HANGS = ["sh", "-c", "trap 'exit 75' TERM; sleep 3600 & wait"]


def _alive(pod):
    return type(pod)(name=pod.name, is_live=True)


def test_p20_no_job_while_a_pod_of_the_old_one_is_left(world: World):
    world.settle()
    job = world.end_job(75, "")
    job.pods = tuple(_alive(pod) for pod in job.pods)
    world.advance(3600)
    world.look_at_database()
    world.settle()
    assert len(world.jobs_made) == 1
    job.pods = ()
    world.settle()
    assert len(world.jobs_made) == 2
    assert not world.violations


@pytest.mark.parametrize("ending", ["FailureTarget", "Failed"])
def test_p20_a_job_that_has_met_its_failure_target_is_not_over(world: World, ending: str):
    """Only the condition Failed ends it; until then its pods may still be changing the schema."""
    world.settle()
    (job,) = world.jobs.values()
    begun = job.view()
    world.advance(3600)
    world.look_at_database()
    body = {
        "metadata": {
            **job.manifest["metadata"], "uid": begun.uid,
            "creationTimestamp": begun.created_at.isoformat(),
        },
        "spec": job.manifest["spec"],
        "status": {
            "conditions": [
                {
                    "type": ending, "status": "True", "reason": "BackoffLimitExceeded",
                    "lastTransitionTime": begun.created_at.isoformat(),
                }
            ]
        },
    }  # fmt: skip
    view = job_view(body, job.identity, ())
    plan = plan_queue(replace(world.observe(), jobs=(view,)), world.now)
    begins_anew = any(isinstance(one, CreateJob | DeleteJob) for one in plan.actions)
    assert begins_anew is (ending == "Failed")


@pytest.mark.timeout(300)
async def test_p20_who_takes_over_makes_no_job_beside_one_that_it_was_not_told_of(
    site: Site, kube_database: KubeDatabase, images: Images
):
    await asyncio.to_thread(site.namespace.apply, kube_database.secret("db"))
    image = images.worker.name
    with site.api_proxy() as proxy:
        first = await site.start().until_leads()
        second = await site.start(proxy.address).until_ready()
        with proxy.silent(to("jobs")):
            migration = {"mode": "Job", "image": image, "command": HANGS}
            await asyncio.to_thread(site.queue, worker={"image": image}, migration=migration)
            await site.until(lambda: _job_in_status(site), what="a Job is named in the status")
            first.kill()
            await second.until_leads(timedelta(seconds=60))
            counter = "awa_operator_reconcile_total"
            await site.until(lambda: second.metric(counter) >= 2, what="it has looked at the Queue")
            assert len(site.list("jobs")) == 1


def _job_in_status(site: Site) -> str:
    status = site.get("queues.awa.dev", "mail").get("status") or {}
    name: str = (status.get("migration") or {}).get("jobName", "")
    return name


@pytest.mark.timeout(300)
async def test_p20_no_worker_is_on_its_way_when_an_exclusive_migration_begins(
    site: Site, kube_database: KubeDatabase, images: Images
):
    await asyncio.to_thread(site.namespace.apply, kube_database.secret("db"))
    image = images.worker.name
    job = {"mode": "Job", "image": image, "command": ["awa", "migrate"]}
    alpha = {"worker": {"image": image}, "replicas": 0}
    with site.api_proxy() as proxy:
        await site.start(proxy.address).until_leads()
        await asyncio.to_thread(
            site.queue, "alpha", **alpha, migration={**job, "strategy": "Exclusive"}
        )
        await asyncio.to_thread(site.queue, "beta", **alpha, migration=job)
        for name in ("alpha", "beta"):
            await site.until(partial(_is_ready, site, name), what=f"{name} is ready")

        def is_of_beta(seen: Seen) -> bool:
            return seen.is_write and seen.path.endswith("/deployments/beta-worker")

        def is_job(seen: Seen) -> bool:
            return seen.method == "POST" and seen.path.endswith("/jobs")

        before = len(proxy.seen)
        with proxy.slow(timedelta(seconds=5), is_of_beta):
            await asyncio.to_thread(site.queue, "beta", **{**alpha, "replicas": 1}, migration=job)
            await site.until(lambda: any(map(is_of_beta, proxy.seen[before:])), what="it starts")
            again = {**job, "strategy": "Exclusive", "command": HANGS}
            await asyncio.to_thread(site.queue, "alpha", **alpha, migration=again)
            await site.until(lambda: any(map(is_job, proxy.seen[before:])), what="a Job")
        seen = proxy.seen[before:]
        until_job = seen[: next(at for at, one in enumerate(seen) if is_job(one))]
        assert sum(map(is_of_beta, until_job)) > 1, "the worker is asked for, then sent away"


def _is_ready(site: Site, name: str) -> bool:
    return site.condition("Ready", name).get("status") == "True"
