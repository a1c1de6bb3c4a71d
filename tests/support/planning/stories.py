"""Beginnings that several stories share."""

from awa.scaling import Signals, Unknown
from support.planning.world import World

SCALING = {
    "mode": "Native",
    "minReplicas": 0,
    "maxReplicas": 20,
    "targetJobsPerReplica": 10,
    "cooldownSeconds": 60,
}
LOOKS = 8
"""Polls of ten seconds each, enough to reach ten workers."""


def next_image(world: World, image: str = "app:2", version: int = 53) -> None:
    """Change the image and let its migration succeed."""
    world.edit(worker={"image": image})
    world.settle()
    world.end_job(version=version)
    world.settle()


def native(ready: int = 0, **scaling: object) -> World:
    """Return a Queue that scales by itself and has had `ready` jobs for a while."""
    world = World()
    world.create(spec={"replicas": None, "scaling": {**SCALING, **scaling}})
    world.settle()
    world.end_job()
    for _ in range(LOOKS):
        look(world, Signals(ready=ready))
    return world


def look(world: World, signals: Signals | Unknown, seconds: float = 10) -> None:
    """Let time pass, poll, and let the operator act."""
    world.advance(seconds)
    world.poll(signals=signals)
    world.settle()


def count(world: World) -> int:
    """Return the replica count that is asked for."""
    return world.deployments["email"].replicas
