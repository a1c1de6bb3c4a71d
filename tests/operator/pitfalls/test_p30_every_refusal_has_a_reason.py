"""P30: whatever is not done has a reason and words."""

import pytest

from awa_operator.observed import JobPhase
from awa_operator.plan import plan_queue
from support.planning.world import World

REFUSALS = {
    "Secret": lambda world: world.secrets.clear(),
    "database": lambda world: world.lose_database(),
    "template": lambda world: world.invalid_images.update({"app:2": True}),
    "quota": lambda world: setattr(world, "job_refused", "exceeded quota"),
    "pause": lambda world: world.edit(rollout={"paused": True}),
    "suspension": lambda world: world.edit(suspend=True),
    "foreign scaler": lambda world: world.foreign_scaler.update({"email": "HPA mail"}),
}


@pytest.mark.parametrize("refusal", sorted(REFUSALS))
def test_p30_whatever_is_refused_has_a_reason_and_words(ready_world: World, refusal: str):
    world = ready_world
    REFUSALS[refusal](world)
    world.edit(worker={"image": "app:2"}, replicas=3)
    world.settle()
    if any(job.phase is JobPhase.ACTIVE for job in world.jobs.values()):
        world.end_job(version=53)
        world.settle()
    plan = plan_queue(world.observe(), world.now)
    assert plan.waiting
    assert all(one.message for one in plan.waiting)
    told = [one for one in plan.status.conditions if one.message]
    assert {one.reason for one in plan.waiting} & {one.reason for one in told}
