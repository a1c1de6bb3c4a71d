"""The commands of the guide, of pages about operations and of the charts, typed as they stand."""

import os
import re
import subprocess
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from cluster.databases import KubeDatabase
from cluster.errors import CommandFailed
from cluster.handle import Cluster
from cluster.images import Images
from support.charts import CHART, CRD_CHART, ROOT
from support.waiting import eventually_sync

GUIDE = ROOT / "docs" / "guides" / "kubernetes.md"
UPGRADE = ROOT / "docs" / "operations" / "kubernetes-upgrade.md"
TROUBLESHOOTING = ROOT / "docs" / "operations" / "kubernetes-troubleshooting.md"
TAKE_OVER = "helm upgrade --install awa-crds charts/awa-crds"
BLOCK = re.compile(r"^```console\n(.*?)^```$", re.MULTILINE | re.DOTALL)
IMAGE = "registry.example/app:1.4.2"
HANDLERS = """
from dataclasses import dataclass

import awa

client = awa.AsyncClient()


@dataclass
class SendEmail:
    user: int


@client.task(SendEmail, queue="email")
async def send_email(job: awa.Job[SendEmail]) -> None:
    job.set_output({"user": job.args.user})
"""


def commands(page: Path) -> list[str]:
    """Return the blocks of commands of a page."""
    return [found[1] for found in BLOCK.finditer(page.read_text(encoding="utf-8"))]


def with_definition(text: str) -> str:
    """Return commands with which a chart takes over the definition, which all tests share."""
    return text.replace(TAKE_OVER, f"{TAKE_OVER} --take-ownership --force-conflicts")


@pytest.fixture
def released(cluster: Cluster, images: Images, queue_definition: str) -> None:
    """The image of the operator under the name that the chart has for it."""
    version = (ROOT / "VERSION").read_text().strip()
    cluster.tag(images.operator.name, f"docker.io/library/awa-operator:{version}")


@pytest.fixture
def jobs_namespace(cluster: Cluster, images: Images, released: None) -> Iterator[str]:
    """The namespace that the pages use, and images under the names that they use."""
    image = images.derive(IMAGE, {"handlers.py": HANDLERS})
    cluster.load(image.archive)
    yield "jobs"
    cluster.kubectl("delete", "namespace", "jobs", "--ignore-not-found", "--wait=false")


@pytest.fixture
def typed(cluster: Cluster, kube_database: KubeDatabase):
    """Type commands into a shell in the checkout; return what they print."""

    def run(text: str) -> str:
        environment = {**os.environ, **cluster.environment(), "DATABASE_URL": kube_database.pod_dsn}
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", text],
            cwd=ROOT, env=environment, capture_output=True, text=True, timeout=400, check=False,
        )  # fmt: skip
        assert done.returncode == 0, f"{text}\n{done.stdout}\n{done.stderr}"
        return done.stdout

    return run


@pytest.mark.timeout(600)
def test_the_guide_leads_from_nothing_to_a_queue_and_back(cluster, jobs_namespace, typed):
    install, test, secret, queue, change, explain, remove = commands(GUIDE)
    said = typed(with_definition(install))
    assert "serves the Queues of namespace jobs" in " ".join(said.split())
    assert re.search(r"Phase:\s+Succeeded", typed(test))
    typed(secret)
    assert re.search(r"^email\s+True\s+WorkersAvailable\s", typed(queue), re.MULTILINE)
    typed(change)
    assert "minReplicas" in typed(explain)
    for page in (UPGRADE, TROUBLESHOOTING):
        for text in commands(page):
            if "condition=Ready" not in text:  # suspended by now
                typed(with_definition(text))
    typed(remove)

    def are_gone() -> bool:
        return not cluster.get("pods", "-n", "jobs", "-l", "awa.dev/queue=email")["items"]

    eventually_sync(are_gone, timedelta(seconds=90), what="the workers are gone")
    assert cluster.get("crd", "queues.awa.dev")["metadata"]["name"] == "queues.awa.dev"
    with pytest.raises(CommandFailed, match="not found"):
        cluster.helm("status", "awa", "-n", "jobs")


@pytest.fixture
def awa_namespace(cluster: Cluster, released: None) -> Iterator[str]:
    """The namespace that the pages of the charts use."""
    yield "awa"
    cluster.kubectl("delete", "namespace", "awa", "--ignore-not-found", "--wait=false")


@pytest.mark.timeout(300)
def test_the_pages_of_the_charts_install_an_operator(awa_namespace, typed):
    (install,) = commands(CHART / "README.md")
    definition, remove = commands(CRD_CHART / "README.md")
    typed(with_definition(definition))
    said = typed(with_definition(install))
    assert f"serves the Queues of namespace {awa_namespace}" in " ".join(said.split())
    assert re.search(r"Phase:\s+Succeeded", said)
    assert "deleted" in typed(remove.replace("delete", "delete --dry-run=server"))
