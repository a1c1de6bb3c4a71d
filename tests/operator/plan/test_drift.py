"""Foreign edits are seen; what the API server writes its own way is not taken for one."""

import pytest

from awa_operator.plan.drift import contains

SAME = [
    ({"a": 1, "b": 2}, {"a": 1}),
    ({"cpu": "500m"}, {"cpu": "0.5"}),
    ({"cpu": "2"}, {"cpu": 2}),
    ({"memory": "512Mi"}, {"memory": "0.5Gi"}),
    ({"memory": "1G"}, {"memory": "1e9"}),
    ({"env": [{"name": "B", "value": "2"}, {"name": "A", "value": "1"}]},
     {"env": [{"name": "A", "value": "1"}]}),
    ({"volumes": [{"name": "t", "emptyDir": {}}]}, {"volumes": [{"name": "t", "emptyDir": {}}]}),
    ({"volumes": [{"name": "t"}]}, {"volumes": [{"name": "t", "emptyDir": {}}]}),
    ({"env": [{"name": "A"}]}, {"env": [{"name": "A", "value": ""}]}),
    ({"args": ["x", "y"]}, {"args": ["x", "y"]}),
    ({}, {"minReadySeconds": 0}),
]  # fmt: skip
OTHER = [
    ({"a": 1}, {"a": 2}),
    ({}, {"a": 1}),
    ({"cpu": "500m"}, {"cpu": "5"}),
    ({"env": [{"name": "A", "value": "2"}]}, {"env": [{"name": "A", "value": "1"}]}),
    ({"env": []}, {"env": [{"name": "A", "value": "1"}]}),
    ({"args": ["x", "y", "z"]}, {"args": ["x", "y"]}),
    ({"args": ["y", "x"]}, {"args": ["x", "y"]}),
    ({"automount": True}, {"automount": False}),
    ({}, {"automount": False}),
    ({"minReadySeconds": 5}, {"minReadySeconds": 0}),
    ({"image": "app:2"}, {"image": "app:1"}),
    ({"value": "1"}, {"value": "1.5"}),
    ({"selector": "text"}, {"selector": {"a": 1}}),
    ({"nodeSelector": {"disk": "fast"}}, {"nodeSelector": {}}),
]


@pytest.mark.parametrize(("live", "applied"), SAME)
def test_is_contained(live, applied):
    assert contains(live, applied)


@pytest.mark.parametrize(("live", "applied"), OTHER)
def test_is_not_contained(live, applied):
    assert not contains(live, applied)
