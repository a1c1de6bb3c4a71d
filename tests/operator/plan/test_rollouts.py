"""How the template moves: gated, repaired, paused, stalled, rolled back."""

import copy
from dataclasses import replace
from datetime import timedelta

import pytest

from awa.manifest import ConditionType
from awa_operator.actions import ApplyTemplate, CheckTemplate
from awa_operator.conditions import Reason
from awa_operator.plan import plan_queue
from support.planning.world import World


def actions_of(world, kind):
    return [one for one in world.plan().actions if isinstance(one, kind)]


def test_the_old_template_stays_while_the_migration_runs(ready_world: World):
    world = ready_world
    world.edit(worker={"image": "app:2"})
    world.settle()
    assert world.deployments["email"].image == "app:1"
    assert world.deployments["email"].available == 2
    world.end_job(version=53)
    world.settle()
    assert world.deployments["email"].image == "app:2"


def test_a_template_change_that_needs_no_migration_makes_no_job(ready_world: World):
    world = ready_world
    world.edit(worker={"image": "app:1", "env": [{"name": "GREETING", "value": "hello"}]})
    world.settle()
    assert len(world.jobs_made) == 1
    assert world.deployments["email"].available == 2
    env = world.deployments["email"].template["spec"]["containers"][0]["env"]
    assert {"name": "GREETING", "value": "hello"} in env


def test_a_fix_is_applied_at_once_while_a_bad_rollout_is_stuck(ready_world: World):
    world = ready_world
    world.broken_images = {"app:2"}
    world.edit(worker={"image": "app:2"})
    world.settle()
    world.end_job(version=53)
    world.settle()
    world.edit(worker={"image": "app:1"})
    assert [type(one) for one in world.plan().actions] == [ApplyTemplate]


def test_a_stalled_rollout_needs_a_human_and_leaves_the_old_pods(ready_world: World):
    world = ready_world
    world.broken_images = {"app:2"}
    world.edit(worker={"image": "app:2"})
    world.settle()
    world.end_job(version=53)
    world.settle()
    world.exceed_deadline()
    world.settle(pods=False)
    assert world.condition(ConditionType.STALLED).reason == Reason.ROLLOUT_STALLED
    assert "CrashLoop" in world.condition(ConditionType.STALLED).message
    assert world.deployments["email"].old_pods == 2


def stall(world: World, image: str = "app:2") -> None:
    world.broken_images.add(image)
    world.edit(worker={"image": image})
    world.settle()
    world.end_job(version=world.schema_version + 1)
    world.settle()
    world.exceed_deadline()
    world.settle(pods=False)


@pytest.fixture
def careful(world: World) -> World:
    """A Queue that rolls back by itself, with workers that run."""
    world.edit(rollout={"autoRollback": True})
    world.settle()
    world.end_job()
    world.settle()
    return world


def test_auto_rollback_restores_the_last_good_template_as_it_was(careful: World):
    good = copy.deepcopy(careful.deployments["email"].template)
    stall(careful)
    assert careful.deployments["email"].template == good
    assert careful.condition(ConditionType.STALLED).reason == Reason.ROLLED_BACK


def test_auto_rollback_happens_once_and_waits_for_another_spec(careful: World):
    stall(careful)
    careful.settle()
    assert careful.deployments["email"].image == "app:1"
    assert careful.plan().actions == ()
    careful.exceed_deadline()
    assert careful.plan().actions == ()
    careful.edit(worker={"image": "app:3"})
    careful.settle()
    careful.end_job(version=54)
    careful.settle()
    assert careful.deployments["email"].image == "app:3"
    assert careful.condition(ConditionType.READY).status == "True"


def test_auto_rollback_survives_a_restart(careful: World):
    stall(careful)
    careful.restart()
    careful.settle()
    assert careful.deployments["email"].image == "app:1"
    assert careful.condition(ConditionType.STALLED).reason == Reason.ROLLED_BACK


def test_a_second_bad_template_goes_back_to_the_good_one_too(careful: World):
    stall(careful)
    careful.settle()
    stall(careful, "app:3")
    assert careful.deployments["email"].image == "app:1"


def test_a_pause_holds_the_template_and_says_so(ready_world: World):
    world = ready_world
    world.edit(worker={"image": "app:2"}, rollout={"paused": True})
    world.settle()
    world.end_job(version=53)
    world.settle()
    assert world.deployments["email"].image == "app:1"
    assert world.condition(ConditionType.RECONCILING).reason == Reason.ROLLOUT_PAUSED
    world.edit(replicas=4)
    world.settle()
    assert world.deployments["email"].available == 4
    world.edit(rollout={"paused": False})
    world.settle()
    assert world.deployments["email"].image == "app:2"


def test_rollouts_beyond_the_budget_wait_for_their_turn(ready_world: World):
    world = ready_world
    world.edit(worker={"image": "app:1", "args": ["--quiet"]})
    observed = world.observe()
    plan = plan_queue(replace(observed, is_budget_for_rollouts_left=False), world.now)
    assert not any(isinstance(one, ApplyTemplate) for one in plan.actions)
    assert Reason.WAITING_FOR_TURN in [one.reason for one in plan.waiting]
    assert plan.requeue_after == timedelta(seconds=5)


