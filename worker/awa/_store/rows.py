"""Records of the database as values."""

from datetime import datetime
from typing import Any

from awa.job import JobRow, JobState
from awa.options import NewJob


def job_row(row: Any) -> JobRow:
    """Return a record of the job queries as a job's row."""
    return JobRow(
        id=row["id"],
        kind=row["kind"],
        queue=row["queue"],
        state=JobState.parse(row["state"]),
        priority=row["priority"],
        attempt=row["attempt"],
        max_attempts=row["max_attempts"],
        run_at=row["run_at"],
        created_at=row["created_at"],
        attempted_at=row["attempted_at"],
        finalized_at=row["finalized_at"],
        deadline=row["deadline_at"],
        args_json=row["args"],
        payload_json=row["payload"],
        output_json=row["output"],
    )


def inserted_row(job_id: int, job: NewJob, now: datetime) -> JobRow:
    """Return the row of a job that has just been enqueued, without asking for it again.

    Its times are this process's; those in the database are the server's.
    """
    return JobRow(
        id=job_id,
        kind=job.kind,
        queue=job.queue,
        state=JobState.Available if job.run_at is None else JobState.Scheduled,
        priority=job.priority,
        attempt=0,
        max_attempts=job.max_attempts,
        run_at=job.run_at or now,
        created_at=now,
        args_json=job.args_json,
        payload_json=job.payload_json,
    )
