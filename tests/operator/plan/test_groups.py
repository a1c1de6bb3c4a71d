"""Several Queues on one database: one Job at a time, one record for all."""

from awa.manifest import ConditionType
from awa_operator.actions import CreateJob
from awa_operator.conditions import Reason
from support.planning.world import World

NEW = {"worker": {"image": "app:2"}}


def both() -> World:
    world = World()
    world.create("alpha")
    world.create("beta")
    return world


def test_two_queues_that_ask_for_the_same_make_one_job():
    world = both()
    world.settle()
    assert len(world.jobs_made) == 1
    world.end_job()
    world.settle()
    assert all(world.condition(ConditionType.READY, name).status == "True" for name in world.queues)
    assert not world.violations


def test_both_makers_choose_the_same_name():
    world = both()
    world.look_at_database()
    for name in world.queues:
        world.reconcile(name)
    plans = [world.plan(name) for name in world.queues]
    names = [one.name for plan in plans for one in plan.actions if isinstance(one, CreateJob)]
    assert len(names) == 2
    assert len(set(names)) == 1


def test_the_job_belongs_to_both_and_goes_with_the_last():
    world = both()
    world.settle()
    job = next(iter(world.jobs.values()))
    assert job.owners == {"uid-alpha", "uid-beta"}
    world.delete("alpha")
    assert world.jobs
    world.delete("beta")
    assert not world.jobs


def test_a_queue_that_comes_later_becomes_an_owner_of_the_running_job():
    world = World()
    world.create("alpha")
    world.settle()
    world.create("beta")
    world.settle()
    assert next(iter(world.jobs.values())).owners == {"uid-alpha", "uid-beta"}
    assert len(world.jobs_made) == 1


def test_a_queue_that_comes_after_the_record_adopts_it():
    world = World()
    world.create("alpha")
    world.settle()
    world.end_job()
    world.settle()
    world.create("beta")
    world.settle()
    assert len(world.jobs_made) == 1
    assert world.condition(ConditionType.READY, "beta").status == "True"
    world.delete("alpha")
    world.settle()
    assert len(world.jobs_made) == 1


def test_the_ttl_waits_until_both_have_recorded():
    world = both()
    world.settle()
    job = world.end_job()
    world.reconcile("alpha")
    world.reconcile("alpha")
    assert job.ttl_seconds is None
    world.settle()
    assert job.ttl_seconds is not None


def test_different_targets_run_one_after_the_other():
    world = World()
    world.create("alpha")
    world.create("beta", NEW)
    world.settle()
    assert len(world.jobs_made) == 1
    assert world.condition(ConditionType.SCHEMA_MIGRATED, "beta").reason == Reason.PENDING
    assert "another Queue" in world.condition(ConditionType.RECONCILING, "beta").message
    world.end_job()
    world.settle()
    assert len(world.jobs_made) == 2
    world.end_job(version=53)
    world.settle()
    assert all(world.condition(ConditionType.READY, name).status == "True" for name in world.queues)
    assert not world.violations


def test_the_older_image_of_a_group_sees_a_schema_that_is_ahead():
    world = both()
    world.settle()
    world.end_job()
    world.settle()
    world.edit("beta", **NEW)
    world.settle()
    world.end_job(version=53)
    world.look_at_database()
    world.settle()
    assert world.condition(ConditionType.SCHEMA_MIGRATED, "alpha").reason == Reason.SCHEMA_AHEAD
    assert world.condition(ConditionType.READY, "alpha").status == "True"


def test_no_number_is_used_twice_when_jobs_are_gone():
    world = both()
    world.settle()
    world.end_job()
    world.settle()
    world.jobs.clear()
    world.edit("beta", **NEW)
    world.settle()
    assert world.jobs_made[1].endswith("-2")


def test_each_database_has_its_own_job():
    world = World()
    world.secrets["other"] = "cccccc"
    world.create("alpha")
    world.create("beta", {"database": {"connectionSecretRef": {"name": "other"}}})
    world.settle()
    assert len(world.jobs_made) == 2


def test_failed_jobs_beyond_the_limit_are_deleted_once():
    world = World()
    world.create(spec={"migration": {"historyLimit": 2, "maxAttempts": 100}})
    for _ in range(6):
        world.settle()
        world.end_job(75, "")
        world.settle()
        world.advance(721)
        world.look_at_database()
    world.settle()
    # Two that are kept, the last word on the target, and the one that runs.
    assert len(world.jobs) <= 4
    assert world.jobs_made[-1] in world.jobs


def test_the_last_failure_stays_whatever_the_limit(world: World):
    world.edit(migration={"historyLimit": 0, "ttlSecondsAfterFinished": 0})
    world.settle()
    world.end_job(65, "")
    world.settle()
    world.expire_jobs()
    world.settle()
    assert len(world.jobs_made) == 1
    assert world.condition(ConditionType.STALLED).status == "True"


def test_of_two_queues_that_serve_the_same_queue_the_younger_waits_and_says_so():
    world = World()
    world.create("beta", {"queueName": "mail"})
    world.settle()
    world.end_job()
    world.settle()
    world.create("zeta", {"queueName": "mail", "worker": {"image": "app:2"}})
    before = world.deployments["beta"].version
    world.settle()
    condition = world.condition(ConditionType.STALLED, "zeta")
    assert condition.reason == Reason.NAME_CONFLICT
    assert "beta" in condition.message
    assert "spec.queueName" in condition.message
    assert "zeta" not in world.deployments
    assert len(world.jobs_made) == 1
    assert world.deployments["beta"].version == before
    assert world.condition(ConditionType.READY, "beta").status == "True"
    world.delete("beta")
    world.settle()
    world.end_job(version=53)
    world.settle()
    assert world.condition(ConditionType.READY, "zeta").status == "True"


def test_the_age_of_two_queues_counts_before_their_names():
    world = World()
    world.create("beta", {"queueName": "mail"})
    world.create("zeta", {"queueName": "mail"})
    for name, hour in (("beta", 12), ("zeta", 9)):
        queue = world.queues[name]
        stamp = {"creation_timestamp": f"2026-06-01T{hour:02d}:00:00Z"}
        metadata = queue.metadata.model_copy(update=stamp)
        world.queues[name] = queue.model_copy(update={"metadata": metadata})
    world.settle()
    assert world.condition(ConditionType.STALLED, "beta").reason == Reason.NAME_CONFLICT
    assert world.condition(ConditionType.STALLED, "zeta").status == "False"
