"""Awa: a PostgreSQL-native job queue."""

from importlib.metadata import version

__version__ = version("awa-worker")

__all__ = ["__version__"]
