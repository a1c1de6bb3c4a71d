"""What watches and lists told: newer wins, whoever brings it, and those whom it concerns hear."""

from typing import Any

import pytest

from awa_operator import labels
from awa_operator.cache import Cache, Listeners
from awa_operator.resources import AUTOSCALERS, DEPLOYMENTS, JOBS, PODS, QUEUES

NATIVE = {"mode": "Native", "targetJobsPerReplica": 10}


class Heard:
    """A cache and whom it told of what."""

    def __init__(self) -> None:
        self.changed: list[tuple[str, str]] = []
        self.nudged: list[tuple[str, str]] = []
        self.removed: list[tuple[str, str]] = []
        self.cache = Cache(
            Listeners(
                changed=self.changed.append, nudged=self.nudged.append, removed=self.removed.append
            )
        )

    def forget(self) -> None:
        for told in (self.changed, self.nudged, self.removed):
            told.clear()


@pytest.fixture
def heard() -> Heard:
    return Heard()


def meta(name: str, version: int, namespace: str = "ns", **more: object) -> dict[str, Any]:
    return {
        "name": name, "namespace": namespace, "uid": f"uid-{name}",
        "resourceVersion": str(version), **more,
    }  # fmt: skip


def queue(
    name: str = "mail", version: int = 1, database: str = "db", generation: int = 1, **spec: object
) -> dict[str, Any]:
    return {
        "apiVersion": "awa.dev/v1alpha1",
        "kind": "Queue",
        "metadata": meta(name, version, generation=generation),
        "spec": {
            "database": {"connectionSecretRef": {"name": database}},
            "worker": {"image": "app:1"},
            "migration": {"mode": "External"},
            **spec,
        },
    }


def pod(name: str, version: int = 1, of: str = "mail") -> dict[str, Any]:
    marks = {**labels.worker_selector(of)}
    return {"metadata": meta(name, version, labels=marks), "spec": {"nodeName": "n"}, "status": {}}


def test_only_a_newer_object_replaces_what_is_known(heard):
    assert heard.cache.put(QUEUES, queue(version=5, generation=2))
    assert not heard.cache.put(QUEUES, queue(version=5, generation=2))
    assert not heard.cache.put(QUEUES, queue(version=4, generation=1))
    assert heard.cache.queue(("ns", "mail")).generation == 2
    assert heard.changed == [("ns", "mail")]


def test_versions_are_compared_as_numbers(heard):
    heard.cache.put(QUEUES, queue(version=9))
    assert heard.cache.put(QUEUES, queue(version=10))


def test_a_queue_that_goes_is_told_and_gone(heard):
    heard.cache.put(QUEUES, queue())
    assert heard.cache.drop(QUEUES, queue(version=2))
    assert heard.removed == [("ns", "mail")]
    assert heard.cache.queue(("ns", "mail")) is None
    assert not heard.cache.drop(QUEUES, queue(version=2))


def test_the_late_end_of_an_old_object_does_not_take_the_new_one_of_its_name(heard):
    new = queue(version=9)
    new["metadata"]["uid"] = "new"
    heard.cache.put(QUEUES, new)
    assert not heard.cache.drop(QUEUES, queue(version=5))
    assert heard.cache.queue(("ns", "mail")).uid == "new"


def test_children_concern_their_queue(heard):
    heard.cache.put(QUEUES, queue())
    heard.forget()
    deployment = {"metadata": meta("mail-worker", 2, labels=labels.worker_labels("mail"))}
    heard.cache.put(DEPLOYMENTS, deployment)
    heard.cache.put(PODS, pod("mail-worker-x"))
    heard.cache.drop(PODS, pod("mail-worker-x", 3))
    assert heard.changed == [("ns", "mail")] * 3


def test_a_job_concerns_every_queue_of_its_database_and_no_other(heard):
    for name in ("a", "b"):
        heard.cache.put(QUEUES, queue(name))
    heard.cache.put(QUEUES, queue("c", database="another"))
    identity = heard.cache.queue(("ns", "a")).identity
    heard.forget()
    job = {"metadata": meta("awa-mig-x-1", 5, labels=labels.job_labels(identity, "1-h", 1))}
    heard.cache.put(JOBS, job)
    assert sorted(heard.changed) == [("ns", "a"), ("ns", "b")]
    assert [one["metadata"]["name"] for one in heard.cache.jobs("ns", identity)] == ["awa-mig-x-1"]


