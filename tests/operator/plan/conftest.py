"""Fixtures of the planner's tests."""

from support.planning.fixtures import ready_world, world

__all__ = ["ready_world", "world"]
