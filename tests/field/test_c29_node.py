"""C29: a node that is lost holds no job up, and changes nothing when it comes back."""

import secrets
import time
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path

import pytest

import awa
from cluster.databases import KubeDatabase, settings_for, start_for_pods
from cluster.fixtures import MakeCluster
from cluster.handle import Cluster, Namespace
from cluster.images import Images
from support.definitions import install_definition
from support.holding import HOLD, Gates, Hold, has_ended
from support.operating import Site, operators, took
from support.postgres import Connect, Server
from support.run import Run
from support.stories import WORKERS, apply_with, until_ready
from support.waiting import eventually

pytestmark = [pytest.mark.timeout(600), pytest.mark.kubernetes]

IMAGE = "registry.example/c29-node:1"


@pytest.fixture(scope="module")
def own_cluster(make_cluster: MakeCluster) -> Cluster:
    """A cluster whose only node may be lost."""
    return make_cluster()


@pytest.fixture
def own_database(own_cluster: Cluster, test_run: Run, postgres_binaries: Path) -> KubeDatabase:
    folder, password = test_run.new_path("for-pods"), secrets.token_hex(8)
    server = Server(folder, postgres_binaries, settings_for(own_cluster))
    start_for_pods(test_run, server, password)
    return KubeDatabase(server.create_database(), own_cluster.host_address, password)


@pytest.fixture
async def own_site(own_cluster: Cluster, tmp_path: Path) -> AsyncIterator[Site]:
    install_definition(own_cluster)
    own_cluster.kubectl("create", "namespace", "lost")
    async with operators(Namespace(own_cluster, "lost"), tmp_path) as site:
        yield site


async def test_jobs_of_a_lost_node_run_elsewhere_in_seconds_and_its_return_changes_nothing(
    own_site: Site, own_database: KubeDatabase, built_images: Images, connect: Connect
):
    site, kubelet = own_site, own_site.cluster.part("kubelet")
    gates = await Gates(await connect(own_database.dsn)).make()
    await gates.shut(1)
    for image in (built_images.worker, built_images.derive(IMAGE, {"handlers.py": HOLD})):
        site.cluster.load(image.archive)
    await site.start().until_leads()
    site.namespace.apply(own_database.secret("db"))
    apply_with(site, worker={"image": IMAGE, "concurrency": 1}, replicas=2)
    await until_ready(site, "mail")

    async with awa.AsyncClient(own_database.dsn) as client:
        job = await client.insert(Hold(1), queue="mail")
        ((_, lost),) = await gates.until_runs(1)
        # From its next heartbeat on this counts as an attempt, and not as a claim given back.
        started = "select exists (select from awa.runtime_instances where started_claims <> '{}')"
        await eventually(lambda: gates.session.fetchval(started), timedelta(seconds=60))
        kubelet.kill()
        began = time.monotonic()
        site.namespace.kubectl("delete", f"pod/{lost}", "--force", "--grace-period=0")
        _, (_, taker) = await gates.until_runs(2)
        # Without the operator it would take as long as a worker may be silent: 90 seconds.
        assert took(began) < timedelta(seconds=30)
        assert taker != lost

        await gates.open(1)
        ended = await has_ended(client, job.id, attempt=2)
        assert ended.output == {"pod": taker}
        kubelet.start()
        await until_ready(site, "mail")

        def is_gone() -> bool:
            known = {one["metadata"]["name"] for one in site.list("pods", WORKERS)}
            return lost not in known and len(known) == 2

        await site.until(is_gone, timedelta(seconds=120), "two others work")
        assert await client.get_job(job.id) == ended
        assert len(await gates.runs()) == 2
