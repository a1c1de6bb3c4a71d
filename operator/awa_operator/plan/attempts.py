"""S5 to S7: attempts of one migration, one Job each.

What counts is what the Jobs themselves carry: the number of the attempt as a label, and the specs
of their owners when they were made. So an operator that was killed between any two writes goes on
from the Jobs, and a spec that somebody has edited since gets its attempts anew.
"""

import hashlib
from datetime import datetime, timedelta

from awa.manifest import ConditionType
from awa.manifest.status import MigrationStatus
from awa_operator.actions import (
    CreateJob,
    ProbeDatabase,
    Stage,
    Waiting,
)
from awa_operator.conditions import Reason, Statement, has_reason
from awa_operator.identity import spec_hash, target_hash
from awa_operator.names import job_name
from awa_operator.observed import FRESH_FOR, JobView, Observed, SecretState
from awa_operator.plan import group
from awa_operator.plan.gate import Migration, record_of
from awa_operator.plan.records import with_record
from awa_operator.plan.rollout import name_conflict
from awa_operator.plan.step import Step
from awa_operator.plan.template import Template, plan_check
from awa_operator.plan.usable import PROBED_BY, Usable, is_fresh, secret_missing
from awa_operator.plan.verdict import Outcome, Verdict
from awa_operator.render.migration_job import render_migration_job

BACKOFF_FIRST = timedelta(seconds=10)
BACKOFF_MOST = timedelta(minutes=10)
FLEET_AGAIN = timedelta(seconds=60)
REFUSED_AGAIN = timedelta(seconds=30)


def backoff(attempt: int, seed: str) -> timedelta:
    """Return the pause after a failed attempt: doubled each time, give or take a fifth.

    The same seed gives the same pause, so that asking again does not move the moment.
    """
    doublings: int = 1 << min(attempt - 1, 16)
    pause = min(BACKOFF_FIRST * doublings, BACKOFF_MOST)
    share = int.from_bytes(hashlib.sha256(seed.encode()).digest()[:4], "big") / 2**32
    return pause * (0.8 + 0.4 * share)


def failed(
    observed: Observed,
    status: MigrationStatus,
    job: JobView,
    verdict: Verdict,
    template: Template,
    usable: Usable,
    now: datetime,
) -> Migration:
    """Return what follows from a failed attempt: another one, now or later, or a human."""
    if _is_forgiven(observed, job):
        return next_attempt(observed, status, template, usable, 1, now)
    ended = job.ended_at or job.created_at
    status = status.model_copy(
        update={"job_name": job.name, "attempts": job.attempt, "next_attempt_time": None}
    )
    if verdict.outcome in (Outcome.PERMANENT, Outcome.SCHEMA_NEWER):
        newer = verdict.outcome is Outcome.SCHEMA_NEWER
        reason = Reason.SCHEMA_NEWER if newer else Reason.MIGRATION_FAILED
        return _given_up(status, job, verdict, reason)
    if verdict.outcome is Outcome.FLEET_TOO_OLD:
        again, attempt = ended + FLEET_AGAIN, job.attempt
    elif _has_recovered(observed, ended):
        again, attempt = ended, 1
    elif job.attempt >= observed.queue.spec.migration.max_attempts:
        return _given_up(status, job, verdict, Reason.ATTEMPTS_EXHAUSTED)
    else:
        again, attempt = ended + backoff(job.attempt, job.uid), job.attempt + 1
    if now >= again:
        return next_attempt(observed, status, template, usable, attempt, now, verdict)
    return _pausing(observed, status, verdict, again)


def next_attempt(
    observed: Observed,
    status: MigrationStatus,
    template: Template,
    usable: Usable,
    attempt: int,
    now: datetime,
    failure: Verdict | None = None,
) -> Migration:
    """Return the next Job, or what has to come before it."""
    before = _obstacle(observed, template, usable, now)
    reason = failure.reason if failure is not None else Reason.PENDING
    if before is not None:
        return _held(observed, status, before, reason)
    if group.is_exclusive(observed.queue) and group.running_workers(observed) > 0:
        count = group.running_workers(observed)
        words = f"Exclusive migration: waiting for {count} workers of the database to end"
        waiting = Waiting(Stage.MIGRATION, Reason.DRAINING, words)
        schema = Statement(ConditionType.SCHEMA_MIGRATED, False, reason, words)
        step = Step(progressing=waiting)
        return Migration(step=step, status=status, schema=schema, holds_workers=True)
    number = group.next_number(observed)
    name = job_name(group.identity_of(observed), number)
    manifest = render_migration_job(observed.queue, number, attempt, group.members(observed))
    create = CreateJob(manifest=manifest, name=name, target_hash=target_hash(observed.queue))
    words = f"Attempt {attempt} runs in Job {name}"
    status = status.model_copy(
        update={"job_name": name, "attempts": attempt, "next_attempt_time": None}
    )
    return Migration(
        step=Step(
            actions=(create,),
            progressing=Waiting(Stage.MIGRATION, Reason.MIGRATION_RUNNING, words),
        ),
        status=status,
        schema=Statement(ConditionType.SCHEMA_MIGRATED, False, Reason.RUNNING, words),
        holds_workers=group.is_exclusive(observed.queue),
    )


