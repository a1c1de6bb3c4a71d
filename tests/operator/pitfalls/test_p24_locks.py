"""P24: a migration held off by a lock says by whom, and old workers stay."""

from awa.manifest import ConditionType
from awa_operator.conditions import Reason
from support.planning.world import World


def test_p24_a_lock_of_another_session_is_named_and_old_workers_stay(ready_world: World):
    world = ready_world
    world.edit(
        worker={"image": "app:2"}, database={"migrationSecretRef": {"name": "app-db", "key": "ddl"}}
    )
    world.settle()
    world.end_job(75, '{"error": "LockTimeout", "message": "held by psql (pid 12)"}')
    world.settle()
    assert world.condition(ConditionType.SCHEMA_MIGRATED).reason == Reason.LOCK_TIMEOUT
    assert "psql" in world.condition(ConditionType.SCHEMA_MIGRATED).message
    assert world.deployments["email"].image == "app:1"
    job = world.jobs[world.jobs_made[-1]]
    env = job.manifest["spec"]["template"]["spec"]["containers"][0]["env"]
    assert env[0]["valueFrom"]["secretKeyRef"] == {"name": "app-db", "key": "ddl"}
