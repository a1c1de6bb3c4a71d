"""S4 to S9: is a migration needed, which Job runs, what did it say, is it recorded.

Invariants, for any number of Queues and operators on one database:

- one Job at a time: a Job is created only when every other one of the database is over, under a
  name that any other maker would choose as well;
- the gate opens for a template only when the success of its target is in the status of a Queue of
  the database, and a probe has seen the schema there since;
- a running Job is never stopped, whatever the spec says meanwhile.
"""

from datetime import datetime, timedelta

from awa.manifest import ConditionType
from awa.manifest.status import MigrationRecord, MigrationStatus
from awa_operator.actions import ProbeDatabase, Stage, Waiting
from awa_operator.conditions import Reason, Statement
from awa_operator.identity import is_hash_of, migration_target, target_hash
from awa_operator.observed import JobPhase, JobView, Observed
from awa_operator.plan import attempts, group, running
from awa_operator.plan.gate import Migration, record_of
from awa_operator.plan.records import (
    Record,
    find_known_good,
    find_record,
    seen_version,
    speaks_of,
    with_record,
    without_void,
)
from awa_operator.plan.step import Step
from awa_operator.plan.template import Template
from awa_operator.plan.usable import Usable
from awa_operator.plan.verdict import Outcome, Verdict, judge

VERIFY_AGAIN_SOONEST = timedelta(milliseconds=100)
VERIFY_AGAIN_LATEST = timedelta(seconds=5)
SOON_AFTER = timedelta(seconds=5)
"""For so long after a migration its result may be on its way."""


def plan_migration(
    observed: Observed, template: Template, usable: Usable, now: datetime
) -> Migration:
    """Return where the migration that the spec asks for stands, and what it needs next."""
    mode = observed.queue.spec.migration.mode
    if mode == "None":
        words = "migration.mode is None: nobody checks the schema"
        schema = Statement(ConditionType.SCHEMA_MIGRATED, True, Reason.NOT_CHECKED, words)
        status = observed.status.migration
        return Migration(step=Step(), status=status, schema=schema, is_open=usable.is_secret_found)
    if mode == "External":
        return _external(observed, usable)
    status = _begun(observed)
    target = migration_target(observed.queue)
    record = find_record(observed, target)
    if record is not None:
        return _recorded(observed, status, record, usable, now)
    if (good := find_known_good(observed, observed.queue.migration_image)) is not None:
        return _recorded(observed, status, good, usable, now)
    return _unrecorded(observed, status, template, usable, now)


def _begun(observed: Observed) -> MigrationStatus:
    """Return the status for the target of now: attempts of another target do not count."""
    before = observed.status.migration
    if before is None or not speaks_of(observed, observed.status):
        before = MigrationStatus()
    before = without_void(before, observed)
    before = _superseded(observed, before)
    if is_hash_of(before.target_hash, migration_target(observed.queue)):
        return before
    fresh = {
        "target_hash": target_hash(observed.queue),
        "attempts": 0,
        "next_attempt_time": None,
    }
    return before.model_copy(update=fresh)


def _superseded(observed: Observed, before: MigrationStatus) -> MigrationStatus:
    """Record the end of our Job whose target the spec has left meanwhile."""
    mine = target_hash(observed.queue)
    for job in observed.jobs:
        if job.name == before.job_name and job.target_hash != mine and group.is_over(job):
            verdict = judge(job, observed.queue.spec.migration.permanent_exit_codes)
            record = record_of(job, "Superseded", verdict.schema_version)
            history = with_record(before.history, record)
            return before.model_copy(update={"history": history})
    return before


def _external(observed: Observed, usable: Usable) -> Migration:
    status, version = observed.status.migration, seen_version(observed)
    kind = ConditionType.SCHEMA_MIGRATED
    if version:
        words = f"Someone else migrates; the schema is at version {version}"
        schema = Statement(kind, True, Reason.EXTERNAL, words)
        step = Step() if usable.is_database_there else usable.step
        return Migration(step=step, status=status, schema=schema, is_open=step == Step())
    words = (
        f'Waiting for someone else to migrate schema "{observed.queue.spec.database.schema_name}":'
        " it has no version that the operator can read"
    )
    if observed.database is not None and observed.database.message:
        words += f". {observed.database.message}"
    waiting = Waiting(Stage.MIGRATION, Reason.WAITING_FOR_MIGRATION, words)
    step = Step(progressing=waiting) if usable.is_database_there else usable.step
    schema = Statement(kind, False, Reason.PENDING, words)
    return Migration(step=step, status=status, schema=schema)


def _recorded(
    observed: Observed, status: MigrationStatus, record: Record, usable: Usable, now: datetime
) -> Migration:
    """S8 and S9: it is in a status; the database must be seen to have it before pods change."""
    if not record.is_own:
        status = _adopted(observed, status, record)
    status = status.model_copy(update={"next_attempt_time": None})
    seen = seen_version(observed)
    is_ahead = bool(seen and record.schema_version is not None and seen > record.schema_version)
    reason = Reason.SCHEMA_AHEAD if is_ahead else Reason.MIGRATED
    words = f"The schema is at version {seen}" if seen else "The migration is recorded as done"
    if is_ahead:
        words += f"; this image works from version {record.schema_version} on"
    schema = Statement(ConditionType.SCHEMA_MIGRATED, True, reason, words)
    step = _verified(observed, record, usable, now)
    is_open = step == Step()
    return Migration(step=step, status=status, schema=schema, is_open=is_open)


