"""The operator is killed after every single write of every story: the end is always the same."""

from collections.abc import Callable

import pytest

from support.planning.stories import native
from support.planning.world import Killed, World


def first_install(world: World) -> None:
    world.create()


def new_image(world: World) -> None:
    ready(world)
    world.edit(worker={"image": "app:2"})


def failed_migration(world: World) -> None:
    ready(world)
    world.edit(worker={"image": "bad:1"})


def rollback(world: World) -> None:
    ready(world)
    world.broken_images.add("app:2")
    world.edit(worker={"image": "app:2"})
    finish(world)
    world.edit(worker={"image": "app:1"})


def scale_up(world: World) -> None:
    ready(world)
    world.edit(replicas=9)


def to_zero(world: World) -> None:
    ready(world)
    world.edit(suspend=True)


def back_from_zero(world: World) -> None:
    to_zero(world)
    finish(world)
    world.edit(suspend=False)


def two_queues(world: World) -> None:
    world.create("alpha")
    world.create("beta", {"worker": {"image": "app:2"}})


def exclusive(world: World) -> None:
    world.create("alpha", {"migration": {"strategy": "Exclusive"}})
    world.create("beta")
    finish(world)
    world.edit("alpha", worker={"image": "app:2"})


def deleted_beside_another(world: World) -> None:
    world.create("alpha")
    world.create("beta")
    finish(world)
    world.delete("alpha")
    world.edit("beta", worker={"image": "app:2"})


def satellites(world: World) -> None:
    ready(world)
    world.edit(networkPolicy={"enabled": True}, monitoring={"podMonitor": {"enabled": True}})


STORIES: list[Callable[[World], None]] = [
    first_install,
    new_image,
    failed_migration,
    rollback,
    scale_up,
    to_zero,
    back_from_zero,
    two_queues,
    exclusive,
    deleted_beside_another,
    satellites,
]


def ready(world: World) -> None:
    world.create()
    finish(world)


def finish(world: World) -> None:
    """Let everything run to its end: migrations of bad images fail for good, others succeed."""
    for _ in range(6):
        world.settle()
        if not any(job.ended_at is None for job in world.jobs.values()):
            return
        running = next(job for job in world.jobs.values() if job.ended_at is None)
        image = running.view().image
        world.end_job(65 if image.startswith("bad") else 0, version=50 + int(image[-1]))


def end_of(world: World) -> dict[str, object]:
    return {
        "deployments": {
            name: (one.image, one.replicas, one.held, one.available, sorted(one.managers))
            for name, one in world.deployments.items()
        },
        "jobs": sorted((job.name, job.phase, job.ttl_seconds) for job in world.jobs.values()),
        "made": world.jobs_made,
        "satellites": sorted(world.satellites),
        "conditions": {
            name: [(one.type, one.status, one.reason) for one in world.status(name).conditions]
            for name in world.queues
        },
    }


def told(story: Callable[[World], None]) -> World:
    world = World()
    story(world)
    return world


@pytest.mark.parametrize("story", STORIES, ids=lambda story: story.__name__)
def test_a_kill_after_any_write_changes_nothing_about_the_end(story: Callable[[World], None]):
    whole = told(story)
    begin = whole.writes
    finish(whole)
    assert whole.writes > begin, "a story without a write proves nothing"
    assert not whole.violations
    for point in range(begin, whole.writes):
        world = told(story)
        world.kill_after = point
        with pytest.raises(Killed):
            finish(world)
        world.restart()
        finish(world)
        assert end_of(world) == end_of(whole), f"killed after write {point - begin}"
        assert not world.violations


@pytest.mark.parametrize("story", STORIES, ids=lambda story: story.__name__)
def test_a_plan_after_the_end_is_empty(story: Callable[[World], None]):
    world = told(story)
    finish(world)
    for name in world.queues:
        plan = world.plan(name)
        assert plan.actions == ()
        assert plan.status == world.status(name)
        assert plan.events == ()


@pytest.mark.parametrize("story", STORIES, ids=lambda story: story.__name__)
def test_the_plan_after_a_restart_writes_nothing(story: Callable[[World], None]):
    world = told(story)
    finish(world)
    before = world.writes
    world.restart()
    world.settle()
    assert world.writes == before


def test_a_restart_writes_nothing_about_a_queue_that_scales_by_itself():
    """Else an operator that is killed at each write would never come to scale anything."""
    world = native(30)
    before = world.writes
    world.restart()
    world.signals.clear()
    world.settle()
    assert world.writes == before
