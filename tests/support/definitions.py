"""Definitions of resources in a cluster."""

import json
from datetime import timedelta

import pytest

from awa.manifest.crd import missing_fields
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


def until_lacks(cluster: Cluster, expected: list[str]) -> None:
    """Wait until the published schema of Queue lacks these fields and no others.

    It follows the definition in moments.
    """

    def lacking() -> list[str] | None:
        path = "/openapi/v3/apis/awa.dev/v1alpha1"
        try:
            published = json.loads(cluster.kubectl("get", "--raw", path))
        except CommandFailed:  # there is none yet
            return None
        return missing_fields(published["components"]["schemas"]["dev.awa.v1alpha1.Queue"])

    what = f"the published schema lacks {expected}"
    eventually_sync(lambda: lacking() == expected, LIMIT, what=what)


def install_definition(cluster: Cluster) -> str:
    """Have the Queue's definition served and published; return what kubectl said about it."""
    said = cluster.kubectl("apply", "--server-side", "--force-conflicts", "-f", DEFINITION)
    until_served(cluster, "queues.awa.dev")
    until_lacks(cluster, [])
    return said


@pytest.fixture(scope="session")
def queue_definition(cluster: Cluster, test_run: Run) -> str:
    """The Queue's definition, served by the run's cluster; what kubectl said about it."""
    return test_run.once("queue-definition", lambda: install_definition(cluster))