def _obstacle(observed: Observed, template: Template, usable: Usable, now: datetime) -> Step | None:
    """Return the first thing that a new Job has to wait for, in the order of the stages."""
    spec = observed.queue.spec
    if spec.suspend:
        words = "Suspended: no migration is started"
        return Step(noted=(Waiting(Stage.GATE, Reason.SUSPENDED, words),))
    if (conflict := name_conflict(observed)) is not None:
        return Step(stalled=conflict)
    if template.is_pending:
        check = plan_check(observed, template, now)
        if check.waiting:
            return check
    secret = observed.secrets.migration
    if secret.state is not SecretState.FOUND:
        return secret_missing(observed, secret, now).step
    if not usable.is_database_there or observed.database is None:
        return usable.step
    if not is_fresh(observed.database, now):
        words = f"The last probe is older than {FRESH_FOR.seconds} s"
        waiting = Waiting(Stage.PROBE, Reason.WAITING_FOR_DATABASE, words)
        return Step(actions=(ProbeDatabase(),), progressing=waiting, due=now + PROBED_BY)
    return _refused(observed, now) or _busy(observed)


def _refused(observed: Observed, now: datetime) -> Step | None:
    refusal = observed.job_refusal
    mine = target_hash(observed.queue)
    if refusal is None or refusal.target_hash != mine or refusal.generation != observed.generation:
        return None
    words = f"The API server refuses the migration Job: {refusal.message}"
    if refusal.is_permanent:
        return Step(stalled=Waiting(Stage.MIGRATION, Reason.TEMPLATE_INVALID, words))
    again = refusal.at + REFUSED_AGAIN
    if now >= again:
        return None
    waiting = Waiting(Stage.MIGRATION, Reason.WAITING_FOR_QUOTA, words)
    return Step(progressing=waiting, due=again)


def _busy(observed: Observed) -> Step | None:
    busy = group.busy_job(observed)
    if busy is None:
        return None
    migration = observed.status.migration
    if migration is not None and busy.name == migration.job_name:
        words = f"Job {busy.name} of an earlier spec ends first; it is not interrupted"
        reason = Reason.SUPERSEDED
    else:
        words = f"Job {busy.name} migrates the same database for another Queue and ends first"
        reason = Reason.WAITING_FOR_MIGRATION
    return Step(progressing=Waiting(Stage.MIGRATION, reason, words))


def _held(observed: Observed, status: MigrationStatus, before: Step, reason: Reason) -> Migration:
    """Return that something comes first; a window that is open stays open meanwhile."""
    first = before.waiting[0]
    is_superseded = first.reason == Reason.SUPERSEDED
    holds = _is_window_open(observed) and not observed.queue.spec.suspend and not before.stalled
    if holds:
        waiting = Waiting(first.stage, Reason.DRAINING, first.message)
        before = Step(actions=before.actions, progressing=waiting, due=before.due)
    return Migration(
        step=before,
        status=status,
        schema=Statement(
            ConditionType.SCHEMA_MIGRATED,
            False,
            Reason.SUPERSEDED if is_superseded else reason,
            first.message,
        ),
        holds_workers=holds,
    )


def _pausing(
    observed: Observed, status: MigrationStatus, verdict: Verdict, again: datetime
) -> Migration:
    reason: str = Reason.MIGRATION_RUNNING
    if not group.is_exclusive(observed.queue):
        if verdict.outcome is Outcome.FLEET_TOO_OLD:
            reason = Reason.WAITING_FOR_FLEET
        elif verdict.is_database_away:
            reason = Reason.WAITING_FOR_DATABASE
    waiting = Waiting(Stage.MIGRATION, reason, f"{verdict.message}; it is tried again")
    return Migration(
        step=Step(progressing=waiting, due=again),
        status=status.model_copy(update={"next_attempt_time": again}),
        schema=Statement(ConditionType.SCHEMA_MIGRATED, False, verdict.reason, waiting.message),
        holds_workers=_is_window_open(observed),
    )


def _given_up(status: MigrationStatus, job: JobView, verdict: Verdict, reason: Reason) -> Migration:
    """Return that a human is needed. Workers, if they were held, may run again: nothing moved."""
    advice = {
        Reason.MIGRATION_FAILED: "correct it and change the spec, or delete the Job to try again",
        Reason.SCHEMA_NEWER: "use an image that knows this schema",
        Reason.ATTEMPTS_EXHAUSTED: "change the spec, or delete the Job to try again",
    }[reason]
    words = f"{verdict.message}; {advice}"
    status = status.model_copy(
        update={"history": with_record(status.history, record_of(job, "Failed"))}
    )
    return Migration(
        step=Step(stalled=Waiting(Stage.MIGRATION, reason, words)),
        status=status,
        schema=Statement(ConditionType.SCHEMA_MIGRATED, False, verdict.reason, words),
    )


def _is_window_open(observed: Observed) -> bool:
    said = has_reason(observed.status, ConditionType.RECONCILING, *group.WINDOW)
    return group.is_exclusive(observed.queue) and said


def _is_forgiven(observed: Observed, job: JobView) -> bool:
    """Tell whether somebody has edited the spec since the Job was made."""
    then = job.spec_hashes.get(observed.uid)
    return then is not None and then != spec_hash(observed.queue)


def _has_recovered(observed: Observed, failed_at: datetime) -> bool:
    """Tell whether the database came back after a failure: its cause is gone."""
    since = observed.database.reachable_since if observed.database else None
    return since is not None and since > failed_at
