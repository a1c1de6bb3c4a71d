"""S7 while a Job runs: it is left alone, and what keeps its pod waiting is shown."""

from datetime import datetime, timedelta

from awa.manifest import ConditionType
from awa.manifest.status import MigrationStatus
from awa_operator.actions import Action, JobPatch, PatchJob, Stage, Waiting
from awa_operator.conditions import Reason, Statement
from awa_operator.observed import JobPhase, JobPodView, JobView, Observed, PodTrouble
from awa_operator.plan import group
from awa_operator.plan.gate import Migration
from awa_operator.plan.step import Step, earliest
from awa_operator.render.owners import owners_of

PATIENCE_WITH_PODS = timedelta(seconds=60)
"""How long a pod may wait before its reason is shown; the Job goes on waiting."""


def running(observed: Observed, status: MigrationStatus, job: JobView, now: datetime) -> Migration:
    """Return that a Job for this target runs; only what may change about it is changed."""
    trouble = _pod_trouble(job, now)
    words = f"Attempt {job.attempt} runs in Job {job.name}"
    reason: str = Reason.MIGRATION_RUNNING
    if trouble is not None:
        words += f"; its pod waits: {trouble.waiting_reason} {trouble.waiting_message}".rstrip()
        if not group.is_exclusive(observed.queue):
            reason = _pod_reason(trouble)
    waiting = Waiting(Stage.MIGRATION, reason, words)
    step = Step(
        actions=tuple(_upkeep(observed, job)),
        progressing=waiting,
        due=_patience_ends(job, now),
    )
    status = status.model_copy(
        update={"job_name": job.name, "attempts": job.attempt, "next_attempt_time": None}
    )
    return Migration(
        step=step,
        status=status,
        schema=Statement(ConditionType.SCHEMA_MIGRATED, False, Reason.RUNNING, words),
        holds_workers=group.is_exclusive(observed.queue),
    )


def _upkeep(observed: Observed, job: JobView) -> list[Action]:
    """Return what may be changed about a running Job: its deadline and its owners."""
    actions: list[Action] = []
    if job.is_deleting or job.phase is not JobPhase.ACTIVE:
        return actions
    deadline = observed.queue.spec.migration.active_deadline_seconds
    if group.leads(observed) and job.deadline_seconds not in (None, deadline):
        patch = {"spec": {"activeDeadlineSeconds": deadline}}
        actions.append(PatchJob(name=job.name, patch=patch, purpose=JobPatch.DEADLINE))
    if observed.uid not in job.owner_uids:
        metadata = {
            "resourceVersion": job.resource_version,
            "ownerReferences": owners_of(group.members(observed)),
        }
        patch_owners = {"metadata": metadata}
        actions.append(PatchJob(name=job.name, patch=patch_owners, purpose=JobPatch.OWNERS))
    return actions


def _pod_trouble(job: JobView, now: datetime) -> JobPodView | None:
    for pod in job.pods:
        since = pod.waiting_since or job.created_at
        if pod.is_live and pod.waiting_reason and now - since >= PATIENCE_WITH_PODS:
            return pod
    return None


def _patience_ends(job: JobView, now: datetime) -> datetime | None:
    ends = (
        (pod.waiting_since or job.created_at) + PATIENCE_WITH_PODS
        for pod in job.pods
        if pod.is_live and pod.waiting_reason
    )
    return earliest(*(end for end in ends if end > now))


def _pod_reason(pod: JobPodView) -> str:
    known = {
        "ErrImagePull": PodTrouble.IMAGE_PULL,
        "ImagePullBackOff": PodTrouble.IMAGE_PULL,
        "InvalidImageName": PodTrouble.IMAGE_PULL,
        "ErrImageNeverPull": PodTrouble.IMAGE_PULL,
        "CreateContainerConfigError": PodTrouble.CONFIG_ERROR,
        "CreateContainerError": PodTrouble.CONFIG_ERROR,
        "Unschedulable": PodTrouble.UNSCHEDULABLE,
    }
    return known.get(pod.waiting_reason or "", Reason.MIGRATION_RUNNING)
