"""Killed after every single write, before its answer: the end of an operator that nobody killed."""

import asyncio
import functools
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any

import psycopg
import pytest

from cluster.databases import KubeDatabase
from cluster.images import Images
from support.crashes import crash_after_every_write, what_there_is
from support.operating import Site

pytestmark = [pytest.mark.timeout(420), pytest.mark.slow]

MIGRATION = "app.kubernetes.io/component=migration"
WORKERS = "app.kubernetes.io/component=worker"


class Story:
    """One Queue (or two) on one database, with real Jobs."""

    def __init__(self, site: Site, database: KubeDatabase, images: Images) -> None:
        self.site = site
        self.image = images.worker.name
        self.is_crashing = False
        self._database = database

    async def begin(self) -> None:
        """Put the Secret in place."""
        await asyncio.to_thread(self.site.namespace.apply, self._database.secret("db"))

    async def apply(self, name: str = "mail", **changes: Any) -> None:
        """Apply a Queue with a real migration and, unless told otherwise, no workers."""
        defaults: dict[str, Any] = {
            "worker": {"image": self.image},
            "migration": {"mode": "Job", "command": ["awa", "migrate"], "image": self.image},
            "replicas": 0,
        }
        for key, value in changes.items():
            if isinstance(value, dict):
                defaults[key] = {**defaults.get(key, {}), **value}
            else:
                defaults[key] = value
        await asyncio.to_thread(self.site.queue, name, **defaults)

    async def settle(self, is_done: Callable[[], bool]) -> None:
        """Let an operator run undisturbed until something is so, and end it."""
        operator = await self.site.start(IDENTITY="crashing").until_leads()
        await self.site.until(is_done, timedelta(seconds=60), "it settled")
        await asyncio.to_thread(operator.stop)

    async def crash(self, is_done: Callable[[], bool], kills: int = 1) -> None:
        """Kill an operator after every write until something is so and nothing is written.

        A story in which nobody was killed would prove nothing: there must be as many `kills`.
        While the story is told without crashes nobody is killed.
        """
        with self.site.api_proxy() as proxy:
            crashes = await crash_after_every_write(
                self.site, proxy, is_done, spares=not self.is_crashing
            )
        if self.is_crashing:
            assert crashes.kills >= kills, crashes.writes

    async def forget(self) -> None:
        """Delete what there is, in the cluster and in the database."""
        await asyncio.to_thread(
            self.site.namespace.kubectl, "delete", "queues.awa.dev", "--all", "--cascade=foreground"
        )

        def is_gone() -> bool:
            return not any(map(self.site.list, ("deployments", "jobs", "pods")))

        await self.site.until(is_gone, timedelta(seconds=60), "everything is gone")
        async with await psycopg.AsyncConnection.connect(self._database.dsn) as connection:
            await connection.execute("drop schema awa cascade")

    def has(self, kind: str, status: str, name: str = "mail", reason: str = "") -> bool:
        """Whether a condition of the present spec has a status, and a reason."""
        queue = self.site.get("queues.awa.dev", name)
        conditions = (queue.get("status") or {}).get("conditions") or ()
        return any(
            one["type"] == kind
            and one["status"] == status
            and one["reason"] in {reason or one["reason"]}
            and one["observedGeneration"] == queue["metadata"]["generation"]
            for one in conditions
        )

    def is_ready(self, name: str = "mail") -> bool:
        """Whether a Queue is ready."""
        return self.has("Ready", "True", name)

    def replicas(self) -> int:
        """Return how many workers are asked for."""
        count: int = self.site.get("deployment", "mail-worker")["spec"]["replicas"]
        return count

    def jobs(self) -> list[dict[str, Any]]:
        """Return the migration Jobs."""
        return self.site.list("jobs", MIGRATION)

    def succeeded(self) -> int:
        """Return how many Jobs have succeeded."""
        return sum(one.get("status", {}).get("succeeded", 0) for one in self.jobs())

    def image_of(self, name: str = "mail") -> str:
        """Return the image that is rolled out."""
        found = self.site.get("deployment", f"{name}-worker")
        image: str = found["spec"]["template"]["spec"]["containers"][0]["image"]
        return image


def told_twice(tell: Callable[..., Awaitable[None]]) -> Callable[..., Awaitable[None]]:
    """Let a test tell its story without crashes and then with them, and compare the ends."""

    @functools.wraps(tell)
    async def twice(story: Story, **parameters: Any) -> None:
        await tell(story, **parameters)
        end = await asyncio.to_thread(what_there_is, story.site)
        await story.forget()
        story.is_crashing = True
        await tell(story, **parameters)
        assert await asyncio.to_thread(what_there_is, story.site) == end

    return twice


