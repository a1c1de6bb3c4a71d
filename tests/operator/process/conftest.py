"""Fixtures of tests that take an operator process."""

from support.operating import site

__all__ = ["site"]
