"""What follows from a failed attempt: another one, now or later, or a human."""

from datetime import timedelta

import pytest

from awa.manifest import ConditionType
from awa_operator.actions import CreateJob
from awa_operator.conditions import Reason
from awa_operator.plan.attempts import BACKOFF_FIRST, BACKOFF_MOST, backoff
from support.planning.world import World

LOCKED = '{"error": "LockTimeout", "message": "held by pid 7", "exitCode": 75, "applied": []}'
AWAY = '{"error": "DatabaseUnavailable", "message": "gone", "exitCode": 75, "applied": []}'


def fail(world: World, code: int = 75, message: str = AWAY, reason: str | None = None) -> None:
    world.settle()
    world.end_job(code, message, reason)
    world.settle()


def reason_of(world: World, kind: ConditionType) -> str:
    return world.condition(kind).reason


def test_a_permanent_failure_is_not_tried_again(world: World):
    fail(world, 65, '{"error": "MigrationFailed", "message": "no such column", "exitCode": 65}')
    world.advance(86400)
    world.look_at_database()
    world.settle()
    assert len(world.jobs_made) == 1
    assert reason_of(world, ConditionType.STALLED) == Reason.MIGRATION_FAILED
    assert world.condition(ConditionType.RECONCILING).status == "False"


def test_a_passing_failure_is_tried_again_after_its_pause_and_not_before(world: World):
    fail(world)
    due = world.migration().next_attempt_time
    assert due is not None
    pause = due - world.now
    assert BACKOFF_FIRST * 0.8 <= pause <= BACKOFF_FIRST * 1.2
    assert world.plan().requeue_after == pause
    world.advance(pause.total_seconds() - 0.01)
    assert not any(isinstance(one, CreateJob) for one in world.plan().actions)
    world.advance(0.01)
    world.settle()
    assert len(world.jobs_made) == 2
    assert world.migration().attempts == 2


def test_pauses_grow_and_stay_below_ten_minutes_and_do_not_move():
    pauses = [backoff(attempt, "uid") for attempt in range(1, 30)]
    assert pauses == [backoff(attempt, "uid") for attempt in range(1, 30)]
    assert max(pauses) <= BACKOFF_MOST * 1.2
    assert pauses[6] > pauses[0] * 8
    assert len({backoff(1, str(seed)) for seed in range(50)}) > 40


def test_attempts_end_at_the_limit(world: World):
    world.edit(migration={"maxAttempts": 3})
    for _ in range(3):
        fail(world)
        world.advance(BACKOFF_MOST.total_seconds() * 1.2)
        world.look_at_database()
    world.settle()
    assert len(world.jobs_made) == 3
    assert reason_of(world, ConditionType.STALLED) == Reason.ATTEMPTS_EXHAUSTED


@pytest.mark.parametrize("code", [64, 65, 78])
def test_the_codes_of_the_spec_are_permanent(world: World, code: int):
    fail(world, code, "")
    assert reason_of(world, ConditionType.STALLED) == Reason.MIGRATION_FAILED


def test_a_code_that_is_not_listed_is_not_permanent(world: World):
    world.edit(migration={"permanentExitCodes": [64]})
    fail(world, 65, "")
    assert world.condition(ConditionType.STALLED).status == "False"


def test_an_edit_forgives_a_permanent_failure(world: World):
    fail(world, 65, "")
    world.edit(migration={"resources": {"requests": {"cpu": "1"}}})
    world.settle()
    assert len(world.jobs_made) == 2
    assert world.migration().attempts == 1


def test_a_replica_count_written_by_a_scaler_forgives_nothing(world: World):
    world.edit(scaling={"mode": "External"})
    fail(world, 65, "")
    world.edit(replicas=7)
    world.settle()
    assert len(world.jobs_made) == 1
    assert reason_of(world, ConditionType.STALLED) == Reason.MIGRATION_FAILED


def test_deleting_the_failed_job_asks_for_another_attempt(world: World):
    fail(world, 65, "")
    world.jobs.clear()
    world.settle()
    assert len(world.jobs_made) == 2
    assert world.jobs_made[0] != world.jobs_made[1]


