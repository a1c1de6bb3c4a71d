"""What an ended migration Job says: done, useless to repeat, or worth another try."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from awa_operator.conditions import Reason, safe_message
from awa_operator.observed import JobPhase, JobPodView, JobView

TAIL = 600
"""Characters of the program's last words that are shown."""

_NAMED = re.compile(r"(?:^|[\s:])([A-Z][A-Za-z]+): ")
_LOCKS = frozenset({"LockTimeout", "MigratorBusy", "DeadlockDetected", "StatementTimeout"})
_DATABASE_AWAY = frozenset({"DatabaseUnavailable", "DatabaseUnreachable", "DatabaseReadOnly"})


class Outcome(StrEnum):
    """What to do about an ended Job."""

    SUCCEEDED = "Succeeded"
    PERMANENT = "Permanent"
    TRANSIENT = "Transient"
    SCHEMA_NEWER = "SchemaNewer"
    FLEET_TOO_OLD = "FleetTooOld"


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """The outcome, the reason for SchemaMigrated, and words for people.

    `schema_version` is what a success reports; `known_version` is the newest version that a
    program knows which found the schema too new.
    """

    outcome: Outcome
    reason: Reason
    message: str
    schema_version: int | None = None
    known_version: int | None = None
    is_database_away: bool = False


def judge(job: JobView, permanent_exit_codes: tuple[int, ...]) -> Verdict:
    """Return the verdict on a Job that is Complete or Failed."""
    pod = _telling_pod(job.pods)
    report = _report(pod.message if pod else "")
    if job.phase is JobPhase.COMPLETE:
        version = _version(report, "schemaVersion")
        return Verdict(
            outcome=Outcome.SUCCEEDED,
            reason=Reason.MIGRATED,
            message=f"{job.name} succeeded",
            schema_version=version,
        )
    error = str(report.get("error") or "")
    return Verdict(
        outcome=_outcome(job, pod, error, permanent_exit_codes),
        reason=_reason(error),
        message=_message(job, pod, report),
        known_version=_version(report, "knownVersion"),
        is_database_away=error in _DATABASE_AWAY,
    )


def _telling_pod(pods: tuple[JobPodView, ...]) -> JobPodView | None:
    """Return the pod that ended the Job: the last that ended by itself."""
    ended = [pod for pod in pods if pod.exit_code is not None and not pod.is_disrupted]
    dated = [(pod.finished_at, pod.name, pod) for pod in ended if pod.finished_at is not None]
    if dated:
        return max(dated)[2]
    return ended[-1] if ended else None


def _report(message: str) -> Mapping[str, Any]:
    """Return the program's report: its last line of JSON, else its last line of text."""
    lines = [line.strip() for line in message.splitlines() if line.strip()]
    for line in reversed(lines):
        try:
            found = json.loads(line)
        except ValueError:
            continue
        if isinstance(found, dict):
            return found
    if not lines:
        return {}
    named = _NAMED.search(lines[-1])
    return {"message": lines[-1], "error": named[1] if named else ""}


def _version(report: Mapping[str, Any], name: str) -> int | None:
    found = report.get(name)
    return found if isinstance(found, int) and not isinstance(found, bool) and found >= 0 else None


def _outcome(
    job: JobView, pod: JobPodView | None, error: str, permanent_exit_codes: tuple[int, ...]
) -> Outcome:
    if error == "SchemaTooNew":
        return Outcome.SCHEMA_NEWER
    if error == "RuntimeTooOld":
        return Outcome.FLEET_TOO_OLD
    if job.failed_reason == "DeadlineExceeded":
        return Outcome.TRANSIENT
    if job.failed_reason == "PodFailurePolicy":
        return Outcome.PERMANENT
    code = pod.exit_code if pod else None
    return Outcome.PERMANENT if code in permanent_exit_codes else Outcome.TRANSIENT


def _reason(error: str) -> Reason:
    if error in _LOCKS:
        return Reason.LOCK_TIMEOUT
    return Reason.RUNTIME_TOO_OLD if error == "RuntimeTooOld" else Reason.FAILED


def _message(job: JobView, pod: JobPodView | None, report: Mapping[str, Any]) -> str:
    if job.failed_reason == "DeadlineExceeded":
        how = "took longer than migration.activeDeadlineSeconds"
    elif pod is not None:
        how = f"ended with exit code {pod.exit_code}"
    else:
        how = "ended without a pod that says why"
    error = str(report.get("error") or "")
    words = str(report.get("message") or job.failed_message)
    if error and not words.startswith(error):
        words = f"{error}: {words}"
    tail = safe_message(words, TAIL)
    said = f": {tail}" if tail else ""
    return f"Attempt {job.attempt} ({job.name}) {how}{said}"
