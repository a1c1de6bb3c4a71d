"""A module that cannot be imported."""

SECOND = 2

raise RuntimeError("the reason")
