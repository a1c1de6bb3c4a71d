"""P08: nothing of ours blocks a deletion: it takes neither the operator nor the database."""

import asyncio
from datetime import timedelta

import pytest

from support.operating import Site

pytestmark = pytest.mark.timeout(300)

AT_ONCE = timedelta(seconds=5)
COLLECTED = timedelta(seconds=15)


async def settled(site: Site, database):
    await asyncio.to_thread(site.secret, database)
    operator = await site.start().until_leads()
    await asyncio.to_thread(site.queue)
    await site.until_deployed()
    await site.until_status()
    return operator


async def delete(site: Site, *what: str) -> None:
    await asyncio.to_thread(site.namespace.kubectl, "delete", *what, "--wait=false")


@pytest.mark.parametrize("runs", [True, False])
async def test_p08_a_queue_goes_with_its_workers_whether_the_operator_runs_or_not(
    site: Site, database, runs
):
    operator = await settled(site, database)
    if not runs:
        operator.kill()
    await delete(site, "queues.awa.dev/mail")
    await site.until(lambda: not site.get("queues.awa.dev", "mail"), AT_ONCE, "the Queue went")
    await site.until(
        lambda: not site.get("deployment", "mail-worker"), COLLECTED, "and its Deployment"
    )


async def test_p08_a_queue_goes_when_its_secret_and_its_database_went_first(
    site: Site, make_database, migrated_template
):
    database = make_database(template=migrated_template)
    await settled(site, database)
    await delete(site, "secret/db")
    with database.server.admin() as admin:
        admin.execute(f'drop database "{database.name}" with (force)')
    await delete(site, "queues.awa.dev/mail")
    await site.until(lambda: not site.get("queues.awa.dev", "mail"), AT_ONCE, "the Queue went")


@pytest.mark.parametrize("runs", [True, False])
async def test_p08_a_namespace_goes_whether_the_operator_runs_or_not(site: Site, database, runs):
    operator = await settled(site, database)
    if not runs:
        operator.kill()
    # Pods that were told to end have a grace period that is none of ours.
    await asyncio.to_thread(
        site.namespace.kubectl, "patch", "queues.awa.dev/mail", "--type=merge",
        "-p", '{"spec":{"replicas":0}}',
    )  # fmt: skip
    await asyncio.to_thread(
        site.cluster.kubectl, "delete", "namespace", site.namespace.name, "--wait=false"
    )
    await site.until(
        lambda: (
            not site.cluster.kubectl(
                "get", "namespace", site.namespace.name, "--ignore-not-found"
            ).strip()
        ),
        timedelta(seconds=60),
        "the namespace went",
    )
    # What ends the test wants to delete it.
    await asyncio.to_thread(site.cluster.kubectl, "create", "namespace", site.namespace.name)


async def test_p08_no_object_has_a_finalizer_of_ours(site: Site, database):
    await settled(site, database)
    for kind in ("queues.awa.dev", "deployments", "poddisruptionbudgets"):
        for found in await asyncio.to_thread(site.list, kind):
            assert found["metadata"].get("finalizers") is None
