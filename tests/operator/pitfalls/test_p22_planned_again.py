"""P22: a database that returns is migrated at once."""

from awa.manifest import ConditionType
from awa_operator.conditions import Reason
from support.planning.world import World


def test_p22_a_database_that_returns_is_migrated_at_once(world: World):
    world.settle()
    world.end_job(75, '{"error": "DatabaseUnavailable", "message": "gone"}')
    world.lose_database()
    world.settle()
    for _ in range(60):
        world.advance(10)
        world.lose_database()
        world.settle()
    assert len(world.jobs_made) == 1, "no attempt while the database is away"
    world.return_database()
    world.settle()
    assert len(world.jobs_made) == 2
    assert world.migration().attempts == 1, "what failed before the outage ended does not count"


def test_p22_exhausted_attempts_are_given_anew_when_the_database_returns(world: World):
    world.edit(migration={"maxAttempts": 1})
    world.settle()
    world.end_job(75, "")
    world.settle()
    assert world.condition(ConditionType.STALLED).reason == Reason.ATTEMPTS_EXHAUSTED
    world.advance(10)
    world.lose_database()
    world.settle()
    world.advance(10)
    world.return_database()
    world.settle()
    assert len(world.jobs_made) == 2


def test_p22_a_database_that_is_away_is_probed_again_within_fifteen_seconds(world: World):
    for _ in range(12):
        world.lose_database()
        due = world.plan().requeue_after
        assert due is not None
        assert due.total_seconds() <= 15
        world.advance(due.total_seconds())
