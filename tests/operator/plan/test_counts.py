"""How many workers there are: by the spec, by another scaler, by the planner, or held."""

from datetime import timedelta
from typing import Any

import pytest

from awa.manifest import ConditionType
from awa.scaling import Signals, Unknown
from awa_operator.actions import RankPods, SetReplicas
from awa_operator.conditions import Reason
from awa_operator.plan.scale import deletion_cost
from support.planning.world import World

NATIVE: dict[str, Any] = {
    "replicas": None,
    "scaling": {
        "mode": "Native",
        "minReplicas": 0,
        "maxReplicas": 10,
        "targetJobsPerReplica": 10,
        "cooldownSeconds": 60,
    },
}


@pytest.fixture
def native() -> World:
    """A Queue that scales by itself, at zero."""
    world = World()
    world.create(spec=NATIVE)
    world.settle()
    world.end_job()
    world.poll()
    world.settle()
    return world


def replicas(world: World) -> int:
    return world.deployments["email"].replicas


def test_a_fixed_count_is_the_specs(ready_world: World):
    ready_world.edit(replicas=5)
    ready_world.settle()
    assert replicas(ready_world) == 5
    assert ready_world.condition(ConditionType.SCALING_ACTIVE).reason == Reason.FIXED


def test_a_fixed_count_that_is_not_set_is_one():
    world = World()
    world.create(spec={"replicas": None})
    world.settle()
    world.end_job()
    world.settle()
    assert replicas(world) == 1


def test_somebody_elses_count_is_put_back(ready_world: World):
    ready_world.deployments["email"].scale_by_hand(9, "kubectl")
    ready_world.settle()
    assert replicas(ready_world) == 2


def test_an_idle_queue_starts_at_its_minimum_without_a_pod(native: World):
    assert replicas(native) == 0
    assert native.condition(ConditionType.READY).status == "True"
    assert native.condition(ConditionType.WORKERS_AVAILABLE).reason == Reason.NONE_WANTED


@pytest.mark.parametrize(
    "signal", ["ready", "due_soon", "orphaned", "expired_callbacks", "due_cron"]
)
def test_every_kind_of_due_work_wakes_a_queue(native, signal):
    native.advance(10)
    native.poll(signals=Signals(**{signal: 1}))
    native.settle()
    assert replicas(native) == 1
    assert ("email", "ActivatedFromZero") in [(name, one.reason) for name, one in native.events]


def test_a_plan_made_twice_of_one_poll_is_the_same(native: World):
    native.advance(10)
    native.poll(signals=Signals(ready=35))
    native.settle()
    first = replicas(native)
    for _ in range(5):
        native.advance(1)
        native.settle()
    assert replicas(native) == first


def test_an_idle_queue_at_its_minimum_is_left_alone_until_it_changes(native: World):
    native.advance(10)
    native.poll()
    native.settle()
    assert native.plan().requeue_after is None


def test_above_the_minimum_time_alone_moves_the_count(native: World):
    native.advance(10)
    native.poll(signals=Signals(ready=50))
    native.settle()
    assert native.plan().requeue_after == timedelta(seconds=10.5)
    # A poll that says the same is not told, so the plan looks for it itself.
    elapsed = timedelta()
    native.poll()
    while replicas(native) > 0:
        due = native.plan().requeue_after
        assert due is not None
        assert due >= timedelta(seconds=5)
        native.advance(due.total_seconds())
        native.poll()
        native.settle()
        elapsed += due
        assert elapsed < timedelta(hours=1)


def test_a_queue_that_cannot_be_read_is_counted_without_being_told(native: World):
    native.poll(signals=Unknown())
    native.settle()
    assert native.plan().requeue_after is not None


def test_a_count_in_the_spec_is_said_to_be_without_meaning(native: World):
    assert "spec.replicas" not in native.condition(ConditionType.SCALING_ACTIVE).message
    native.edit(replicas=4)
    native.settle()
    assert "spec.replicas" in native.condition(ConditionType.SCALING_ACTIVE).message
    assert replicas(native) == 0


def test_failed_polls_are_counted_once_each(native: World):
    native.edit(scaling={"fallback": {"replicas": 3, "failureThreshold": 2}})
    native.advance(10)
    native.poll(signals=Unknown())
    for _ in range(10):
        native.settle()
    assert replicas(native) == 0
    native.advance(10)
    native.poll(signals=Unknown())
    native.settle()
    assert replicas(native) == 3
    assert native.condition(ConditionType.SCALING_ACTIVE).status == "Unknown"


def test_nothing_goes_to_zero_with_work_in_hand(native: World):
    native.advance(10)
    native.poll(signals=Signals(ready=1))
    native.settle()
    for _ in range(100):
        native.advance(10)
        native.poll(signals=Signals(running=1))
        native.settle()
    assert replicas(native) == 1


