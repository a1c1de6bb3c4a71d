"""Fixtures of the pitfalls: an operator process, and worlds of plain values for the planner."""

from support.operating import site
from support.planning.fixtures import ready_world, world

__all__ = ["ready_world", "site", "world"]
