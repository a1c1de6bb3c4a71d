"""P18: the gate gates: a failed migration moves no template."""

import copy

from awa.manifest import ConditionType
from support.planning.world import World

BAD_SQL = '{"error": "MigrationFailed", "message": "column is missing", "exitCode": 65}'


def test_p18_a_failed_migration_leaves_the_template_and_the_old_pods(ready_world: World):
    world = ready_world
    before = copy.deepcopy(world.deployments["email"].template)
    world.edit(worker={"image": "app:2"})
    world.settle()
    world.end_job(65, BAD_SQL)
    world.settle()
    assert world.deployments["email"].template == before
    assert world.deployments["email"].available == 2
    assert world.condition(ConditionType.SCHEMA_MIGRATED).status == "False"
    assert not world.violations