def test_queues_of_one_database_hear_of_each_others_records_and_specs_but_not_of_counts(heard):
    for name in ("a", "b"):
        heard.cache.put(QUEUES, queue(name))
    assert heard.nudged == [("ns", "a")]
    heard.forget()
    counted = queue("a", 2)
    counted["status"] = {"replicas": 3}
    heard.cache.put(QUEUES, counted)
    assert heard.changed == [("ns", "a")]
    heard.forget()
    recorded = queue("a", 3)
    recorded["status"] = {"replicas": 3, "migration": {"succeededHash": "1-h"}}
    heard.cache.put(QUEUES, recorded)
    assert sorted(heard.changed) == [("ns", "a"), ("ns", "b")]


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"scaling": {**NATIVE, "cooldownSeconds": 60}}, {"a"}),
        ({"worker": {"image": "app:1", "concurrency": 3}}, {"a"}),
        ({"monitoring": {"podMonitor": {"enabled": True}}}, {"a"}),
        ({"scaling": {**NATIVE, "maxReplicas": 90}}, {"a", "b"}),
        ({"worker": {"image": "app:2"}}, {"a", "b"}),
        ({"suspend": True}, {"a", "b"}),
        ({"migration": {"mode": "External", "historyLimit": 9}}, {"a", "b"}),
        ({"database": "elsewhere"}, {"a", "b"}),
    ],
)
def test_a_spec_concerns_others_of_its_database_by_what_they_read_of_it(heard, change, told):
    for name in ("a", "b"):
        heard.cache.put(QUEUES, queue(name, scaling=NATIVE))
    heard.forget()
    heard.cache.put(QUEUES, queue("a", 2, generation=2, **({"scaling": NATIVE} | change)))
    assert heard.cache.queue(("ns", "a")).problems == ()
    assert {name for _, name in heard.changed} == told


def test_a_pod_that_goes_concerns_who_waits_for_a_database_without_workers(heard):
    heard.cache.put(QUEUES, queue("a"))
    heard.cache.put(QUEUES, queue("b", migration={"mode": "External", "strategy": "Exclusive"}))
    heard.cache.put(PODS, pod("a-worker-x", of="a"))
    heard.forget()
    heard.cache.drop(PODS, pod("a-worker-x", 4, of="a"))
    assert sorted(heard.changed) == [("ns", "a"), ("ns", "b")]


def test_a_deployment_concerns_who_waits_for_a_database_without_workers(heard):
    heard.cache.put(QUEUES, queue("a"))
    heard.cache.put(QUEUES, queue("b", migration={"mode": "External", "strategy": "Exclusive"}))
    heard.forget()
    deployment = {"metadata": meta("a-worker", 4, labels=labels.worker_labels("a"))}
    heard.cache.put(DEPLOYMENTS, deployment)
    assert {("ns", "a"), ("ns", "b")} <= set(heard.changed)


def test_queues_of_one_database_hear_when_one_drains_all_of_them(heard):
    exclusive = {"migration": {"mode": "External", "strategy": "Exclusive"}}
    heard.cache.put(QUEUES, queue("a", **exclusive))
    heard.cache.put(QUEUES, queue("b"))
    heard.forget()
    for version, reason in enumerate(("Draining", "MigrationRunning", "Settled"), start=3):
        draining = queue("a", version, **exclusive)
        condition = {
            "type": "Reconciling", "status": "True", "reason": reason,
            "lastTransitionTime": "2026-06-01T12:00:00Z",
        }  # fmt: skip
        draining["status"] = {"conditions": [condition]}
        heard.cache.put(QUEUES, draining)
        assert ("ns", "b") in heard.changed, reason
        heard.forget()


def test_a_spec_that_cannot_be_read_is_kept_with_its_problems_and_its_status(heard):
    wrong = queue(suspend="maybe")
    wrong["status"] = {"replicas": 2}
    heard.cache.put(QUEUES, wrong)
    entry = heard.cache.queue(("ns", "mail"))
    assert entry.queue is None
    assert any("suspend" in problem for problem in entry.problems)
    assert entry.status.replicas == 2


def test_a_list_brings_what_is_new_and_takes_what_is_gone(heard):
    heard.cache.put(QUEUES, queue("stays", 1))
    heard.cache.put(QUEUES, queue("went", 2))
    heard.cache.put(QUEUES, queue("newer", 50))
    heard.cache.listing(QUEUES)
    changed = heard.cache.take_list(QUEUES, [queue("stays", 1), queue("came", 8)], "10", None)
    assert sorted(name for _, name in changed) == ["came", "went"]
    assert sorted(entry.key[1] for entry in heard.cache.queues()) == ["came", "newer", "stays"]


def test_a_list_of_one_namespace_says_nothing_of_another(heard):
    other = queue("far")
    other["metadata"]["namespace"] = "elsewhere"
    heard.cache.put(QUEUES, other)
    heard.cache.listing(QUEUES)
    assert heard.cache.take_list(QUEUES, [], "10", "ns") == []


