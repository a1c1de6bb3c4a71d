"""Definitions of resources in a cluster."""

from datetime import timedelta

import pytest

from cluster.errors import CommandFailed
from cluster.handle import Cluster
from support.charts import ROOT
from support.run import Run
from support.waiting import eventually_sync

DEFINITION = ROOT / "crds" / "queue.yaml"
LIMIT = timedelta(seconds=60)


def until_served(cluster: Cluster, name: str) -> None:
    """Wait until the API server serves a definition (`kubectl wait` fails on one just made)."""

    def is_served() -> bool:
        conditions = cluster.get("crd", name).get("status", {}).get("conditions") or []
        if not any(one["type"] == "Established" and one["status"] == "True" for one in conditions):
            return False
        try:
            cluster.get(name, "-A")
        except CommandFailed:  # what serves it learns of it a moment later
            return False
        return True

    eventually_sync(is_served, LIMIT, what=f"{name} is served")


def install_definition(cluster: Cluster) -> str:
    """Have the Queue's definition served; return what kubectl said about it."""
    said = cluster.kubectl("apply", "--server-side", "--force-conflicts", "-f", DEFINITION)
    until_served(cluster, "queues.awa.dev")
    return said


@pytest.fixture(scope="session")
def queue_definition(cluster: Cluster, test_run: Run) -> str:
    """The Queue's definition, served by the run's cluster; what kubectl said about it."""
    return test_run.once("queue-definition", lambda: install_definition(cluster))
