"""P29: going back is accepted in every state, at once, and takes no old pod away first."""

from awa.manifest import ConditionType
from awa_operator.conditions import Reason
from support.planning.stories import next_image
from support.planning.world import World


def test_p29_going_back_needs_no_job_and_keeps_the_old_pods(ready_world: World):
    world = ready_world
    world.broken_images = {"app:2"}
    next_image(world)
    made = len(world.jobs_made)
    world.edit(worker={"image": "app:1"})
    before = world.deployments["email"].available
    world.reconcile()
    assert world.deployments["email"].image == "app:1", "rolled at once"
    assert world.deployments["email"].old_pods >= before - 1
    world.settle()
    assert len(world.jobs_made) == made
    assert world.condition(ConditionType.READY).status == "True"
    assert world.condition(ConditionType.SCHEMA_MIGRATED).reason == Reason.SCHEMA_AHEAD


def test_p29_going_back_works_while_the_migration_of_the_new_version_runs(ready_world: World):
    world = ready_world
    world.edit(worker={"image": "app:2"})
    world.settle()
    world.edit(worker={"image": "app:1"})
    world.settle()
    assert world.condition(ConditionType.READY).status == "True"
    assert world.deployments["email"].image == "app:1"


def test_p29_going_back_to_an_image_with_other_settings_needs_no_job_either(ready_world: World):
    world = ready_world
    next_image(world)
    made = len(world.jobs_made)
    world.edit(worker={"image": "app:1"}, migration={"command": ["awa", "migrate", "--json"]})
    world.settle()
    assert len(world.jobs_made) == made
    assert world.condition(ConditionType.READY).status == "True"


def test_p29_other_settings_of_the_same_image_are_run(ready_world: World):
    world = ready_world
    for made, lanes in enumerate(("512", "600", "700"), start=2):
        world.edit(migration={"args": ["--lane-pool", lanes]})
        world.settle()
        assert len(world.jobs_made) == made
        world.end_job()
        world.settle()
