"""P33: running jobs keep their pods, and idle pods go first."""

from datetime import timedelta

from awa.scaling import Signals
from awa_operator.actions import RankPods, SetReplicas
from awa_operator.plan.scale import deletion_cost
from support.planning.stories import count, native


def test_p33_running_jobs_keep_their_pods_and_idle_pods_go_first():
    world = native(100)
    assert count(world) == 10
    ranked = False
    for _ in range(200):
        world.advance(10)
        world.poll(signals=Signals(running=30))
        kinds = [type(one) for one in world.plan().actions]
        if SetReplicas in kinds:
            assert RankPods in kinds[: kinds.index(SetReplicas)]
            ranked = True
        world.settle()
    assert ranked
    assert count(world) == 3, "30 running jobs are the work of three"
    busy = [deletion_cost(1, timedelta(seconds=age)) for age in (0, 5, 900)]
    assert max(deletion_cost(0, timedelta()), *busy) == busy[-1]
    assert min(busy) > deletion_cost(0, timedelta())