def _verified(observed: Observed, record: Record, usable: Usable, now: datetime) -> Step:
    """Return what is missing until the database has been seen as far as the record; else empty."""
    database = observed.database
    if not usable.is_database_there or database is None:
        return usable.step
    done = record.completion_time or database.at
    seen, told = database.schema_version, record.schema_version
    is_behind = seen is not None and told is not None and seen < told
    if database.at >= done and not is_behind:
        return Step()
    words = "The schema is being verified after the migration"
    if is_behind and now - done > SOON_AFTER:
        words = (
            f"The migration reported schema version {told}, the operator sees {seen}: do "
            "migrationSecretRef and monitorSecretRef name the same database?"
        )
    # Kubernetes tells full seconds, so a probe of the same second may be of before.
    pause = min(max((now - done) / 2, VERIFY_AGAIN_SOONEST), VERIFY_AGAIN_LATEST)
    again = database.at + pause
    waiting = Waiting(Stage.PROBE, Reason.WAITING_FOR_DATABASE, words)
    if now >= again or database.at < done:
        # A probe that says the same as before is not told: it has to be looked for.
        return Step(actions=(ProbeDatabase(),), progressing=waiting, due=now + pause)
    return Step(progressing=waiting, due=again)


def _unrecorded(
    observed: Observed,
    status: MigrationStatus,
    template: Template,
    usable: Usable,
    now: datetime,
) -> Migration:
    latest = _latest(observed, status)
    if latest is None or _is_consumed(latest):
        attempt = max(1, status.attempts)
        return attempts.next_attempt(observed, status, template, usable, attempt, now)
    if not group.is_over(latest):
        return running.running(observed, status, latest, now)
    verdict = judge(latest, observed.queue.spec.migration.permanent_exit_codes)
    if verdict.outcome is Outcome.SUCCEEDED:
        return _success(observed, status, latest, verdict.schema_version)
    if verdict.outcome is Outcome.SCHEMA_NEWER and (version := _usable_version(observed, verdict)):
        return _success(observed, status, latest, version)
    return attempts.failed(observed, status, latest, verdict, template, usable, now)


def _success(
    observed: Observed, status: MigrationStatus, job: JobView, version: int | None
) -> Migration:
    """S8: write it down before anything else happens."""
    record = record_of(job, "Succeeded", version)
    status = status.model_copy(
        update={
            "job_name": job.name,
            "attempts": job.attempt,
            "next_attempt_time": None,
            "succeeded_hash": job.target_hash,
            "completion_time": job.ended_at,
            "schema_version": version,
            "history": with_record(status.history, record),
        }
    )
    words = "The migration is done; its result is being recorded"
    waiting = Waiting(Stage.MIGRATION, Reason.WAITING_FOR_MIGRATION, words)
    schema = Statement(ConditionType.SCHEMA_MIGRATED, True, Reason.MIGRATED, words)
    return Migration(
        step=Step(progressing=waiting, due=job.ended_at),
        status=status,
        schema=schema,
        holds_workers=group.is_exclusive(observed.queue),
    )


def _usable_version(observed: Observed, verdict: Verdict) -> int | None:
    """Return the version that an image knows which works with a newer schema, else None.

    It does when nothing that it uses was taken away since, or when it has worked with this
    schema before.
    """
    database, known = observed.database, verdict.known_version
    contract = database.last_contract_version if database else None
    if known is not None and contract is not None and contract <= known:
        return known
    history = observed.status.migration.history if observed.status.migration else ()
    for record in history:
        if record.outcome == "Succeeded" and record.image == observed.queue.migration_image:
            return record.schema_version
    return None


def _adopted(observed: Observed, status: MigrationStatus, record: Record) -> MigrationStatus:
    """Take over the record of another Queue, with what this one needs to go back to it later."""
    own = MigrationRecord(
        targetHash=record.target_hash,
        image=record.image or observed.queue.migration_image,
        outcome="Succeeded",
        schemaVersion=record.schema_version,
        completionTime=record.completion_time,
    )
    return status.model_copy(
        update={
            "succeeded_hash": record.target_hash,
            "completion_time": record.completion_time,
            "schema_version": record.schema_version,
            "history": with_record(status.history, own),
        }
    )


def _latest(observed: Observed, status: MigrationStatus) -> JobView | None:
    target = migration_target(observed.queue)
    mine = [job for job in observed.jobs if is_hash_of(job.target_hash, target)]
    return max(mine, key=lambda job: job.number, default=None)


def _is_consumed(job: JobView) -> bool:
    """Tell whether a success was recorded and is void since; a TTL may be of somebody else."""
    return job.phase is JobPhase.COMPLETE and job.is_recorded
