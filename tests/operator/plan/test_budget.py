"""Connections: all workers of a database at their most, against what its server allows."""

import pytest

from awa.manifest import ConditionType
from awa_operator.plan.budget import RESERVE, most_connections, most_workers
from support.planning.queues import make_queue
from support.planning.world import World

NATIVE = {"mode": "Native", "targetLagSeconds": 9, "maxReplicas": 10}


@pytest.mark.parametrize(
    ("spec", "workers"),
    [
        ({"replicas": 4}, 5),
        ({"replicas": 4, "rollout": {"maxSurge": 0}}, 4),
        ({"replicas": 4, "rollout": {"maxSurge": 3}}, 7),
        ({"replicas": None}, 2),
        ({"scaling": NATIVE}, 13),
        ({"replicas": 4, "suspend": True}, 0),
        ({"replicas": 0, "rollout": {"maxSurge": 3}}, 0),
    ],
)
def test_workers_at_their_most_include_those_of_a_rollout(spec, workers):
    assert most_workers(make_queue(spec=spec)) == workers


def test_a_worker_takes_its_pools_and_some_of_its_own():
    spec = {"replicas": 1, "rollout": {"maxSurge": 0}}
    assert most_connections(make_queue(spec=spec)) == 14
    env = [{"name": "AWA_PROCESSES", "value": "2"}, {"name": "AWA_MAX_CONNECTIONS", "value": "4"}]
    assert most_connections(make_queue(spec={**spec, "worker": {"env": env}})) == 15


def test_too_few_connections_are_said_once_and_hold_nothing_up():
    world = World(max_connections=40)
    world.create("alpha")
    world.create("beta")
    world.settle()
    world.end_job()
    world.settle()
    for name in world.queues:
        message = world.condition(ConditionType.SCALING_ACTIVE, name).message
        assert f"take {2 * 3 * 14 + RESERVE} connections" in message
        assert "the server allows 40" in message
        assert world.condition(ConditionType.READY, name).status == "True"
    before = world.writes
    world.restart()
    world.settle()
    assert world.writes == before
    reasons = [event.reason for _, event in world.events]
    assert reasons.count("TooManyConnections") == 2


def test_enough_connections_are_not_mentioned():
    world = World(max_connections=1000)
    world.create()
    world.settle()
    assert "connections" not in world.condition(ConditionType.SCALING_ACTIVE).message
