"""Ended Jobs: marked, with a TTL, once nothing depends on them; few failed ones are kept."""

from collections import defaultdict
from collections.abc import Iterator, Mapping

from awa.manifest import Queue
from awa_operator import labels
from awa_operator.actions import Action, DeleteJob, JobPatch, PatchJob
from awa_operator.identity import target_hash
from awa_operator.observed import JobPhase, JobView, Observed
from awa_operator.plan import group


def plan_housekeeping(observed: Observed) -> list[Action]:
    """Return what is to be done about ended Jobs; one Queue does it for all of a database."""
    over = sorted((job for job in observed.jobs if group.is_over(job)), key=lambda job: job.number)
    if not over or not group.is_janitor(observed):
        return []
    asking = _asking_by_target(observed)
    done = [job for job in over if not _is_evidence(observed, job, asking)]
    surplus = list(_surplus(observed, done))
    ttl = observed.queue.spec.migration.ttl_seconds_after_finished
    patch = {
        "metadata": {"annotations": {labels.RECORDED: "true"}},
        "spec": {"ttlSecondsAfterFinished": ttl},
    }
    arm: list[Action] = [
        PatchJob(name=job.name, patch=patch, purpose=JobPatch.ARM_TTL)
        for job in done
        if not job.is_recorded and job not in surplus
    ]
    return [*arm, *(DeleteJob(name=job.name, uid=job.uid) for job in surplus)]


def _asking_by_target(observed: Observed) -> Mapping[str, list[Queue]]:
    found: dict[str, list[Queue]] = defaultdict(list)
    for queue in group.members(observed):
        if queue.spec.migration.mode == "Job":
            found[target_hash(queue)].append(queue)
    return found


def _is_evidence(observed: Observed, job: JobView, by_target: Mapping[str, list[Queue]]) -> bool:
    """Tell whether a decision still depends on a Job.

    A success, until every Queue that asks for it has it in its status. A failure, while it is the
    last word on a target that is asked for: without it the migration would start again. Either,
    until the Queue that followed it and asks for something else now has noted its end.
    """
    asking = by_target.get(job.target_hash, [])
    uids = {queue.metadata.uid for queue in asking}
    others = (one for one in group.members(observed) if one.metadata.uid not in uids)
    if any(_follows(queue, job) for queue in others):
        return True
    if job.phase is JobPhase.COMPLETE:
        return any(not group.is_recorded(observed, queue) for queue in asking)
    same = (one.number for one in observed.jobs if one.target_hash == job.target_hash)
    return bool(asking) and job.number == max(same)


def _follows(queue: Queue, job: JobView) -> bool:
    migration = queue.status.migration if queue.status is not None else None
    if migration is None or migration.job_name != job.name:
        return False
    return all(record.completion_time != job.ended_at for record in migration.history)


def _surplus(observed: Observed, done: list[JobView]) -> Iterator[JobView]:
    """Return the failed Jobs beyond the most that any Queue of the database wants to keep."""
    limit = max(queue.spec.migration.history_limit for queue in group.members(observed))
    failed = [job for job in done if job.phase is JobPhase.FAILED]
    yield from failed[: max(0, len(failed) - limit)]