@pytest.fixture
async def story(site: Site, kube_database: KubeDatabase, images: Images) -> Story:
    made = Story(site, kube_database, images)
    await made.begin()
    return made


@told_twice
async def test_a_first_install_survives_a_crash_after_every_write(story: Story):
    await story.apply()
    await story.crash(story.is_ready, kills=5)
    assert len(story.jobs()) == story.succeeded() == 1
    assert len(story.site.list("deployments")) == 1
    assert story.image_of() == story.image
    history = story.site.get("queues.awa.dev", "mail")["status"]["migration"]["history"]
    assert [one["outcome"] for one in history] == ["Succeeded"]


@told_twice
async def test_a_new_image_survives_a_crash_after_every_write(story: Story):
    await story.apply()
    await story.settle(story.is_ready)
    await story.apply(
        worker={"image": f"{story.image}", "env": [{"name": "N", "value": "2"}]},
        migration={"env": [{"name": "N", "value": "2"}]},
    )
    await story.crash(lambda: story.is_ready() and story.succeeded() == 2)
    assert len(story.jobs()) == 2
    found = story.site.get("deployment", "mail-worker")
    assert {"name": "N", "value": "2"} in found["spec"]["template"]["spec"]["containers"][0]["env"]


@told_twice
async def test_a_failed_migration_survives_a_crash_after_every_write(story: Story):
    await story.apply()
    await story.settle(story.is_ready)
    before = story.site.get("deployment", "mail-worker")["spec"]["template"]
    await story.apply(
        worker={"image": "awa.test/next:1"},
        migration={"command": ["python3", "-c", "raise SystemExit(65)"]},
    )
    await story.crash(lambda: story.has("Stalled", "True", reason="MigrationFailed"))
    assert len(story.jobs()) == 2
    assert story.succeeded() == 1
    assert story.site.get("deployment", "mail-worker")["spec"]["template"] == before


@told_twice
async def test_a_rollback_survives_a_crash_after_every_write(story: Story):
    await story.apply()
    await story.settle(story.is_ready)
    await story.apply(worker={"image": "awa.test/next:1"}, migration={"image": story.image})
    await story.settle(lambda: story.image_of() == "awa.test/next:1" and story.is_ready())
    jobs = len(story.jobs())
    await story.apply()
    await story.crash(lambda: story.image_of() == story.image and story.is_ready())
    assert len(story.jobs()) == jobs


@told_twice
async def test_scaling_up_and_to_zero_survive_a_crash_after_every_write(story: Story):
    await story.apply()
    await story.settle(story.is_ready)
    jobs = len(story.jobs())
    # Workers that cannot start: only what is asked for matters here.
    await story.apply(replicas=3)
    await story.crash(lambda: story.replicas() == 3 and len(story.site.list("pods", WORKERS)) == 3)
    await story.apply(replicas=0)
    await story.crash(
        lambda: story.replicas() == 0 and story.is_ready() and not story.site.list("pods", WORKERS)
    )
    assert len(story.jobs()) == jobs
    assert len(story.site.list("deployments")) == 1


@told_twice
async def test_two_queues_on_one_database_survive_a_crash_after_every_write(story: Story):
    for name in ("a", "b"):
        await story.apply(name)
    await story.crash(lambda: story.is_ready("a") and story.is_ready("b"))
    assert len(story.jobs()) == story.succeeded() == 1
    (job,) = story.jobs()
    assert {one["name"] for one in job["metadata"]["ownerReferences"]} == {"a", "b"}
    assert len(story.site.list("deployments")) == 2


@told_twice
@pytest.mark.parametrize("moment", ["runs", "is not recorded yet"])
async def test_a_deletion_while_the_job_survives_a_crash_after_every_write(
    story: Story, moment: str
):
    """The Job belongs to both Queues: one goes, and the migration counts for the other."""
    for name in ("stays", "goes"):
        await story.apply(name)
    await story.settle(lambda: len(story.jobs()) == 1)
    if moment != "runs":
        await story.site.until(lambda: story.succeeded() == 1, what="the Job succeeded")
    await asyncio.to_thread(story.site.namespace.kubectl, "delete", "queues.awa.dev/goes")
    await story.crash(
        lambda: story.is_ready("stays") and not story.site.get("deployment", "goes-worker")
    )
    assert [one["metadata"]["name"] for one in story.site.list("deployments")] == ["stays-worker"]
    assert len(story.jobs()) == story.succeeded() == 1
