"""Exclusive migrations: no worker of the database runs meanwhile, and all come back."""

from contextlib import suppress

import pytest

from awa.manifest import ConditionType
from awa_operator.conditions import Reason, find_condition
from awa_operator.observed import DatabaseProblem, JobPhase
from support.planning.world import Killed, World

EXCLUSIVE = {"migration": {"strategy": "Exclusive"}}


@pytest.fixture
def window() -> World:
    """Two Queues with running workers; the first is about to migrate exclusively."""
    world = World()
    world.create("alpha", {**EXCLUSIVE, "replicas": 3})
    world.create("beta")
    world.settle()
    world.end_job()
    world.settle()
    world.edit("alpha", worker={"image": "app:2"})
    return world


def test_the_job_waits_until_every_worker_of_the_database_has_ended(window: World):
    window.settle(pods=False)
    assert len(window.jobs_made) == 1
    assert [one.replicas for one in window.deployments.values()] == [0, 0]
    assert window.condition(ConditionType.RECONCILING, "alpha").reason == Reason.DRAINING
    assert window.condition(ConditionType.SCALING_ACTIVE, "beta").reason == Reason.HELD_BY_MIGRATION
    window.settle()
    assert len(window.jobs_made) == 2
    assert not window.violations


def test_all_counts_come_back_with_the_new_template(window: World):
    window.settle()
    window.end_job(version=53)
    window.settle()
    counts = {name: one.available for name, one in window.deployments.items()}
    assert counts == {"alpha": 3, "beta": 2}
    assert window.deployments["alpha"].image == "app:2"
    assert all(one.held is None for one in window.deployments.values())


def test_the_old_template_never_comes_back_first(window: World):
    window.settle()
    window.end_job(version=53)
    for _ in range(12):
        window.reconcile("alpha")
        live = window.deployments["alpha"]
        assert live.replicas == 0 or live.image == "app:2"


def test_workers_stay_away_while_an_attempt_pauses(window: World):
    window.settle()
    window.end_job(75, "")
    window.settle()
    assert window.migration("alpha").next_attempt_time is not None
    assert [one.replicas for one in window.deployments.values()] == [0, 0]


def test_workers_stay_away_while_the_database_is_away(window: World):
    window.settle()
    window.end_job(75, "")
    window.settle()
    window.lose_database(DatabaseProblem.CONNECTION_REFUSED)
    window.settle()
    assert [one.replicas for one in window.deployments.values()] == [0, 0]


def test_nothing_is_drained_while_the_database_is_away(window: World):
    window.lose_database()
    window.settle()
    assert window.deployments["alpha"].replicas == 3
    assert window.deployments["beta"].replicas == 2


def test_the_old_workers_come_back_when_a_human_is_needed(window: World):
    window.settle()
    window.end_job(65, "")
    window.settle()
    counts = {name: one.available for name, one in window.deployments.items()}
    assert counts == {"alpha": 3, "beta": 2}
    assert window.deployments["alpha"].image == "app:1"
    assert window.condition(ConditionType.READY, "beta").status == "True"


def test_a_queue_made_during_the_window_starts_no_worker(window: World):
    window.settle()
    window.create("gamma")
    window.settle()
    assert window.deployments["gamma"].replicas == 0
    window.end_job(version=53)
    window.settle()
    assert window.deployments["gamma"].replicas == 2


def test_no_worker_comes_back_beside_a_job_that_the_spec_has_left(window: World):
    window.settle()
    window.edit("alpha", worker={"image": "app:1"})
    window.settle()
    assert [job.phase for job in window.jobs.values()].count(JobPhase.ACTIVE) == 1
    assert [one.replicas for one in window.deployments.values()] == [0, 0]
    assert window.condition(ConditionType.SCALING_ACTIVE, "beta").reason == Reason.HELD_BY_MIGRATION
    window.end_job(version=53)
    window.settle()
    assert {name: one.available for name, one in window.deployments.items()} == {
        "alpha": 3, "beta": 2,
    }  # fmt: skip
    assert not window.violations


def test_no_worker_starts_beside_a_job_that_no_status_tells_of():
    """With no worker to drain, the Job is the first thing that is written."""
    world = World()
    world.create("alpha", EXCLUSIVE)
    world.create("beta", {"replicas": 0})
    world.settle()
    world.end_job()
    world.settle()
    world.edit("alpha", replicas=0)
    world.settle()
    world.edit("alpha", worker={"image": "app:2"})
    while len(world.jobs_made) == 1:
        world.kill_after = world.writes + 1
        with suppress(Killed):
            world.reconcile("alpha")
    world.restart()
    world.edit("beta", replicas=2)
    world.look_at_database()
    for _ in range(5):
        world.reconcile("beta")
        world.run_pods()
    assert world.deployments["beta"].replicas == 0
    assert not world.violations


def test_a_suspended_queue_closes_its_window(window: World):
    window.settle(pods=False)
    window.edit("alpha", suspend=True)
    window.settle()
    assert window.deployments["beta"].available == 2
    assert window.deployments["alpha"].replicas == 0


def test_a_rollout_that_stalled_before_keeps_no_window_shut():
    world = World()
    world.create("alpha", EXCLUSIVE)
    world.create("beta")
    world.settle()
    world.end_job()
    world.settle()
    world.broken_images = {"app:2"}
    world.edit("alpha", worker={"image": "app:2"})
    world.settle()
    world.end_job(version=53)
    world.settle()
    world.exceed_deadline("alpha")
    world.settle(pods=False)
    assert world.condition(ConditionType.STALLED, "alpha").status == "True"
    world.edit("alpha", migration={"args": ["--lane-pool", "512"]})
    plan = world.plan("alpha")
    assert Reason.DRAINING in [one.reason for one in plan.waiting]
    said = find_condition(plan.status, ConditionType.RECONCILING)
    assert said is not None
    assert (said.status, said.reason) == ("True", Reason.DRAINING), "announced in the first pass"
    world.settle(pods=False)
    assert world.deployments["beta"].replicas == 0
    world.settle()
    assert len(world.jobs_made) == 3
    assert not world.violations


def test_two_exclusive_queues_take_turns():
    world = World()
    world.create("alpha", EXCLUSIVE)
    world.create("beta", EXCLUSIVE)
    world.settle()
    world.end_job()
    world.settle()
    world.edit("alpha", worker={"image": "app:2"})
    world.edit("beta", worker={"image": "app:3"})
    for version in (53, 54):
        world.settle()
        assert [job.phase for job in world.jobs.values()].count(JobPhase.ACTIVE) == 1
        assert all(one.new_pods + one.old_pods == 0 for one in world.deployments.values())
        world.end_job(version=version)
    world.settle()
    assert [one.available for one in world.deployments.values()] == [2, 2]
    assert not world.violations