def test_a_running_job_that_vanishes_is_replaced_and_not_counted(world: World):
    world.settle()
    world.jobs.clear()
    world.settle()
    assert len(world.jobs_made) == 2
    assert world.migration().attempts == 1


def test_a_lock_is_named_as_what_held_the_migration_off(world: World):
    fail(world, 75, LOCKED)
    assert reason_of(world, ConditionType.SCHEMA_MIGRATED) == Reason.LOCK_TIMEOUT
    assert "held by pid 7" in world.condition(ConditionType.SCHEMA_MIGRATED).message


def test_a_deadline_is_tried_again(world: World):
    fail(world, 143, "", "DeadlineExceeded")
    assert world.migration().next_attempt_time is not None
    assert "activeDeadlineSeconds" in world.condition(ConditionType.SCHEMA_MIGRATED).message


def test_a_disrupted_pod_is_nobodys_failure(world: World):
    world.settle()
    job = next(iter(world.jobs.values()))
    job.disrupt(world.now)
    world.settle()
    assert reason_of(world, ConditionType.SCHEMA_MIGRATED) == Reason.RUNNING
    world.end_job()
    world.settle()
    assert world.migration().attempts == 1
    assert world.condition(ConditionType.READY).status == "True"


def test_a_schema_that_is_too_new_is_no_reason_to_try_again(world: World):
    world.schema_version, world.last_contract_version = 60, 60
    said = '{"error": "SchemaTooNew", "message": "60 > 52", "knownVersion": 52, "exitCode": 65}'
    fail(world, 65, said)
    assert reason_of(world, ConditionType.STALLED) == Reason.SCHEMA_NEWER
    assert not world.deployments


def test_a_schema_that_is_ahead_by_additions_alone_lets_workers_run(world: World):
    world.schema_version, world.last_contract_version = 60, 50
    said = '{"error": "SchemaTooNew", "message": "60 > 52", "knownVersion": 52, "exitCode": 65}'
    fail(world, 65, said)
    assert reason_of(world, ConditionType.SCHEMA_MIGRATED) == Reason.SCHEMA_AHEAD
    assert world.deployments["email"].available == 2
    assert not world.violations


def test_an_old_fleet_is_waited_for_and_not_counted(world: World):
    fail(world, 65, '{"error": "RuntimeTooOld", "message": "a worker of 1.2 lives"}')
    assert reason_of(world, ConditionType.SCHEMA_MIGRATED) == Reason.RUNTIME_TOO_OLD
    assert reason_of(world, ConditionType.RECONCILING) == Reason.WAITING_FOR_FLEET
    world.advance(61)
    world.look_at_database()
    world.settle()
    assert len(world.jobs_made) == 2
    assert world.migration().attempts == 1


def test_a_job_that_is_refused_is_asked_for_again_and_says_so(world: World):
    world.job_refused = "exceeded quota: jobs"
    world.settle()
    assert "exceeded quota" in world.condition(ConditionType.RECONCILING).message
    world.job_refused = None
    world.advance(31)
    world.settle()
    assert len(world.jobs_made) == 1


def test_a_database_that_is_replaced_is_migrated_again(ready_world: World):
    world = ready_world
    world.schema_version = 0
    world.look_at_database()
    world.settle()
    assert len(world.jobs_made) == 2
    world.end_job()
    world.settle()
    assert world.condition(ConditionType.READY).status == "True"


def test_another_secret_is_another_database(ready_world: World):
    world = ready_world
    world.secrets["other-db"] = "bbbbbb"
    world.schema_version = 0
    world.edit(database={"connectionSecretRef": {"name": "other-db"}})
    world.look_at_database()
    world.settle()
    assert len(world.jobs_made) == 2
    assert len({name.split("-")[2] for name in world.jobs_made}) == 2
    assert world.deployments["email"].image == "app:1"


def test_a_record_whose_version_is_never_seen_names_the_two_secrets(world: World):
    world.settle()
    world.end_job()
    world.schema_version = 0
    world.settle()
    world.advance(6)
    world.settle()
    assert not world.deployments
    assert "monitorSecretRef" in world.condition(ConditionType.READY).message
    assert len(world.jobs_made) == 1
    assert (world.plan().requeue_after or timedelta.max) <= timedelta(seconds=5)
