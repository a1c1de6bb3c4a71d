"""P08: nothing of ours blocks a deletion: it takes neither the operator nor the database."""

import asyncio
from datetime import timedelta

import pytest

from support.operating import Site

pytestmark = pytest.mark.timeout(300)

AT_ONCE = timedelta(seconds=5)
COLLECTED = timedelta(seconds=15)


async def settled(site: Site, database, replicas=1):
    await asyncio.to_thread(site.secret, database)
    operator = await site.start().until_leads()
    await asyncio.to_thread(site.queue, replicas=replicas)
    await site.until_deployed()
    await site.until_status()
    return operator


@pytest.fixture(params=[True, False], ids=["operator", "no operator"])
def runs(request):
    return request.param


@pytest.fixture(params=[True, False], ids=["database", "no database"])
def is_there(request):
    return request.param


@pytest.fixture
def replicas():
    return 1


@pytest.fixture
async def left(site: Site, make_database, migrated_template, runs, is_there, replicas) -> Site:
    """What was settled, with what there still is of operator and database."""
    database = make_database(template=migrated_template)
    operator = await settled(site, database, replicas)
    if not runs:
        operator.kill()
    if not is_there:
        with database.server.admin() as admin:
            admin.execute(f'drop database "{database.name}" with (force)')
    return site


async def delete(site: Site, *what: str) -> None:
    await asyncio.to_thread(site.namespace.kubectl, "delete", *what, "--wait=false")


async def test_p08_a_queue_goes_with_its_workers(left: Site):
    await delete(left, "queues.awa.dev/mail")
    await left.until(lambda: not left.get("queues.awa.dev", "mail"), AT_ONCE, "the Queue went")
    await left.until(
        lambda: not left.get("deployment", "mail-worker"), COLLECTED, "and its Deployment"
    )


async def test_p08_a_queue_goes_when_its_secret_went_first(left: Site):
    await delete(left, "secret/db")
    await left.until(lambda: not left.get("secret", "db"), AT_ONCE, "the Secret went")
    await delete(left, "queues.awa.dev/mail")
    await left.until(lambda: not left.get("queues.awa.dev", "mail"), AT_ONCE, "the Queue went")


# Pods that were told to end have a grace period that is none of ours.
@pytest.mark.parametrize("replicas", [0], ids=["no pods"])
async def test_p08_a_namespace_goes(left: Site):
    name = left.namespace.name
    await asyncio.to_thread(left.cluster.kubectl, "delete", "namespace", name, "--wait=false")
    await left.until(
        lambda: not left.cluster.kubectl("get", "namespace", name, "--ignore-not-found").strip(),
        timedelta(seconds=60),
        "the namespace went",
    )
    # What ends the test wants to delete it.
    await asyncio.to_thread(left.cluster.kubectl, "create", "namespace", name)


async def test_p08_no_object_has_a_finalizer_of_ours(site: Site, database):
    await settled(site, database)
    for kind in ("queues.awa.dev", "deployments", "poddisruptionbudgets"):
        for found in await asyncio.to_thread(site.list, kind):
            assert found["metadata"].get("finalizers") is None
