"""Fixtures of the pitfalls: an operator process, real workers, and worlds of plain values."""

from support.operating import site
from support.planning.fixtures import ready_world, world
from support.stories import apply, image

__all__ = ["apply", "image", "ready_world", "site", "world"]
