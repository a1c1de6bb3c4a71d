"""Worlds to tell stories in."""

import pytest

from support.planning.world import World


@pytest.fixture
def world() -> World:
    """A namespace with one Queue that nobody has looked at yet."""
    world = World()
    world.create()
    return world


@pytest.fixture
def ready_world(world: World) -> World:
    """A namespace with one Queue whose workers run."""
    world.settle()
    world.end_job()
    world.settle()
    return world
