"""P12: no reconcile waits for anything, so a correction is acted on within a second."""

import asyncio
import time
from datetime import timedelta

import pytest

from support.operating import Site, took

pytestmark = pytest.mark.timeout(300)


async def test_p12_a_correction_is_acted_on_at_once_while_a_bad_image_rolls_out(
    site: Site, database
):
    await asyncio.to_thread(site.secret, database)
    await site.start().until_leads()
    await asyncio.to_thread(site.queue)
    await site.until_deployed()
    await site.until(
        lambda: site.condition("WorkersAvailable").get("reason") in {"ImagePull", "NotReady"},
        timedelta(seconds=60),
        "the image cannot be had",
    )
    before = site.get("deployment", "mail-worker")["metadata"]["generation"]
    await asyncio.to_thread(site.queue, worker={"image": "awa.test/right:1"})
    began = time.monotonic()
    await site.until(
        lambda: "right:1" in str(site.get("deployment", "mail-worker")["spec"]["template"]),
        timedelta(seconds=10),
        "the new template was applied",
    )
    # Long before the rollout gives up; what it takes is measured by `make bench-kube`.
    assert took(began) < timedelta(seconds=10)
    assert site.get("deployment", "mail-worker")["metadata"]["generation"] > before


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
