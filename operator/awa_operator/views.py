"""What objects of the API server mean to a plan: pure functions from JSON values to views."""

import json
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

from awa_operator import labels, names
from awa_operator.observed import (
    DeploymentView,
    JobPhase,
    JobPodView,
    JobView,
    PodProblem,
    PodTrouble,
    SatelliteView,
)

type Object = Mapping[str, Any]

_IMAGE_PULL = frozenset(
    {"ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull"}
)
_CONFIG = frozenset({"CreateContainerConfigError", "CreateContainerError", "RunContainerError"})
_LONGEST_MESSAGE = 1024


def moment(text: object) -> datetime | None:
    """Return a time of the API server, None if there is none."""
    return datetime.fromisoformat(str(text)).astimezone(UTC) if text else None


def deployment_view(
    body: Object, owner_uid: str, pods: Iterable[Object], applied_generation: int | None
) -> DeploymentView:
    """Return the Deployment of a Queue; `pods` are its worker pods."""
    meta, spec, status = body["metadata"], body.get("spec") or {}, body.get("status") or {}
    notes: Mapping[str, str] = meta.get("annotations") or {}
    template = spec.get("template") or {}
    conditions = _conditions(status)
    progressing = conditions.get("Progressing", {})
    held = notes.get(labels.HELD_REPLICAS, "")
    return DeploymentView(
        uid=str(meta.get("uid", "")),
        resource_version=str(meta.get("resourceVersion", "")),
        generation=int(meta.get("generation", 0)),
        observed_generation=int(status.get("observedGeneration", 0)),
        is_ours=_is_controlled_by(meta, owner_uid),
        is_deleting=meta.get("deletionTimestamp") is not None,
        replicas=int(spec.get("replicas", 1)),
        total=int(status.get("replicas", 0)),
        ready=int(status.get("readyReplicas", 0)),
        updated=int(status.get("updatedReplicas", 0)),
        available=int(status.get("availableReplicas", 0)),
        template_hash=notes.get(labels.TEMPLATE_HASH),
        stored_template=notes.get(labels.TEMPLATE),
        last_good_template=notes.get(labels.LAST_GOOD_TEMPLATE),
        rolled_back_hash=notes.get(labels.ROLLED_BACK),
        held_replicas=int(held) if held.isdecimal() else None,
        image=_image(template),
        secret_hash=((template.get("metadata") or {}).get("annotations") or {}).get(
            labels.SECRET_HASH
        ),
        is_available=conditions.get("Available", {}).get("status") == "True",
        progress_reason=str(progressing.get("reason", "")),
        progress_message=str(progressing.get("message", ""))[:_LONGEST_MESSAGE],
        replicas_managers=frozenset(one["manager"] for one in meta.get("managedFields") or ()),
        manifest={"metadata": {"labels": meta.get("labels") or {}}, "spec": spec},
        applied_generation=applied_generation,
        pod_problem=_refused(conditions) or pod_problem(pods),
    )


def job_view(body: Object, identity: str, pods: Iterable[Object]) -> JobView:
    """Return a migration Job; `pods` are its pods."""
    meta, spec, status = body["metadata"], body.get("spec") or {}, body.get("status") or {}
    marks, notes = meta.get("labels") or {}, meta.get("annotations") or {}
    conditions = _conditions(status)
    phase, ending = _phase(conditions)
    attempt = marks.get(labels.ATTEMPT, "")
    return JobView(
        name=str(meta["name"]),
        uid=str(meta.get("uid", "")),
        number=names.job_number(meta["name"], identity),
        target_hash=str(marks.get(labels.TARGET, "")),
        attempt=int(attempt) if attempt.isdecimal() else 0,
        created_at=moment(meta.get("creationTimestamp")) or datetime.fromtimestamp(0, UTC),
        image=str(notes.get(labels.IMAGE, "")),
        phase=phase,
        failed_reason=str(ending.get("reason", "")) if phase is JobPhase.FAILED else None,
        failed_message=str(ending.get("message", ""))[:_LONGEST_MESSAGE],
        ended_at=moment(ending.get("lastTransitionTime")),
        is_deleting=meta.get("deletionTimestamp") is not None,
        is_recorded=labels.RECORDED in notes,
        is_exclusive=labels.EXCLUSIVE in notes,
        deadline_seconds=spec.get("activeDeadlineSeconds"),
        resource_version=str(meta.get("resourceVersion", "")),
        spec_hashes=_spec_hashes(notes.get(labels.SPECS)),
        owner_uids=frozenset(str(one["uid"]) for one in meta.get("ownerReferences") or ()),
        pods=tuple(job_pod_view(pod) for pod in pods),
    )


def job_pod_view(body: Object) -> JobPodView:
    """Return one pod of a migration Job."""
    status = body.get("status") or {}
    conditions = _conditions(status)
    container: Object = next(iter(status.get("containerStatuses") or ()), {})
    ended = (container.get("state") or {}).get("terminated") or {}
    waiting = _waiting(body)
    return JobPodView(
        name=str(body["metadata"]["name"]),
        is_live=status.get("phase") not in {"Succeeded", "Failed"},
        exit_code=ended.get("exitCode"),
        message=str(ended.get("message", "")),
        is_disrupted=conditions.get("DisruptionTarget", {}).get("status") == "True",
        finished_at=moment(ended.get("finishedAt")),
        waiting_reason=waiting[0] if waiting else None,
        waiting_message=waiting[1] if waiting else "",
        waiting_since=waiting[2] if waiting else None,
    )


