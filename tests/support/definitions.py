"""Definitions of resources in a cluster."""

from datetime import timedelta

from cluster.handle import Cluster
from support.waiting import eventually_sync

LIMIT = timedelta(seconds=60)


def until_served(cluster: Cluster, name: str) -> None:
    """Wait until the API server serves a definition (`kubectl wait` fails on one just made)."""

    def is_served() -> bool:
        conditions = cluster.get("crd", name).get("status", {}).get("conditions") or []
        return any(one["type"] == "Established" and one["status"] == "True" for one in conditions)

    eventually_sync(is_served, LIMIT, what=f"{name} is served")
