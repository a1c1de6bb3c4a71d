"""Queues with real workers on the cluster: their images, and what is asked about them."""

import json
from collections.abc import Callable
from datetime import timedelta
from functools import partial
from typing import Any

import pytest

from cluster.databases import KubeDatabase
from cluster.images import Images
from support.operating import Site

LIMIT = timedelta(seconds=180)
WORKERS = "app.kubernetes.io/component=worker"
JOBS = "app.kubernetes.io/component=migration"

HANDLERS = """
from dataclasses import dataclass

import awa

client = awa.AsyncClient()


@dataclass
class Nothing:
    pass


@client.task(Nothing, queue="mail")
async def nothing(job: awa.Job[Nothing]) -> None:
    job.set_output({"version": VERSION})
"""

type Apply = Callable[..., None]
type MakeImage = Callable[..., str]


@pytest.fixture
def image(site: Site, images: Images) -> MakeImage:
    """Make an image of a worker, in as many versions as are asked for, and load it.

    `name` tells apart what the handlers of several tests are.
    """

    def make(version: int, handlers: str = HANDLERS, name: str = "story") -> str:
        tag = f"registry.example/{name}:{version}"
        text = handlers.replace("VERSION", str(version))
        site.cluster.load(images.derive(tag, {"handlers.py": text}).archive)
        return tag

    return make


@pytest.fixture
def apply(site: Site, kube_database: KubeDatabase) -> Apply:
    """Apply a Queue whose workers and migration run from an image."""
    site.namespace.apply(kube_database.secret("db"))
    return partial(apply_with, site)


def apply_with(site: Site, name: str = "mail", **changes: Any) -> None:
    """Apply a Queue of the database that Secret `db` names; `changes` are fields of its spec."""
    worker = {"command": ["awa", "worker", "handlers"], **changes.pop("worker")}
    migration = {"mode": "Job", "command": ["awa", "migrate"], **changes.pop("migration", {})}
    rollout = {"minReadySeconds": 0, **changes.pop("rollout", {})}
    spec = {"worker": worker, "migration": migration, "rollout": rollout, **changes}
    site.queue(name, **spec)


async def until_ready(site: Site, *names: str) -> None:
    """Wait until Queues are ready for their present spec."""

    def is_ready(name: str) -> bool:
        found = site.get("queues.awa.dev", name)
        said = site.condition("Ready", name)
        generation = found["metadata"]["generation"]
        return said.get("status") == "True" and said["observedGeneration"] == generation

    def ready() -> bool:
        return all(is_ready(name) for name in names)

    try:
        await site.until(ready, LIMIT)
    except AssertionError:
        said = {name: site.get("queues.awa.dev", name).get("status") for name in names}
        raise AssertionError(f"not ready: {said}") from None


async def until_reason(site: Site, kind: str, reason: str, name: str = "mail") -> dict[str, str]:
    """Wait until a condition has a reason; return it."""

    def said() -> dict[str, str] | None:
        found = site.condition(kind, name)
        return found if found.get("reason") == reason else None

    found: dict[str, str] = await site.until(said, LIMIT, f"{kind} is {reason}")
    return found


def pods(site: Site, name: str | None = None) -> dict[str, str]:
    """Return the images of worker pods that are not on their way out, by uid."""
    selector = WORKERS if name is None else f"{WORKERS},awa.dev/queue={name}"
    return {
        one["metadata"]["uid"]: one["spec"]["containers"][0]["image"]
        for one in site.list("pods", selector)
        if "deletionTimestamp" not in one["metadata"]
    }


def template_image(site: Site, name: str = "mail") -> str:
    found = site.get("deployment", f"{name}-worker")
    image: str = found["spec"]["template"]["spec"]["containers"][0]["image"]
    return image


async def until_migration_pod(site: Site, other_than: str = "") -> str:
    """Wait for a pod of a migration; return its name."""

    def found() -> str | None:
        return next(
            (
                one["metadata"]["name"]
                for one in site.list("pods", JOBS)
                if one["status"].get("phase") == "Running"
                and one["metadata"]["name"] != other_than
                and "deletionTimestamp" not in one["metadata"]
            ),
            None,
        )

    name: str = await site.until(found, LIMIT, "a migration runs")
    return name


def evict(site: Site, pod: str) -> None:
    """Evict a pod as the drain of a node does."""
    namespace = site.namespace.name
    body = {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": pod, "namespace": namespace},
    }
    path = f"/api/v1/namespaces/{namespace}/pods/{pod}/eviction"
    site.namespace.kubectl("create", "--raw", path, "-f", "-", stdin=json.dumps(body))
