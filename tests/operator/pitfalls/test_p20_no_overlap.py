"""P20: two migrations never overlap."""

from awa_operator.actions import CreateJob, DeleteJob
from support.planning.world import World


def _alive(pod):
    return type(pod)(name=pod.name, is_live=True)


def test_p20_no_job_while_a_pod_of_the_old_one_is_left(world: World):
    world.settle()
    job = world.end_job(75, "")
    job.pods = tuple(_alive(pod) for pod in job.pods)
    world.advance(3600)
    world.look_at_database()
    world.settle()
    assert len(world.jobs_made) == 1
    job.pods = ()
    world.settle()
    assert len(world.jobs_made) == 2
    assert not world.violations


def test_p20_a_job_that_has_met_its_failure_target_is_not_over(world: World):
    world.settle()
    # FailureTarget is no ending condition: the view of such a Job says Active.
    assert not any(isinstance(one, CreateJob | DeleteJob) for one in world.plan().actions)