def test_the_last_worker_goes_when_the_queue_was_idle_for_the_whole_cooldown(native: World):
    native.advance(10)
    native.poll(signals=Signals(ready=1))
    native.settle()
    idle = 0
    while replicas(native) == 1:
        native.advance(10)
        native.poll()
        native.settle()
        idle += 10
        assert idle < 1000
    assert idle > 60


def test_at_the_maximum_the_condition_says_so(native: World):
    for _ in range(10):
        native.advance(15)
        native.poll(signals=Signals(ready=500))
        native.settle()
    assert replicas(native) == 10
    assert native.condition(ConditionType.SCALING_ACTIVE).reason == Reason.AT_MAX


def test_pods_are_ranked_before_some_of_them_go(native: World):
    for _ in range(4):
        native.advance(15)
        native.poll(signals=Signals(ready=50))
        native.settle()
    many = replicas(native)
    for _ in range(60):
        native.advance(10)
        native.poll(signals=Signals(running=1))
        plan = native.plan()
        down = [one for one in plan.actions if isinstance(one, SetReplicas)]
        if down:
            break
        native.settle()
    assert down[0].after < many
    kinds = [type(one) for one in plan.actions]
    assert kinds.index(RankPods) == kinds.index(SetReplicas) - 1


def test_going_to_zero_ranks_nobody(ready_world: World):
    ready_world.edit(suspend=True)
    kinds = [type(one) for one in ready_world.plan().actions]
    assert kinds == [SetReplicas]


def test_a_suspended_queue_gives_its_count_back(ready_world: World):
    ready_world.edit(replicas=5)
    ready_world.settle()
    ready_world.edit(suspend=True)
    ready_world.settle()
    assert replicas(ready_world) == 0
    assert ready_world.condition(ConditionType.READY).reason == Reason.SUSPENDED
    ready_world.edit(suspend=False)
    ready_world.settle()
    assert replicas(ready_world) == 5


def test_a_native_queue_comes_back_from_suspension_as_it_was(native: World):
    for _ in range(3):
        native.advance(15)
        native.poll(signals=Signals(ready=50))
        native.settle()
    many = replicas(native)
    native.edit(suspend=True)
    native.settle()
    native.restart()
    native.settle()
    assert replicas(native) == 0
    native.edit(suspend=False)
    native.settle()
    assert replicas(native) == many


def test_what_comes_back_from_suspension_keeps_to_the_bounds_of_now(ready_world: World):
    ready_world.edit(replicas=8)
    ready_world.settle()
    ready_world.edit(suspend=True)
    ready_world.settle()
    ready_world.edit(suspend=False, replicas=None, scaling={**NATIVE["scaling"], "maxReplicas": 3})
    ready_world.settle()
    assert replicas(ready_world) == 3


def test_a_suspended_queue_starts_nothing_at_all():
    world = World()
    world.create(spec={"suspend": True})
    world.settle()
    assert not world.jobs_made
    assert not world.deployments
    assert world.condition(ConditionType.READY).reason == Reason.SUSPENDED


def test_a_suspended_queue_lets_its_migration_end_and_records_it(world: World):
    world.settle()
    world.edit(suspend=True)
    world.settle()
    assert world.condition(ConditionType.RECONCILING).reason == Reason.MIGRATION_RUNNING
    world.end_job()
    world.settle()
    assert world.migration().succeeded_hash is not None
    assert not world.deployments


def test_draining_is_said_until_the_last_pod_is_gone(ready_world: World):
    ready_world.edit(suspend=True)
    ready_world.settle(pods=False)
    assert ready_world.condition(ConditionType.RECONCILING).reason == Reason.DRAINING
    assert ready_world.condition(ConditionType.READY).status == "False"
    ready_world.settle()
    assert ready_world.condition(ConditionType.READY).status == "True"


def test_the_way_down_survives_a_restart_without_a_drop(native: World):
    for _ in range(4):
        native.advance(15)
        native.poll(signals=Signals(ready=50))
        native.settle()
    many = replicas(native)
    native.restart()
    native.poll(signals=Signals(ready=1))
    native.settle()
    assert replicas(native) == many


def test_what_only_the_way_to_zero_needs_is_not_written_for_others(native: World):
    native.edit(scaling={"minReplicas": 1})
    native.settle()
    writes = native.writes
    for jobs in (0, 5, 0, 5, 0):
        native.advance(10)
        native.poll(signals=Signals(ready=jobs, running=0))
        native.settle()
    assert native.writes == writes


def test_costs_order_pods_by_their_oldest_job():
    young, old = timedelta(seconds=3), timedelta(hours=2)
    costs = [deletion_cost(0, old), deletion_cost(1, young), deletion_cost(9, old)]
    assert costs == sorted(costs)
    assert len(set(costs)) == 3
    assert deletion_cost(1, timedelta(days=10**6)) == 2**31 - 1
