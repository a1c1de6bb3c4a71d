"""The Queues of one database: who makes Jobs for whom, who tidies up, who holds whose workers."""

from collections.abc import Iterator

from awa.manifest import ConditionType, Queue
from awa_operator.conditions import Reason, find_condition
from awa_operator.identity import database_identity, migration_target, target_hash
from awa_operator.names import job_number
from awa_operator.observed import JobPhase, JobView, Observed
from awa_operator.plan.records import find_record

WINDOW = (Reason.DRAINING, Reason.MIGRATION_RUNNING)
"""What a Queue that migrates exclusively says of itself while no worker of the database may run."""


def identity_of(observed: Observed) -> str:
    """Return the identity of the database."""
    return database_identity(observed.namespace, observed.queue.spec.database)


def members(observed: Observed) -> list[Queue]:
    """Return all Queues of the database, this one included, in a fixed order."""
    queues = [observed.queue, *(sibling.queue for sibling in observed.siblings)]
    return sorted(queues, key=lambda queue: queue.metadata.name)


def is_janitor(observed: Observed) -> bool:
    """Tell whether this Queue tidies up for all of its database: the first by name."""
    name = observed.queue.metadata.name
    return all(name < sibling.queue.metadata.name for sibling in observed.siblings)


def is_exclusive(queue: Queue) -> bool:
    """Tell whether no worker of the database may run while this Queue migrates."""
    migration = queue.spec.migration
    return migration.mode == "Job" and migration.strategy == "Exclusive"


def holder_of_queue(observed: Observed) -> str | None:
    """Return the name of an older Queue that serves the same queue of this database, if any."""
    mine, name = _age(observed.queue), observed.queue.queue_name
    older = (one.queue for one in observed.siblings if _age(one.queue) < mine)
    return next((one.metadata.name for one in older if one.queue_name == name), None)


def _age(queue: Queue) -> tuple[str, str]:
    return str(queue.metadata.creation_timestamp or ""), queue.metadata.name


def leads(observed: Observed) -> bool:
    """Tell whether this Queue is the first by name of those that ask for the same migration."""
    target, name = target_hash(observed.queue), observed.queue.metadata.name
    before = (one.queue for one in observed.siblings if one.queue.metadata.name < name)
    return all(one.spec.migration.mode != "Job" or target_hash(one) != target for one in before)


def next_number(observed: Observed) -> int:
    """Return a number for a new Job that no Job of this database is known to have had."""
    identity = identity_of(observed)
    names = [job.name for job in observed.jobs]
    for status in (observed.status, *(sibling.status for sibling in observed.siblings)):
        if status.migration is not None and status.migration.job_name:
            names.append(status.migration.job_name)
    return 1 + max((job_number(name, identity) for name in names), default=0)


def is_over(job: JobView) -> bool:
    """Tell whether a Job has ended and none of its pods can still change the schema."""
    return job.phase is not JobPhase.ACTIVE and not job.has_live_pods and not job.is_deleting


def busy_job(observed: Observed) -> JobView | None:
    """Return a Job of the database that is not over; there is at most one of our making."""
    return next((job for job in observed.jobs if not is_over(job)), None)


def is_recorded(observed: Observed, queue: Queue) -> bool:
    """Tell whether a Queue of the database has itself recorded the success that it asks for."""
    status = queue.status
    if status is None or status.migration is None or status.migration.succeeded_hash is None:
        return False
    if queue.metadata.uid == observed.uid:
        record = find_record(observed, migration_target(queue))
        return record is not None and record.is_own
    wanted = target_hash(queue)
    known = [one.target_hash for one in status.migration.history if one.outcome == "Succeeded"]
    return wanted in (status.migration.succeeded_hash, *known)


def holding_siblings(observed: Observed) -> Iterator[str]:
    """Return the names of other Queues that migrate exclusively now: no worker may run."""
    for sibling in observed.siblings:
        if not is_exclusive(sibling.queue) or sibling.queue.spec.suspend:
            continue
        found = find_condition(sibling.status, ConditionType.RECONCILING)
        if found is not None and found.status == "True" and found.reason in WINDOW:
            yield sibling.queue.metadata.name


def holding_job(observed: Observed) -> JobView | None:
    """Return the Job of an exclusive migration that is not over: no worker may run.

    It holds whatever the statuses say: the spec that asked for it may have changed since.
    """
    busy = (job for job in observed.jobs if job.is_exclusive and not is_over(job))
    return next(busy, None)


def running_workers(observed: Observed) -> int:
    """Return how many workers of the database exist or are asked for; terminating ones count."""
    own = observed.deployment.replicas if observed.deployment is not None else 0
    others = (max(one.worker_pods, one.replicas) for one in observed.siblings)
    return max(observed.worker_pods, own) + sum(others)
