"""P21: a failure keeps its words, without secrets, and its last Jobs."""

from awa.manifest import ConditionType
from awa_operator.observed import JobPhase
from support.planning.world import World


def test_p21_the_condition_names_code_attempt_and_last_line_and_no_address(world: World):
    world.settle()
    said = "starting\nconnecting to postgresql://app:s3cret@db.example/app\nFATAL: disk is full\n"
    world.end_job(1, said)
    world.settle()
    message = world.condition(ConditionType.SCHEMA_MIGRATED).message
    assert "exit code 1" in message
    assert "Attempt 1" in message
    assert "disk is full" in message
    world.advance(3600)
    world.look_at_database()
    world.settle()
    world.end_job(65, "cannot connect to postgresql://app:s3cret@db.example/app")
    world.settle()
    everything = world.status().model_dump_json() + str(world.events)
    assert "s3cret" not in everything
    assert "db.example" not in everything


def test_p21_the_jobs_that_failed_last_are_kept(world: World):
    world.edit(migration={"maxAttempts": 9, "historyLimit": 3})
    for _ in range(5):
        world.settle()
        world.end_job(75, "")
        world.advance(3600)
        world.look_at_database()
    world.settle()
    failed = [job.name for job in world.jobs.values() if job.phase is JobPhase.FAILED]
    assert failed == world.jobs_made[2:5]
