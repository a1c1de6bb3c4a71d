"""P20: two migrations never overlap."""

from dataclasses import replace

import pytest

from awa_operator.actions import CreateJob, DeleteJob
from awa_operator.plan import plan_queue
from awa_operator.views import job_view
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


@pytest.mark.parametrize("ending", ["FailureTarget", "Failed"])
def test_p20_a_job_that_has_met_its_failure_target_is_not_over(world: World, ending: str):
    """Only the condition Failed ends it; until then its pods may still be changing the schema."""
    world.settle()
    (job,) = world.jobs.values()
    begun = job.view()
    world.advance(3600)
    world.look_at_database()
    body = {
        "metadata": {
            **job.manifest["metadata"], "uid": begun.uid,
            "creationTimestamp": begun.created_at.isoformat(),
        },
        "spec": job.manifest["spec"],
        "status": {
            "conditions": [
                {
                    "type": ending, "status": "True", "reason": "BackoffLimitExceeded",
                    "lastTransitionTime": begun.created_at.isoformat(),
                }
            ]
        },
    }  # fmt: skip
    view = job_view(body, job.identity, ())
    plan = plan_queue(replace(world.observe(), jobs=(view,)), world.now)
    begins_anew = any(isinstance(one, CreateJob | DeleteJob) for one in plan.actions)
    assert begins_anew is (ending == "Failed")