def pod_problem(pods: Iterable[Object]) -> PodProblem | None:
    """Return the most telling problem among the worker pods of the newest template."""
    alive = [pod for pod in pods if pod["metadata"].get("deletionTimestamp") is None]
    if not alive:
        return None
    newest = max(alive, key=lambda pod: str(pod["metadata"].get("creationTimestamp", "")))
    template = _template_of(newest)
    found = [_problem_of(pod) for pod in alive if _template_of(pod) == template]
    problems = [problem for problem in found if problem is not None]
    telling = list(PodTrouble)
    return min(problems, key=lambda one: telling.index(one.reason), default=None)


def is_pod_over(body: Object) -> str | None:
    """Return why nothing runs in a pod any more and nothing will; None if something may."""
    status = body.get("status") or {}
    phase = status.get("phase")
    if phase in {"Succeeded", "Failed"}:
        return f"the pod is {phase}: {status.get('reason') or 'its container ended'}"
    return None


def satellite_view(body: Object, kind: str, owner_uid: str) -> SatelliteView:
    """Return an object beside the Deployment."""
    meta = body["metadata"]
    return SatelliteView(
        kind=kind,
        name=str(meta["name"]),
        manifest={"metadata": {"labels": meta.get("labels") or {}}, "spec": body.get("spec") or {}},
        is_ours=_is_controlled_by(meta, owner_uid),
    )


def _spec_hashes(text: str | None) -> Mapping[str, str]:
    try:
        found = json.loads(text or "{}")
    except ValueError:
        return {}
    return {str(uid): str(one) for uid, one in found.items()} if isinstance(found, dict) else {}


def _phase(conditions: Mapping[str, Object]) -> tuple[JobPhase, Object]:
    """Return how a Job stands and the condition that says so; only two conditions end one."""
    for name, phase in (("Complete", JobPhase.COMPLETE), ("Failed", JobPhase.FAILED)):
        condition = conditions.get(name, {})
        if condition.get("status") == "True":
            return phase, condition
    return JobPhase.ACTIVE, {}


def _problem_of(pod: Object) -> PodProblem | None:
    """Return what is wrong with a worker pod."""
    status = pod.get("status") or {}
    ready = _conditions(status).get("Ready", {})
    if ready.get("status") == "True":
        return None
    container: Object = next(iter(status.get("containerStatuses") or ()), {})
    ended = (container.get("lastState") or {}).get("terminated") or {}
    ended = (container.get("state") or {}).get("terminated") or ended
    said = str(ended.get("message", "")).strip()[-_LONGEST_MESSAGE:]
    waiting = _waiting(pod)
    since = moment(ready.get("lastTransitionTime"))
    if "schema" in said.lower() and ended.get("exitCode") in {65, 78}:
        return PodProblem(reason=PodTrouble.SCHEMA_INCOMPATIBLE, message=said, since=since)
    if waiting is not None and waiting[0] in _WAITING_REASONS:
        reason = _WAITING_REASONS[waiting[0]]
        message = waiting[1]
        if reason is PodTrouble.CRASH_LOOP:
            message = f"exit code {ended.get('exitCode', 'unknown')}: {said}".rstrip(": ")
        return PodProblem(reason=reason, message=message, since=waiting[2] or since)
    if ended and ended.get("exitCode"):
        message = f"exit code {ended['exitCode']}: {said}".rstrip(": ")
        return PodProblem(reason=PodTrouble.CRASH_LOOP, message=message, since=since)
    message = str(ready.get("message", ""))
    return PodProblem(reason=PodTrouble.NOT_READY, message=message, since=since)


_WAITING_REASONS: Mapping[str, PodTrouble] = {
    **dict.fromkeys(_IMAGE_PULL, PodTrouble.IMAGE_PULL),
    **dict.fromkeys(_CONFIG, PodTrouble.CONFIG_ERROR),
    "CrashLoopBackOff": PodTrouble.CRASH_LOOP,
    "Unschedulable": PodTrouble.UNSCHEDULABLE,
}


def _waiting(pod: Object) -> tuple[str, str, datetime | None] | None:
    """Return why a pod does not run, in whose words, since when."""
    status = pod.get("status") or {}
    scheduled = _conditions(status).get("PodScheduled", {})
    if scheduled.get("status") == "False" and scheduled.get("reason") == "Unschedulable":
        since = moment(scheduled.get("lastTransitionTime"))
        return "Unschedulable", str(scheduled.get("message", ""))[:_LONGEST_MESSAGE], since
    for one in status.get("containerStatuses") or ():
        waiting = (one.get("state") or {}).get("waiting") or {}
        reason = waiting.get("reason")
        if reason and reason not in {"ContainerCreating", "PodInitializing"}:
            since = moment(status.get("startTime"))
            return str(reason), str(waiting.get("message", ""))[:_LONGEST_MESSAGE], since
    return None


def _refused(conditions: Mapping[str, Object]) -> PodProblem | None:
    """Return that the ReplicaSet may not create pods."""
    failure = conditions.get("ReplicaFailure", {})
    if failure.get("status") != "True":
        return None
    return PodProblem(
        reason=PodTrouble.REFUSED,
        message=str(failure.get("message", ""))[:_LONGEST_MESSAGE],
        since=moment(failure.get("lastTransitionTime")),
    )


def _conditions(status: Object) -> dict[str, Object]:
    return {str(one.get("type")): one for one in status.get("conditions") or ()}


def _is_controlled_by(meta: Object, owner_uid: str) -> bool:
    owners = meta.get("ownerReferences") or ()
    return any(one.get("uid") == owner_uid and one.get("controller") for one in owners)


def _template_of(pod: Object) -> str:
    return str((pod["metadata"].get("labels") or {}).get("pod-template-hash", ""))


def _image(template: Object) -> str:
    containers = (template.get("spec") or {}).get("containers") or ()
    for one in containers:
        if one.get("name") == names.WORKER_CONTAINER:
            return str(one.get("image", ""))
    return str(containers[0].get("image", "")) if containers else ""
