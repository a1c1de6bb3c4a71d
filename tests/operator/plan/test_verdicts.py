"""What an ended Job says, from exit codes, reasons and the last words of its pod."""

from datetime import timedelta

import pytest

from awa_operator.conditions import Reason
from awa_operator.observed import JobPhase, JobPodView, JobView
from awa_operator.plan.verdict import Outcome, judge
from support.planning.queues import START

PERMANENT = (64, 65, 78)


def ended(
    code: int | None = 75,
    message: str = "",
    reason: str = "BackoffLimitExceeded",
    phase: JobPhase = JobPhase.FAILED,
) -> JobView:
    pod = JobPodView(name="pod", is_live=False, exit_code=code, message=message, finished_at=START)
    return JobView(
        name="awa-mig-0123456789-3",
        uid="u",
        number=3,
        target_hash="1-a",
        attempt=2,
        created_at=START,
        phase=phase,
        failed_reason=None if phase is JobPhase.COMPLETE else reason,
        ended_at=START,
        pods=(pod,) if code is not None else (),
    )


@pytest.mark.parametrize(
    ("code", "reason", "message", "outcome"),
    [
        (75, "BackoffLimitExceeded", "", Outcome.TRANSIENT),
        (1, "BackoffLimitExceeded", "", Outcome.TRANSIENT),
        (137, "BackoffLimitExceeded", "", Outcome.TRANSIENT),
        (None, "BackoffLimitExceeded", "", Outcome.TRANSIENT),
        (143, "DeadlineExceeded", "", Outcome.TRANSIENT),
        (65, "DeadlineExceeded", "", Outcome.TRANSIENT),
        (65, "PodFailurePolicy", "", Outcome.PERMANENT),
        (65, "BackoffLimitExceeded", "", Outcome.PERMANENT),
        (None, "PodFailurePolicy", "", Outcome.PERMANENT),
        (65, "PodFailurePolicy", '{"error": "SchemaTooNew"}', Outcome.SCHEMA_NEWER),
        (65, "PodFailurePolicy", "SchemaTooNew: schema is at 60", Outcome.SCHEMA_NEWER),
        (65, "PodFailurePolicy", "error: SchemaTooNew: schema is at 60", Outcome.SCHEMA_NEWER),
        (65, "PodFailurePolicy", '{"error": "RuntimeTooOld"}', Outcome.FLEET_TOO_OLD),
    ],
)
def test_outcomes(code, reason, message, outcome):
    assert judge(ended(code, message, reason), PERMANENT).outcome is outcome


def test_a_success_reports_its_version():
    job = ended(0, '{"schemaVersion": 52}', phase=JobPhase.COMPLETE)
    verdict = judge(job, PERMANENT)
    assert (verdict.outcome, verdict.schema_version) == (Outcome.SUCCEEDED, 52)


@pytest.mark.parametrize(
    "said",
    ["", "done", '{"schemaVersion": "52"}', '{"schemaVersion": -1}', "[52]", "52", "{", "\x00"],
)
def test_a_success_without_a_version_is_one_too(said):
    verdict = judge(ended(0, said, phase=JobPhase.COMPLETE), PERMANENT)
    assert (verdict.outcome, verdict.schema_version) == (Outcome.SUCCEEDED, None)


@pytest.mark.parametrize("error", ["LockTimeout", "MigratorBusy", "DeadlockDetected"])
def test_locks_have_a_reason_of_their_own(error):
    verdict = judge(ended(75, f'{{"error": "{error}", "message": "held"}}'), PERMANENT)
    assert verdict.reason == Reason.LOCK_TIMEOUT
    assert verdict.message.endswith(f"ended with exit code 75: {error}: held")


def test_the_report_is_the_last_line_of_json_wherever_logs_surround_it():
    said = 'applied 0051\n{"error": "LockTimeout", "message": "held"}\nbye\n'
    assert judge(ended(75, said), PERMANENT).reason == Reason.LOCK_TIMEOUT


def test_without_a_report_the_last_line_is_shown():
    message = judge(ended(1, "first\n\nTraceback\nValueError: no\n  \n"), PERMANENT).message
    assert message.endswith(
        "Attempt 2 (awa-mig-0123456789-3) ended with exit code 1: ValueError: no"
    )


def test_long_words_are_cut():
    assert len(judge(ended(1, "x" * 4096), PERMANENT).message) < 800


def test_a_disrupted_pod_says_nothing():
    job = ended(75, '{"error": "LockTimeout"}')
    gone = JobPodView(
        name="gone", is_live=False, exit_code=65, is_disrupted=True,
        finished_at=START + timedelta(seconds=9),
    )  # fmt: skip
    verdict = judge(
        JobView(
            name=job.name, uid="u", number=3, target_hash="1-a", attempt=2, created_at=START,
            phase=job.phase, failed_reason=job.failed_reason, ended_at=START,
            pods=(*job.pods, gone),
        ),
        PERMANENT,
    )  # fmt: skip
    assert (verdict.outcome, verdict.reason) == (Outcome.TRANSIENT, Reason.LOCK_TIMEOUT)


def test_words_of_the_job_are_shown_when_no_pod_is_left():
    job = ended(None, reason="DeadlineExceeded")
    assert "longer than migration.activeDeadlineSeconds" in judge(job, PERMANENT).message
