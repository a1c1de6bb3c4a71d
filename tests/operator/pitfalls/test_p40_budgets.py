"""P40: a budget never blocks the drain of a single worker."""

from awa_operator.render.disruption_budget import render_disruption_budget
from support.planning.queues import make_queue
from support.planning.world import World


def test_p40_a_single_worker_has_no_budget_and_several_give_way(world: World):
    assert render_disruption_budget(make_queue(spec={"replicas": 1})) is None
    budget = render_disruption_budget(make_queue(spec={"replicas": 2}))
    assert budget is not None
    assert "minAvailable" not in budget["spec"]
    assert budget["spec"]["maxUnavailable"] == "25%"
    assert budget["spec"]["unhealthyPodEvictionPolicy"] == "AlwaysAllow"
    world.settle()
    world.end_job()
    world.settle()
    key = ("PodDisruptionBudget", "email-worker")
    assert key in world.satellites
    world.edit(replicas=1)
    world.settle()
    assert key not in world.satellites
