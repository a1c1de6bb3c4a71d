"""What objects of the API server mean to a plan."""

from datetime import UTC, datetime
from typing import Any

import pytest

from awa_operator import labels
from awa_operator.observed import JobPhase
from awa_operator.views import (
    deployment_view,
    is_pod_over,
    job_pod_view,
    job_view,
    pod_problem,
)

TIME = "2026-01-01T10:00:00Z"
MOMENT = datetime(2026, 1, 1, 10, tzinfo=UTC)


def job(*conditions: dict[str, Any], **spec: Any) -> dict[str, Any]:
    return {
        "metadata": {
            "name": "awa-mig-0123456789-3", "uid": "j", "creationTimestamp": TIME,
            "labels": labels.job_labels("0123456789", "1-abc", 2),
            "annotations": {labels.IMAGE: "app:2", labels.SPECS: '{"u": "1-x"}'},
        },
        "spec": spec,
        "status": {"conditions": list(conditions)},
    }  # fmt: skip


def condition(kind: str, reason: str = "", status: str = "True") -> dict[str, Any]:
    return {"type": kind, "status": status, "reason": reason, "lastTransitionTime": TIME}


@pytest.mark.parametrize(
    ("conditions", "phase"),
    [
        ([], JobPhase.ACTIVE),
        ([condition("FailureTarget", "DeadlineExceeded")], JobPhase.ACTIVE),
        ([condition("SuccessCriteriaMet")], JobPhase.ACTIVE),
        ([condition("Complete")], JobPhase.COMPLETE),
        ([condition("Failed", "PodFailurePolicy")], JobPhase.FAILED),
        ([condition("Failed", status="False")], JobPhase.ACTIVE),
    ],
)
def test_only_complete_and_failed_end_a_job(conditions, phase):
    assert job_view(job(*conditions), "0123456789", ()).phase is phase


def test_a_job_is_recorded_by_our_mark_and_not_by_its_ttl():
    body = job(condition("Complete"), ttlSecondsAfterFinished=60)
    assert not job_view(body, "0123456789", ()).is_recorded
    body["metadata"]["annotations"][labels.RECORDED] = "true"
    assert job_view(body, "0123456789", ()).is_recorded


def test_a_job_carries_its_number_target_attempt_and_what_its_owners_asked_for():
    view = job_view(job(condition("Failed", "DeadlineExceeded")), "0123456789", ())
    assert (view.number, view.target_hash, view.attempt) == (3, "1-abc", 2)
    assert view.failed_reason == "DeadlineExceeded"
    assert view.ended_at == MOMENT
    assert view.image == "app:2"
    assert view.spec_hashes == {"u": "1-x"}


def pod(
    phase: str = "Running",
    *,
    ready: str = "False",
    state: Any = None,
    last: Any = None,
    **meta: Any,
) -> dict[str, Any]:
    marks = {"pod-template-hash": meta.pop("template", "t1")}
    return {
        "metadata": {"name": "p", "labels": marks, "creationTimestamp": TIME, **meta},
        "status": {
            "phase": phase,
            "startTime": TIME,
            "conditions": [{"type": "Ready", "status": ready, "lastTransitionTime": TIME}],
            "containerStatuses": [{"state": state or {}, "lastState": last or {}}],
        },
    }


def waiting(reason: str, message: str = "") -> dict[str, Any]:
    return {"waiting": {"reason": reason, "message": message}}


def terminated(code: int, message: str = "") -> dict[str, Any]:
    return {"terminated": {"exitCode": code, "message": message}}


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (pod(state=waiting("ImagePullBackOff")), "ImagePull"),
        (pod(state=waiting("CreateContainerConfigError")), "ConfigError"),
        (pod(state=waiting("CrashLoopBackOff"), last=terminated(1, "boom")), "CrashLoop"),
        (pod(state=terminated(3)), "CrashLoop"),
        (pod(last=terminated(78, "the schema is too new")), "SchemaIncompatible"),
        (pod(), "NotReady"),
    ],
)
def test_what_is_wrong_with_a_worker_pod_has_a_reason(body, reason):
    assert pod_problem([body]).reason == reason


def test_an_unschedulable_pod_says_why():
    body = pod("Pending")
    body["status"]["conditions"].append(
        {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/1"}
    )
    assert pod_problem([body]).reason == "Unschedulable"
    assert pod_problem([body]).message == "0/1"


def test_pods_of_older_templates_and_those_on_their_way_out_do_not_count():
    old = pod(
        state=waiting("CrashLoopBackOff"), template="t0", creationTimestamp="2025-01-01T00:00:00Z"
    )
    leaving = pod(state=waiting("CrashLoopBackOff"), deletionTimestamp=TIME)
    assert pod_problem([old, leaving, pod(ready="True")]) is None


def test_the_most_telling_problem_is_told():
    assert pod_problem([pod(), pod(state=waiting("ErrImagePull"))]).reason == "ImagePull"


def test_a_pod_of_a_job_is_live_until_its_phase_says_otherwise_even_while_it_is_deleted():
    assert job_pod_view(pod("Running", deletionTimestamp=TIME)).is_live
    assert job_pod_view(pod("Pending")).is_live
    assert not job_pod_view(pod("Failed", state=terminated(64, "no"))).is_live
    assert job_pod_view(pod("Failed", state=terminated(64, "no"))).exit_code == 64


def test_a_pod_is_over_only_when_its_phase_says_so():
    assert is_pod_over(pod("Running", deletionTimestamp=TIME)) is None
    evicted = pod("Failed")
    evicted["status"]["reason"] = "Evicted"
    assert "Evicted" in is_pod_over(evicted)


def deployment(**meta: Any) -> dict[str, Any]:
    owner = {"uid": "q", "controller": True}
    return {
        "metadata": {
            "name": "mail-worker", "uid": "d", "generation": 4, "ownerReferences": [owner], **meta,
        },
        "spec": {
            "replicas": 0,
            "template": {
                "metadata": {"annotations": {labels.SECRET_HASH: "abc"}},
                "spec": {"containers": [{"name": "side"}, {"name": "worker", "image": "app:1"}]},
            },
        },
        "status": {
            "observedGeneration": 3, "replicas": 2, "readyReplicas": 1,
            "conditions": [
                condition("Available"), condition("Progressing", "NewReplicaSetAvailable"),
            ],
        },
    }  # fmt: skip


def test_a_deployment_at_zero_is_read_as_zero():
    view = deployment_view(deployment(), "q", (), 4)
    assert (view.replicas, view.total, view.ready, view.updated) == (0, 2, 1, 0)
    assert view.is_ours
    assert view.image == "app:1"
    assert view.secret_hash == "abc"
    assert view.is_available
    assert view.applied_generation == 4


def test_a_deployment_of_somebody_else_is_not_ours():
    assert not deployment_view(deployment(), "another", (), None).is_ours


def test_a_replica_set_that_may_not_create_pods_is_the_problem():
    body = deployment()
    refused = {**condition("ReplicaFailure", "FailedCreate"), "message": "exceeded quota"}
    body["status"]["conditions"].append(refused)
    assert deployment_view(body, "q", (), None).pod_problem.reason == "Refused"
