"""P16: no hook waits for pods that wait for the hook: the operator runs the Job."""

from awa.manifest import ConditionType
from awa_operator.observed import JobPhase
from support.planning.world import World


def test_p16_everything_at_once_on_an_empty_database_ends_ready(world: World):
    for _ in range(3):
        world.settle()
        if any(job.phase is JobPhase.ACTIVE for job in world.jobs.values()):
            world.end_job()
    assert world.condition(ConditionType.READY).status == "True"
    assert world.condition(ConditionType.RECONCILING).status == "False"
