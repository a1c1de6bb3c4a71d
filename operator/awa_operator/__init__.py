"""Kubernetes operator of the Awa job queue."""

from importlib.metadata import version

__version__ = version("awa-operator")