def test_a_foreign_edit_of_the_template_is_undone(ready_world: World):
    world = ready_world
    live = world.deployments["email"]
    live.manifest = copy.deepcopy(live.manifest)
    live.manifest["spec"]["template"]["spec"]["containers"][0]["image"] = "evil:1"
    live.generation += 1
    live.version += 1
    assert len(actions_of(world, ApplyTemplate)) == 1
    world.settle()
    assert world.deployments["email"].image == "app:1"


def test_what_a_foreign_edit_changed_is_undone_while_a_migration_runs(ready_world: World):
    world = ready_world
    world.edit(worker={"image": "app:2"})
    world.settle()
    live = world.deployments["email"]
    live.manifest = copy.deepcopy(live.manifest)
    live.manifest["spec"]["template"]["spec"]["containers"][0]["image"] = "evil:1"
    live.generation += 1
    live.version += 1
    world.settle()
    assert world.deployments["email"].image == "app:1"
    assert not world.violations


def test_what_others_add_is_left_alone(ready_world: World):
    world = ready_world
    live = world.deployments["email"]
    live.manifest = copy.deepcopy(live.manifest)
    pod = live.manifest["spec"]["template"]
    pod["metadata"]["annotations"]["kubectl.kubernetes.io/restartedAt"] = "now"
    pod["spec"]["containers"][0]["imagePullPolicy"] = "IfNotPresent"
    live.generation += 1
    assert world.plan().actions == ()


def test_a_deleted_deployment_is_made_again(ready_world: World):
    world = ready_world
    del world.deployments["email"]
    world.settle()
    assert world.deployments["email"].available == 2
    assert len(world.jobs_made) == 1


def test_a_deployment_of_someone_else_is_not_touched(world: World):
    world.settle()
    world.end_job()
    world.settle()
    world.deployments["email"].is_ours = False
    plan = world.reconcile()
    assert plan.actions == ()
    assert world.condition(ConditionType.STALLED).reason == Reason.NAME_CONFLICT


def test_an_invalid_template_is_found_before_the_schema_is_migrated(ready_world: World):
    world = ready_world
    world.invalid_images = {"app:2": True}
    world.edit(worker={"image": "app:2"})
    world.settle()
    assert len(world.jobs_made) == 1
    assert world.condition(ConditionType.STALLED).reason == Reason.TEMPLATE_INVALID
    assert "Invalid value" in world.condition(ConditionType.STALLED).message
    assert world.plan().requeue_after is None
    world.invalid_images.clear()
    world.edit(worker={"image": "app:3"})
    world.settle()
    assert len(world.jobs_made) == 2


def test_a_template_that_is_refused_for_now_is_asked_for_again(ready_world: World):
    world = ready_world
    world.invalid_images = {"app:2": False}
    world.edit(worker={"image": "app:2"})
    world.settle()
    assert world.condition(ConditionType.RECONCILING).reason == Reason.WAITING_FOR_QUOTA
    world.invalid_images.clear()
    world.advance(31)
    assert actions_of(world, CheckTemplate)
    world.settle()
    assert len(world.jobs_made) == 2


def test_a_changed_secret_replaces_the_workers_and_migrates_nothing(ready_world: World):
    world = ready_world
    world.secrets["app-db"] = "ffffff"
    world.settle()
    annotations = world.deployments["email"].template["metadata"]["annotations"]
    assert annotations["awa.dev/secret-hash"] == "ffffff"
    assert len(world.jobs_made) == 1


def test_a_changed_secret_replaces_nobody_when_that_is_not_wanted(ready_world: World):
    world = ready_world
    world.edit(rollout={"rotateOnSecretChange": False})
    world.settle()
    before = copy.deepcopy(world.deployments["email"].template)
    world.secrets["app-db"] = "ffffff"
    world.settle()
    assert world.deployments["email"].template == before


def test_a_secret_that_is_gone_leaves_the_workers_as_they_are(ready_world: World):
    world = ready_world
    before = copy.deepcopy(world.deployments["email"].template)
    world.secrets.clear()
    world.settle()
    assert world.deployments["email"].template == before
    assert world.condition(ConditionType.READY).reason == "SecretNotFound"
    assert "app-db" in world.condition(ConditionType.READY).message


def test_rollout_settings_change_without_a_rollout_and_without_the_gate(ready_world: World):
    world = ready_world
    world.lose_database()
    before = copy.deepcopy(world.deployments["email"].template)
    world.edit(rollout={"progressDeadlineSeconds": 900})
    world.settle()
    live = world.deployments["email"]
    assert live.manifest["spec"]["progressDeadlineSeconds"] == 900
    assert live.template == before


def test_a_queue_that_is_being_deleted_is_left_alone(ready_world: World):
    queue = ready_world.queues["email"]
    metadata = queue.metadata.model_copy(update={"deletion_timestamp": "2026-06-01T12:00:00Z"})
    ready_world.queues["email"] = queue.model_copy(update={"metadata": metadata})
    ready_world.deployments.clear()
    plan = ready_world.plan()
    assert plan.actions == ()
    assert plan.status == queue.status
