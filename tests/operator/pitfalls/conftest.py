"""Fixtures of the pitfalls that take an operator process."""

from support.operating import site

__all__ = ["site"]
