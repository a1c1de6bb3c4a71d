"""P29: going back is accepted in every state, at once, and takes no old pod away first."""

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from awa.manifest import ConditionType
from awa_operator.conditions import Reason
from support.operating import Site
from support.planning.stories import next_image
from support.planning.world import World
from support.stories import JOBS, LIMIT, WORKERS, until_ready

WANTED = 2
ABSENT = "awa.test/none:2"


def test_p29_going_back_needs_no_job_and_keeps_the_old_pods(ready_world: World):
    world = ready_world
    world.broken_images = {"app:2"}
    next_image(world)
    made = len(world.jobs_made)
    world.edit(worker={"image": "app:1"})
    before = world.deployments["email"].available
    world.reconcile()
    assert world.deployments["email"].image == "app:1", "rolled at once"
    assert world.deployments["email"].old_pods >= before - 1
    world.settle()
    assert len(world.jobs_made) == made
    assert world.condition(ConditionType.READY).status == "True"
    assert world.condition(ConditionType.SCHEMA_MIGRATED).reason == Reason.SCHEMA_AHEAD


def test_p29_going_back_works_while_the_migration_of_the_new_version_runs(ready_world: World):
    world = ready_world
    world.edit(worker={"image": "app:2"})
    world.settle()
    world.edit(worker={"image": "app:1"})
    world.settle()
    assert world.condition(ConditionType.READY).status == "True"
    assert world.deployments["email"].image == "app:1"


def test_p29_going_back_to_an_image_with_other_settings_needs_no_job_either(ready_world: World):
    world = ready_world
    next_image(world)
    made = len(world.jobs_made)
    world.edit(worker={"image": "app:1"}, migration={"command": ["awa", "migrate", "--json"]})
    world.settle()
    assert len(world.jobs_made) == made
    assert world.condition(ConditionType.READY).status == "True"


def test_p29_other_settings_of_the_same_image_are_run(ready_world: World):
    world = ready_world
    for made, lanes in enumerate(("512", "600", "700"), start=2):
        world.edit(migration={"args": ["--lane-pool", lanes]})
        world.settle()
        assert len(world.jobs_made) == made
        world.end_job()
        world.settle()


@pytest.mark.timeout(420)
async def test_p29_an_image_that_is_not_there_takes_no_worker_away_nor_does_going_back(
    site: Site, image, apply
):
    first, second = image(1), image(2)
    await site.start().until_leads()
    apply(worker={"image": first}, replicas=WANTED)
    await until_ready(site, "mail")
    with available_workers(site) as counts:
        apply(worker={"image": ABSENT}, migration={"image": second}, replicas=WANTED)
        await site.until(lambda: pods_without_image(site), LIMIT, "it cannot be had")
        jobs = uids(site.list("jobs", JOBS))
        apply(worker={"image": first}, replicas=WANTED)
        await until_ready(site, "mail")
        await site.until(lambda: not pods_without_image(site), LIMIT, "they are gone")
    assert len(jobs) == 2
    assert uids(site.list("jobs", JOBS)) == jobs
    assert min(counts) >= WANTED - 1


@contextmanager
def available_workers(site: Site) -> Iterator[list[int]]:
    """Watch how many workers are available; the counts are complete after the block."""
    fields = 'jsonpath={.status.availableReplicas}{"\\n"}'
    command = ["kubectl", "get", "deployment/mail-worker", "--watch", "-o", fields]
    counts: list[int] = []
    with subprocess.Popen(
        [*command, "-n", site.namespace.name],
        env=site.cluster.environment(), stdout=subprocess.PIPE, text=True,
    ) as watch:  # fmt: skip
        assert watch.stdout is not None
        counts.append(int(watch.stdout.readline()))
        try:
            yield counts
        finally:
            watch.terminate()
        counts += [int(line.strip() or 0) for line in watch.stdout]


def pods_without_image(site: Site) -> list[dict[str, Any]]:
    """Return the workers whose image cannot be pulled."""
    return [
        pod
        for pod in site.list("pods", WORKERS)
        for one in pod["status"].get("containerStatuses", ())
        if "Image" in one["state"].get("waiting", {}).get("reason", "")
    ]


def uids(objects: list[dict[str, Any]]) -> set[str]:
    """Return which these are."""
    return {one["metadata"]["uid"] for one in objects}
