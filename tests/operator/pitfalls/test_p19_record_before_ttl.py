"""P19: a recorded migration is not run again when its Job is gone."""

import pytest

from awa.manifest import ConditionType
from support.planning.world import World


@pytest.mark.parametrize("ttl", [0, 86400])
def test_p19_a_finished_job_that_is_gone_is_not_run_again(ttl: int):
    world = World()
    world.create(spec={"migration": {"ttlSecondsAfterFinished": ttl}})
    world.settle()
    world.end_job()
    world.settle()
    world.advance(ttl)
    world.expire_jobs()
    assert not world.jobs
    world.restart()
    world.settle()
    assert len(world.jobs_made) == 1
    assert world.condition(ConditionType.READY).status == "True"
