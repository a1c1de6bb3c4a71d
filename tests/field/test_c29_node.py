"""C29: a node that is lost holds no job up, and changes nothing when it comes back."""

import time
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path

import pytest

import awa
from cluster.databases import OwnServer
from cluster.fixtures import RESTRICTED, MakeCluster
from cluster.handle import Cluster, Namespace
from cluster.images import Images
from support.definitions import install_definition
from support.holding import HOLD, has_ended, switchboard, until_started_is_known
from support.operating import Site, operators, took
from support.postgres import Connect
from support.stories import WORKERS, apply_with, until_ready

pytestmark = [pytest.mark.timeout(600), pytest.mark.kubernetes]

IMAGE = "registry.example/c29-node:1"


@pytest.fixture(scope="module")
def own_cluster(make_cluster: MakeCluster) -> Cluster:
    """A cluster whose only node may be lost."""
    return make_cluster()


@pytest.fixture
async def own_site(own_cluster: Cluster, tmp_path: Path) -> AsyncIterator[Site]:
    install_definition(own_cluster)
    metadata = {"name": "lost", "labels": RESTRICTED}
    own_cluster.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata})
    async with operators(Namespace(own_cluster, "lost"), tmp_path) as site:
        yield site


async def test_jobs_of_a_lost_node_run_elsewhere_in_seconds_and_its_return_changes_nothing(
    own_site: Site, own_server: OwnServer, built_images: Images, connect: Connect
):
    site, kubelet = own_site, own_site.cluster.part("kubelet")
    database = own_server(site.cluster)
    for image in (built_images.worker, built_images.derive(IMAGE, {"handlers.py": HOLD})):
        site.cluster.load(image.archive)
    await site.start().until_leads()
    site.namespace.apply(database.secret("db"))
    async with (
        awa.AsyncClient(database.dsn) as client,
        switchboard(site.cluster.host_address) as board,
    ):
        worker = {"image": IMAGE, "concurrency": 1, "env": board.environment}
        apply_with(site, worker=worker, replicas=2)
        await until_ready(site, "mail")
        job = await client.insert({}, kind="hold", queue="mail")
        (lost,) = await board.until(1)
        await until_started_is_known(await connect(database.dsn))
        kubelet.kill()
        began = time.monotonic()
        site.namespace.kubectl("delete", f"pod/{lost.pod}", "--force", "--grace-period=0")
        _, taker = await board.until(2)
        # Without the operator it would take as long as a worker may be silent: 90 seconds.
        assert took(began) < timedelta(seconds=30)
        assert taker.pod != lost.pod

        for call in (lost, taker):
            call.release()
        ended = await has_ended(client, job.id, attempt=2)
        assert ended.output == {"pod": taker.pod}
        kubelet.start()
        await until_ready(site, "mail")

        def is_gone() -> bool:
            known = {one["metadata"]["name"] for one in site.list("pods", WORKERS)}
            return lost.pod not in known and len(known) == 2

        await site.until(is_gone, timedelta(seconds=120), "two others work")
        assert await client.get_job(job.id) == ended
        assert board.calls == [lost, taker]
