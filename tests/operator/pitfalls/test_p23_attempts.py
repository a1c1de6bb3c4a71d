"""P23: a permanent failure is one attempt, a disruption is none."""

from awa.manifest import ConditionType
from awa_operator.conditions import Reason
from support.planning.world import World

BAD_SQL = '{"error": "MigrationFailed", "message": "column is missing", "exitCode": 65}'


def test_p23_a_syntax_error_is_one_attempt_and_an_eviction_is_none(world: World):
    world.settle()
    next(iter(world.jobs.values())).disrupt(world.now)
    world.settle()
    assert world.migration().attempts == 1
    world.end_job(65, BAD_SQL)
    world.settle()
    world.advance(86400)
    world.look_at_database()
    world.settle()
    assert len(world.jobs_made) == 1
    assert world.condition(ConditionType.STALLED).reason == Reason.MIGRATION_FAILED
