"""Levels of rollouts with real pods: from a Queue to its workers, from an image to the next."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from functools import partial

from awa_operator.kube import Object
from awa_operator.resources import DEPLOYMENTS, JOBS, Resource
from bench.kube.audit import Request, now, requests
from bench.kube.figures import Figure
from bench.kube.stage import Stage
from cluster.images import prepare_images
from support.stories import HANDLERS, apply_with, until_ready

TIMES = 5
FIRST, SECOND = "registry.example/bench:1", "registry.example/bench:2"


async def rollouts(stage: Stage) -> list[Figure]:
    """Create Queues with workers, then give each another image; look at what the operator adds."""
    await asyncio.to_thread(_load_images, stage)
    names = [f"r{number}" for number in range(TIMES)]
    templates, shares, writes = [], [], []
    for name in names:
        await asyncio.to_thread(stage.site.namespace.put, stage.for_pods().secret(name))
        since = now()
        async with (
            _first(stage, JOBS, _is_complete) as complete,
            _first(stage, DEPLOYMENTS, partial(_serves, name)) as serving,
        ):
            await _roll_out(stage, name, FIRST)
            job, template, answer = _asked(stage, since, name)
            templates.append(template - complete[0])
            shares.append(job + templates[-1] + answer - serving[0])
    for name in names:
        since = now()
        await _roll_out(stage, name, SECOND)
        writes.append(len(_status_writes(requests(stage.site, since), name)))
    return [
        Figure("Job complete to template, slowest", max(templates), "s", 2, 0.5),
        Figure("Queue to ready workers, the operator's part, slowest", max(shares), "s", 5, 1.5),
        Figure("writes to a Queue for another image, most", max(writes), "", 10, 6),
    ]


def _load_images(stage: Stage) -> None:
    images, cluster = prepare_images(), stage.site.cluster
    images.load_into(cluster)
    text = HANDLERS.replace("VERSION", "1")
    cluster.load(images.derive(FIRST, {"handlers.py": text}).archive)
    cluster.tag(FIRST, SECOND)


async def _roll_out(stage: Stage, name: str, image: str) -> None:
    database = {"connectionSecretRef": {"name": name}}
    await asyncio.to_thread(
        apply_with, stage.site, name, worker={"image": image}, database=database, replicas=1
    )
    await until_ready(stage.site, name)


@asynccontextmanager
async def _first(
    stage: Stage, resource: Resource, holds: Callable[[Object], bool]
) -> AsyncIterator[list[float]]:
    """Note the moment when a watch first tells of an object that is so and was not before."""
    kube, namespace = await stage.patching(), stage.site.namespace.name
    listing = await kube.list(resource, namespace)
    moments: list[float] = []

    async def note() -> None:
        async for event in kube.watch(resource, namespace, since=listing.resource_version):
            if event.type == "MODIFIED" and holds(event.object):
                moments.append(now())

    watching = asyncio.create_task(note())
    try:
        yield moments
    finally:
        watching.cancel()
        with suppress(asyncio.CancelledError):
            await watching
        await kube.close()


def _is_complete(job: Object) -> bool:
    conditions = job.get("status", {}).get("conditions") or ()
    return any(one["type"] == "Complete" and one["status"] == "True" for one in conditions)


def _serves(name: str, deployment: Object) -> bool:
    is_its = deployment["metadata"]["name"] == f"{name}-worker"
    return is_its and bool(deployment.get("status", {}).get("readyReplicas"))


def _asked(stage: Stage, since: float, name: str) -> tuple[float, float, float]:
    """Return how long the Job took to come, when the template was written, and the last status."""
    seen = requests(stage.site, since)
    ours = [one for one in seen if one.is_operators and one.writes]
    applied = next(one.at for one in seen if one.does("patch", "queues") and one.name == name)
    job = next(one.at for one in ours if one.resource == "jobs")
    template = next(one.at for one in ours if one.name == f"{name}-worker")
    return job - applied, template, _status_writes(seen, name)[-1].at


def _status_writes(seen: list[Request], name: str) -> list[Request]:
    return [one for one in seen if one.name == name and one.does("patch", "queues", "status")]
