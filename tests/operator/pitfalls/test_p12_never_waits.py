"""P12: no reconcile waits for anything, so a correction is acted on at once."""

import asyncio
from datetime import timedelta

import pytest

from support.operating import Site

pytestmark = pytest.mark.timeout(300)


async def test_p12_a_correction_is_acted_on_at_once_while_a_bad_image_rolls_out(
    site: Site, make_database, migrated_template
):
    async def apply(name: str, replicas: int, image: str) -> None:
        own = {"connectionSecretRef": {"name": name}}
        await asyncio.to_thread(
            site.queue, name, database=own, replicas=replicas, worker={"image": image}
        )

    for name in ("calm", "mail"):
        database = make_database(template=migrated_template)
        await asyncio.to_thread(site.secret, database, name)
    await site.start().until_leads()
    await apply("calm", 0, "awa.test/none:1")
    await apply("mail", 1, "awa.test/none:1")
    await site.until_deployed("calm")
    await site.until(
        lambda: site.condition("WorkersAvailable").get("reason") in {"ImagePull", "NotReady"},
        timedelta(seconds=60),
        "the image cannot be had",
    )
    await apply("calm", 0, "awa.test/right:1")
    await apply("mail", 1, "awa.test/right:1")

    def is_applied(name: str) -> bool:
        found = site.get("deployment", f"{name}-worker")
        return "right:1" in str(found["spec"]["template"])

    await site.until(lambda: is_applied("calm"), what="the new template of the calm one")
    # Long before the rollout gives up: as soon as where nothing fails. How soon that is, is
    # measured by `make bench-kube`.
    await site.until(lambda: is_applied("mail"), timedelta(seconds=1), "the new template")


async def test_p12_a_job_on_its_way_holds_up_no_other_queue(
    site: Site, make_database, migrated_template
):
    one, other = (
        make_database(template=migrated_template),
        make_database(template=migrated_template),
    )
    await asyncio.to_thread(site.secret, one, "one")
    await asyncio.to_thread(site.secret, other, "other")
    await site.start(CONCURRENCY="1").until_leads()
    job = {"mode": "Job", "image": "awa.test/none:1", "command": ["migrate"]}
    held = {"connectionSecretRef": {"name": "one"}}
    await asyncio.to_thread(site.queue, "held", migration=job, database=held)
    await site.until(lambda: site.list("jobs"), what="there is a Job")
    free = {"connectionSecretRef": {"name": "other"}}
    await asyncio.to_thread(site.queue, "free", database=free)
    await site.until_deployed("free", timedelta(seconds=30))
    assert not await asyncio.to_thread(site.get, "deployment", "held-worker")
