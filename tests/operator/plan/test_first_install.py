"""A new Queue on an empty database: checked, probed, migrated, recorded, rolled out, in order."""

import pytest

from awa.manifest import ConditionType
from awa_operator.actions import ApplyTemplate, CheckTemplate, CreateJob, ProbeDatabase, SetReplicas
from awa_operator.conditions import Reason
from awa_operator.observed import JobPhase
from support.planning.world import World


def kinds(plan):
    return [type(action) for action in plan.actions]


def test_the_first_look_asks_the_database_and_the_api_server_and_writes_nothing(world: World):
    plan = world.reconcile()
    assert kinds(plan) == [ProbeDatabase, CheckTemplate]
    assert not world.jobs
    assert not world.deployments


def test_the_job_comes_before_any_deployment(world: World):
    world.settle()
    assert [job.phase for job in world.jobs.values()] == [JobPhase.ACTIVE]
    assert not world.deployments
    assert world.condition(ConditionType.SCHEMA_MIGRATED).reason == Reason.RUNNING
    assert world.condition(ConditionType.RECONCILING).reason == Reason.MIGRATION_RUNNING


def test_the_result_is_recorded_by_a_pass_that_does_nothing_else(world: World):
    world.settle()
    world.end_job()
    plan = world.reconcile()
    assert plan.actions == ()
    assert world.migration().schema_version == 52
    assert not world.deployments


def test_the_deployment_follows_the_record_and_starts_with_the_count_of_the_spec(world: World):
    world.settle()
    world.end_job()
    world.settle()
    deployment = world.deployments["email"]
    assert (deployment.replicas, deployment.available) == (2, 2)
    assert world.condition(ConditionType.READY).status == "True"


def test_the_ttl_is_armed_only_after_the_record(world: World):
    world.settle()
    job = world.end_job()
    world.reconcile()
    assert job.ttl_seconds is None
    world.settle()
    assert job.ttl_seconds == 86400


def test_a_settled_queue_needs_nothing_more(ready_world: World):
    plan = ready_world.plan()
    assert plan.actions == ()
    assert plan.requeue_after is None
    assert plan.status == ready_world.status()
    assert plan.waiting == ()
    assert plan.events == ()


def test_a_rollout_takes_at_most_six_writes_to_the_queue(ready_world: World):
    world, before = ready_world, []
    world.edit(worker={"image": "app:2"})
    for step in (lambda: None, world.end_job, lambda: None):
        step()
        while True:
            status = world.status()
            world.settle()
            if world.status() == status:
                break
            before.append(status)
    assert world.condition(ConditionType.READY).status == "True"
    assert len(before) <= 6


def test_the_count_belongs_to_one_manager_and_to_that_of_scaling_from_the_next_write_on(
    ready_world: World,
):
    world = ready_world
    assert world.deployments["email"].managers == {"awa-operator/template"}
    world.edit(worker={"image": "app:2"})
    world.settle()
    world.end_job()
    world.settle()
    assert world.deployments["email"].managers == {"awa-operator/scale"}


def test_the_count_belongs_to_the_scale_manager_alone_where_others_scale(ready_world: World):
    ready_world.edit(scaling={"mode": "External"})
    ready_world.settle()
    assert ready_world.deployments["email"].managers == {"awa-operator/scale"}


def test_a_template_that_is_repaired_before_the_count_ever_changed_keeps_the_count(world: World):
    world.edit(replicas=3)
    world.settle()
    world.end_job()
    world.settle()
    live = world.deployments["email"]
    live.manifest["spec"]["template"]["spec"]["containers"][0]["image"] = "evil:1"
    live.generation += 1
    live.version += 1
    world.reconcile()  # one pass: the default count may not be there for a moment
    assert (live.image, live.replicas, live.managers) == ("app:1", 3, {"awa-operator/scale"})


def test_every_action_before_the_job_is_asked_again_after_a_restart(world: World):
    world.reconcile()
    world.restart()
    assert kinds(world.reconcile()) == [ProbeDatabase, CheckTemplate]
    world.settle()
    assert len(world.jobs) == 1


@pytest.mark.parametrize("mode", ["External", "None"])
def test_no_job_where_someone_else_migrates_or_nobody_checks(mode: str):
    world = World(schema_version=52)
    world.create(spec={"migration": {"mode": mode, "command": None}})
    world.settle()
    assert not world.jobs
    assert world.condition(ConditionType.READY).status == "True"


def test_mode_external_waits_until_there_is_a_schema():
    world = World()
    world.create(spec={"migration": {"mode": "External", "command": None}})
    world.settle()
    assert not world.deployments
    assert world.condition(ConditionType.SCHEMA_MIGRATED).status == "False"
    world.schema_version = 52
    world.look_at_database()
    world.settle()
    assert world.condition(ConditionType.SCHEMA_MIGRATED).reason == Reason.EXTERNAL
    assert world.deployments["email"].available == 2


def test_no_template_moves_in_the_pass_that_creates_the_job(world: World):
    world.reconcile()
    plan = world.reconcile()
    assert kinds(plan) == [CreateJob]
    assert not any(isinstance(one, ApplyTemplate | SetReplicas) for one in plan.actions)


def test_whoever_asks_for_a_probe_looks_for_its_answer_without_being_told(world: World):
    first = world.plan()
    assert ProbeDatabase in kinds(first)
    assert first.requeue_after is not None
    world.settle()
    world.advance(30)
    world.end_job()
    world.reconcile()
    verifying = world.plan()
    assert ProbeDatabase in kinds(verifying), "the last probe is older than the migration's end"
    assert verifying.requeue_after is not None
    assert verifying.requeue_after.total_seconds() <= 0.1


def test_whoever_finds_a_probe_too_old_looks_for_the_next_one(world: World):
    world.settle()
    world.end_job(75, "")
    world.settle()
    world.advance(600)
    plan = world.plan()
    assert ProbeDatabase in kinds(plan)
    assert plan.requeue_after is not None


def test_what_is_said_when_a_rollout_begins_holds_until_something_comes_of_it(world: World):
    world.delete("email")
    world.schema_version = 52
    world.create(spec={"migration": {"mode": "External"}})
    while not world.deployments:
        world.reconcile()
    said = world.status()
    # The Deployment is seen, and its controller has not acted yet.
    world.reconcile()
    assert world.status() == said
