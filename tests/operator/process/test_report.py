"""Whether two statuses say the same."""

from awa.manifest.status import Condition, QueueStatus
from awa_operator.report import only_counts_differ, plain, says_the_same


def status(time: str = "2026-01-01T00:00:00Z", **changes: object) -> QueueStatus:
    condition = {
        "type": "Ready", "status": "True", "reason": "WorkersAvailable", "message": "",
        "lastTransitionTime": time, **changes,
    }  # fmt: skip
    return QueueStatus(replicas=1, conditions=(Condition(**condition),))


def test_when_a_condition_last_changed_makes_no_difference():
    assert says_the_same(status(), status("2027-01-01T00:00:00Z"))


def test_everything_else_does():
    assert not says_the_same(status(), status(status="False"))
    assert not says_the_same(status(), status(reason="Other"))
    assert not says_the_same(status(), status(message="more"))
    assert not says_the_same(status(), QueueStatus(replicas=1))


def test_a_condition_of_somebody_else_makes_no_difference():
    foreign = status(type="example.org/Approved").conditions
    more = status().model_copy(update={"conditions": (*status().conditions, *foreign)})
    assert says_the_same(more, status())


def test_what_is_not_set_is_not_written():
    assert plain(QueueStatus(replicas=0)) == {"replicas": 0, "conditions": []}


def test_counts_alone_can_wait_and_nothing_else_can():
    counts = {"replicas": 3, "ready_replicas": 2, "updated_replicas": 1}
    assert only_counts_differ(status(), status().model_copy(update=counts))
    for changes in ({"desired_replicas": 3}, {"image": "app:2"}, {"conditions": ()}):
        after = status().model_copy(update={**counts, **changes})
        assert not only_counts_differ(status(), after), changes
