"""Gate, exclusive migration and rollback on the cluster, with real Jobs and workers."""

import pytest

from support.stories import JOBS, LIMIT, WORKERS, pods, template_image, until_ready, until_reason

pytestmark = pytest.mark.timeout(600)


async def test_p18_the_template_moves_only_after_a_migration_that_succeeded(site, image, apply):
    first, second = image(1), image(2)
    await site.start().until_leads()
    apply(worker={"image": first})
    await until_ready(site, "mail")
    status = site.get("queues.awa.dev", "mail")["status"]
    assert status["migration"]["schemaVersion"] == status["database"]["schemaVersion"] > 0
    (job,) = site.list("jobs", JOBS)
    await site.until(
        lambda: site.list("jobs", JOBS)[0]["spec"].get("ttlSecondsAfterFinished") == 86400,
        what="the TTL is armed",
    )
    before = pods(site)

    broken = {"command": ["python", "-c", "raise SystemExit('the disk is full')"]}
    apply(worker={"image": second}, migration={**broken, "permanentExitCodes": [1]})
    failed = await until_reason(site, "Stalled", "MigrationFailed")
    assert "the disk is full" in failed["message"]
    assert template_image(site) == first
    assert pods(site) == before

    apply(worker={"image": second})
    await until_ready(site, "mail")
    assert template_image(site) == second
    assert set(pods(site)).isdisjoint(before)

    apply(worker={"image": first})
    await until_ready(site, "mail")
    assert set(pods(site).values()) == {first}
    # The first, the broken one, and that of the second image: none for going back.
    assert len(site.list("jobs", JOBS)) == 3
    assert job["metadata"]["name"].endswith("-1")


async def test_no_worker_of_the_database_runs_while_one_queue_migrates_exclusively(
    site, image, apply
):
    first, second = image(1), image(2)
    slow = {"strategy": "Exclusive", "command": ["sh", "-c", "sleep 10; exec awa migrate"]}
    await site.start().until_leads()
    apply("mail", worker={"image": first}, replicas=2)
    apply("news", worker={"image": first}, queueName="news")
    await until_ready(site, "mail", "news")

    apply("mail", worker={"image": second}, replicas=2, migration=slow)

    def running_job() -> bool:
        return any(job.get("status", {}).get("active") for job in site.list("jobs", JOBS))

    await site.until(running_job, LIMIT, "the migration runs")
    assert site.list("pods", WORKERS) == []
    held = site.condition("ScalingActive", "news")
    assert held["reason"] == "HeldByMigration"
    await until_ready(site, "mail", "news")
    assert sorted(pods(site, "mail").values()) == [second, second]
    assert list(pods(site, "news").values()) == [first]


async def test_a_rollout_that_stalls_goes_back_by_itself_when_that_is_wanted(site, image, apply):
    first, second = image(1), image(2)
    await site.start().until_leads()
    careful = {"autoRollback": True, "progressDeadlineSeconds": 15}
    apply(worker={"image": first}, rollout=careful)
    await until_ready(site, "mail")
    before = pods(site)
    ends = ["python", "-c", "raise SystemExit(3)"]
    apply(worker={"image": second, "command": ends}, rollout=careful)
    said = await until_reason(site, "Stalled", "RolledBack")
    assert "restored" in said["message"]
    await site.until(lambda: pods(site) == before, LIMIT, "only the old workers are left")
    assert template_image(site) == first
