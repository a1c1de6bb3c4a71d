"""P40: a budget never blocks the drain of a single worker."""

import pytest

from awa_operator.render.disruption_budget import render_disruption_budget
from support.operating import Site
from support.planning.queues import make_queue
from support.planning.world import World
from support.stories import LIMIT, WORKERS, evict, until_ready

FIXED = {"replicas": 1}
NATIVE = {
    "replicas": None,
    "scaling": {"mode": "Native", "minReplicas": 1, "maxReplicas": 4, "targetJobsPerReplica": 10},
}


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


@pytest.mark.timeout(420)
@pytest.mark.parametrize(("counts", "budgets"), [(FIXED, 0), (NATIVE, 1)], ids=["fixed", "native"])
async def test_p40_a_drain_takes_the_only_worker_and_another_one_comes(
    site: Site, image, apply, counts, budgets
):
    await site.start().until_leads()
    apply(worker={"image": image(1)}, **counts)
    await until_ready(site, "mail")
    (only,) = ready_workers(site)

    def are_counting() -> bool:
        found = site.list("pdb")
        return [one["status"].get("currentHealthy") for one in found] == [1] * budgets

    await site.until(are_counting, what="every budget knows the worker")
    evict(site, only)

    def has_followed() -> bool:
        return len(ready_workers(site) - {only}) == 1

    await site.until(has_followed, LIMIT, "another one is ready")


def ready_workers(site: Site) -> set[str]:
    """Return the names of worker pods that are ready."""
    return {
        one["metadata"]["name"]
        for one in site.list("pods", WORKERS)
        for said in one["status"].get("conditions", ())
        if (said["type"], said["status"]) == ("Ready", "True")
    }
