"""P26: an upgrade of the operator restarts no worker and repeats no migration."""

import copy
import json

import pytest

from awa.manifest import ConditionType
from awa_operator import labels
from awa_operator.actions import ApplyTemplate
from awa_operator.identity import ALGORITHMS, canonical_json, is_hash_of, target_hash
from awa_operator.render.deployment import render_pod_template
from support.planning.golden import HASHES, hashes
from support.planning.queues import make_queue
from support.planning.world import World


def test_p26_stored_hashes_do_not_move_between_releases():
    assert hashes() == json.loads(HASHES.read_text(encoding="utf-8"))


def test_p26_another_operator_replaces_no_pod_and_migrates_nothing(ready_world: World):
    world = ready_world
    world.restart()
    before = world.writes
    world.settle()
    assert world.writes == before


def test_p26_a_template_whose_hash_is_of_an_unknown_algorithm_is_kept(ready_world: World):
    world = ready_world
    live = world.deployments["email"]
    live.manifest = copy.deepcopy(live.manifest)
    live.manifest["metadata"]["annotations"][labels.TEMPLATE_HASH] = "99-abcdef"
    assert not any(isinstance(one, ApplyTemplate) for one in world.plan().actions)


def test_p26_a_success_recorded_with_an_older_algorithm_still_counts(
    ready_world: World, monkeypatch: pytest.MonkeyPatch
):
    newer = {**ALGORITHMS, 2: lambda text: f"{len(text):016x}"}
    monkeypatch.setattr("awa_operator.identity.ALGORITHMS", newer)
    monkeypatch.setattr("awa_operator.identity.versioned_hash.__defaults__", (2,), raising=False)
    queue = ready_world.queues["email"]
    assert target_hash(queue).startswith("2-")
    recorded = ready_world.migration().succeeded_hash
    assert recorded is not None
    assert recorded.startswith("1-")
    ready_world.settle()
    assert len(ready_world.jobs_made) == 1
    assert ready_world.condition(ConditionType.READY).status == "True"


def test_p26_a_stored_hash_is_compared_by_its_own_algorithm():
    template = render_pod_template(make_queue(), None)
    stored = f"1-{ALGORITHMS[1](canonical_json(template))}"
    assert is_hash_of(stored, template)
    assert not is_hash_of(stored, {**template, "spec": {}})
    assert not is_hash_of("7-0000", template)
    assert not is_hash_of("", template)
    assert not is_hash_of(None, template)
