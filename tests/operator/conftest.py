"""What tests of the operator share: the Queue's definition on the run's cluster, and how to ask."""

import json
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from awa_operator.kube import Kube, find_access
from cluster.builds import CLIENTS, client_tools
from cluster.handle import Cluster, Namespace
from cluster.images import Images
from support.charts import CHART, Helm
from support.definitions import queue_definition

__all__ = ["queue_definition"]

INSTALL_LIMIT = timedelta(minutes=3)


@pytest.fixture(scope="session")
def helm_program() -> Path:
    return client_tools() / "helm"


@pytest.fixture
def helm(helm_program: Path, tmp_path: Path) -> Helm:
    """Helm without a cluster."""
    return Helm(helm_program, tmp_path)


@pytest.fixture
async def kube(cluster: Cluster, queue_definition: str) -> AsyncIterator[Kube]:
    """Requests to the API server as the administrator, where thousands of kubectl would be slow."""
    access = await find_access(cluster.kubeconfig, lambda *_: None)
    client = Kube(access)
    yield client
    await client.close()


@pytest.fixture
def install_operator(
    namespace: Namespace, images: Images, queue_definition: str, tmp_path: Path
) -> Callable[..., str]:
    """Install the operator by its chart into the test's namespace and wait until it works."""

    def make(values: Mapping[str, Any] | None = None, clients: Path = CLIENTS) -> str:
        repository, _, tag = images.operator.name.rpartition(":")
        image = {"repository": repository, "tag": tag, "pullPolicy": "Never"}
        file = tmp_path / "operator-values.json"
        file.write_text(json.dumps({"image": image, **(values or {})}))
        installer = replace(namespace, cluster=replace(namespace.cluster, clients=clients))
        return installer.helm(
            "upgrade", "--install", "awa", CHART, "--values", file, "--wait", "--timeout=120s",
            limit=INSTALL_LIMIT,
        )  # fmt: skip

    return make
