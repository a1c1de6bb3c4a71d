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


def test_p19_a_job_that_got_a_ttl_from_somebody_else_is_recorded_all_the_same():
    """As by an admission policy that gives every new Job one."""
    world = World()
    world.create()
    world.settle()
    (job,) = world.jobs.values()
    job.ttl_seconds = 3600
    world.end_job()
    world.settle()
    assert len(world.jobs_made) == 1
    assert world.migration().succeeded_hash is not None
    assert world.condition(ConditionType.READY).status == "True"
    assert job.view().is_recorded
    assert job.ttl_seconds == 86400, "evidence lives as long as the spec says"
    assert world.plan().actions == ()
