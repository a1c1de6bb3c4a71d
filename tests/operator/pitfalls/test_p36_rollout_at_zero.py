"""P36: at zero a rollout ends without pods, and the first pod is of the new template."""

from awa.manifest import ConditionType
from awa.scaling import Signals
from support.planning.stories import count, look, native


def test_p36_a_rollout_at_zero_ends_without_a_pod_and_the_first_pod_is_new():
    world = native(0)
    assert count(world) == 0
    world.edit(worker={"image": "app:2"})
    world.settle()
    world.end_job(version=53)
    world.settle()
    assert world.condition(ConditionType.READY).status == "True"
    assert world.deployments["email"].new_pods == 0
    look(world, Signals(ready=1))
    assert count(world) == 1
    assert world.deployments["email"].image == "app:2"


def test_p36_waking_waits_for_a_template_that_is_applied_in_the_same_pass():
    world = native(0)
    world.edit(worker={"image": "app:1", "args": ["-v"]})
    world.advance(10)
    world.poll(signals=Signals(ready=1))
    world.reconcile()
    assert count(world) == 0
    assert world.deployments["email"].generation > 1
    world.settle()
    assert count(world) == 1


def test_p36_jobs_that_no_worker_knew_wake_a_new_template_once_and_the_old_one_never():
    world = native(0)
    set_aside = Signals(set_aside=3)
    look(world, Signals(ready=1))
    assert count(world) == 1
    for _ in range(40):
        look(world, set_aside)
    assert count(world) == 0
    world.edit(worker={"image": "app:2"})
    world.settle()
    world.end_job(version=53)
    world.settle()
    look(world, set_aside)
    assert count(world) == 1
    assert world.deployments["email"].image == "app:2"
    for _ in range(40):
        look(world, set_aside)
    assert count(world) == 0
