"""P17: a Secret that comes later is waited for, and nothing fails meanwhile."""

from awa.manifest import ConditionType
from support.planning.world import World


def test_p17_a_secret_that_comes_later_starts_the_migration_and_no_job_fails_before():
    world = World(secrets={})
    world.create()
    world.settle()
    assert not world.jobs_made
    assert world.condition(ConditionType.DATABASE_REACHABLE).reason == "SecretNotFound"
    for _ in range(6):
        due = world.plan().requeue_after
        assert due is not None
        assert due.total_seconds() <= 5, "a Secret of half a minute ago is looked for in time"
        world.advance(due.total_seconds())
    world.secrets["app-db"] = "aaaaaa"
    world.settle()
    assert len(world.jobs_made) == 1


def test_p17_only_the_secret_of_the_migration_is_missing():
    world = World()
    world.create(spec={"database": {"migrationSecretRef": {"name": "ddl"}}})
    world.settle()
    assert not world.jobs_made
    assert "ddl" in world.condition(ConditionType.RECONCILING).message
    world.secrets["ddl"] = "dddddd"
    world.settle()
    assert len(world.jobs_made) == 1
