"""Fixtures of stories on the cluster: an operator process, images of real workers, a database."""

from collections.abc import Callable
from typing import Any

import pytest

from cluster.databases import KubeDatabase
from cluster.images import Images
from support.operating import Site, site

__all__ = ["site"]

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


@pytest.fixture
def image(site: Site, images: Images) -> Callable[[int], str]:
    """Make an image of a worker, in as many versions as are asked for, and load it."""

    def make(version: int) -> str:
        name = f"registry.example/story:{version}"
        text = HANDLERS.replace("VERSION", str(version))
        site.cluster.load(images.derive(name, {"handlers.py": text}).archive)
        return name

    return make


@pytest.fixture
def apply(site: Site, kube_database: KubeDatabase) -> Apply:
    """Apply a Queue whose workers and migration run from an image."""
    site.namespace.apply(kube_database.secret("db"))

    def run(name: str = "mail", **changes: Any) -> None:
        worker = {"command": ["awa", "worker", "handlers"], **changes.pop("worker")}
        migration = {"mode": "Job", "command": ["awa", "migrate"], **changes.pop("migration", {})}
        rollout = {"minReadySeconds": 0, **changes.pop("rollout", {})}
        spec = {"worker": worker, "migration": migration, "rollout": rollout, **changes}
        site.queue(name, **spec)

    return run