def test_what_goes_while_a_list_is_made_does_not_come_back_with_it(heard):
    heard.cache.put(QUEUES, queue("mail", 3))
    heard.cache.listing(QUEUES)
    heard.cache.drop(QUEUES, queue("mail", 7))
    heard.cache.take_list(QUEUES, [queue("mail", 3)], "5", None)
    assert heard.cache.queue(("ns", "mail")) is None


def test_a_deployment_keeps_who_owns_its_replicas_and_no_other_bookkeeping(heard):
    fields = [
        {"manager": "kubectl", "fieldsV1": {"f:spec": {"f:replicas": {}}}},
        {"manager": "template", "fieldsV1": {"f:spec": {"f:template": {}}}},
        {"manager": "status", "subresource": "status", "fieldsV1": {"f:spec": {"f:replicas": {}}}},
    ]
    notes = {"kubectl.kubernetes.io/last-applied-configuration": "x", "mine": "y"}
    body = {
        "metadata": meta(
            "mail-worker", 2, labels=labels.worker_labels("mail"),
            managedFields=fields, annotations=notes,
        ),
        "spec": {"replicas": 2},
    }  # fmt: skip
    heard.cache.put(DEPLOYMENTS, body)
    kept = heard.cache.find(DEPLOYMENTS, "ns", "mail-worker")
    assert kept["metadata"]["managedFields"] == [{"manager": "kubectl"}]
    assert kept["spec"] == {"replicas": 2}
    assert kept["metadata"]["annotations"]["mine"] == "y"


def test_an_autoscaler_of_a_queues_deployment_is_known_by_the_queue(heard):
    target = {"kind": "Deployment", "name": "mail-worker"}
    body = {"metadata": meta("by-cpu", 2), "spec": {"scaleTargetRef": target}}
    heard.cache.put(AUTOSCALERS, body)
    assert heard.cache.scaler_of_queue(("ns", "mail")) == "HorizontalPodAutoscaler by-cpu"
    of_queue = {"kind": "Queue", "name": "mail"}
    heard.cache.put(
        AUTOSCALERS, {"metadata": meta("by-cpu", 3), "spec": {"scaleTargetRef": of_queue}}
    )
    assert heard.cache.scaler_of_queue(("ns", "mail")) is None


def scaled_by(manager: str, version: int = 2, time: str = "2026-01-01T10:00:00Z") -> dict[str, Any]:
    """Return a Deployment whose count somebody has set."""
    fields = [{"manager": manager, "time": time, "fieldsV1": {"f:spec": {"f:replicas": {}}}}]
    marks = labels.worker_labels("mail")
    return {"metadata": meta("mail-worker", version, labels=marks, managedFields=fields)}


@pytest.mark.parametrize(
    ("manager", "name"),
    [
        ("kube-controller-manager", "a HorizontalPodAutoscaler"),
        ("keda", "KEDA"),
        ("kubectl", None),
        ("awa-operator/scale", None),
    ],
)
def test_only_those_who_set_replicas_all_the_time_are_foreign_scalers(heard, manager, name):
    heard.cache.put(DEPLOYMENTS, scaled_by(manager))
    assert heard.cache.scaler_of_queue(("ns", "mail")) == name


def test_a_trace_of_a_scaler_counts_until_a_later_list_of_the_autoscalers(heard):
    key = ("ns", "mail")
    heard.cache.listing(AUTOSCALERS)
    heard.cache.put(DEPLOYMENTS, scaled_by("kube-controller-manager"))
    heard.cache.take_list(AUTOSCALERS, [], "9", None)
    assert heard.cache.scaler_of_queue(key), "the list may be of before"
    heard.cache.listing(AUTOSCALERS)
    assert heard.cache.scaler_of_queue(key), "it may fail"
    heard.forget()
    heard.cache.take_list(AUTOSCALERS, [], "9", "elsewhere")
    assert heard.cache.scaler_of_queue(key)
    heard.cache.take_list(AUTOSCALERS, [], "9", "ns")
    assert heard.cache.scaler_of_queue(key) is None
    assert heard.changed == [key]
    heard.cache.put(DEPLOYMENTS, scaled_by("kube-controller-manager", 3))
    assert heard.cache.scaler_of_queue(key) is None, "it is the same trace"
    heard.cache.put(
        DEPLOYMENTS, scaled_by("kube-controller-manager", 4, time="2026-01-01T10:00:01Z")
    )
    assert heard.cache.scaler_of_queue(key) == "a HorizontalPodAutoscaler"
