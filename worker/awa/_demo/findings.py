"""What has become of the demo's jobs, and how fast it went."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from awa._demo.pictures import Picture
from awa.job import Job, JobState


@dataclass(frozen=True, slots=True)
class Finding:
    """A picture and its job, at its end."""

    picture: Picture
    job: Job[Any]

    @property
    def wrong(self) -> str | None:
        """What is not as it must be; None when all is."""
        wanted = JobState.Completed if self.picture.damage is None else JobState.Failed
        if self.job.state is not wanted:
            return f"is {self.job.state}, not {wanted}"
        if self.picture.damage is None:
            return self._wrong_output()
        return None if self.error else "has no error"

    @property
    def error(self) -> str:
        """The first line of the latest error, empty when there is none."""
        errors = self.job.errors
        return str(errors[-1].get("error", "")).partition("\n")[0] if errors else ""

    @property
    def output(self) -> dict[str, Any]:
        """What the job has recorded."""
        return self.job.output if isinstance(self.job.output, dict) else {}

    def _wrong_output(self) -> str | None:
        for name in ("format", "width", "height", "bytes", "digest"):
            if self.output.get(name) != getattr(self.picture, name):
                return f"has another {name} in its output than the file"
        return None


@dataclass(frozen=True, slots=True)
class Spread:
    """Durations of many jobs: half were no longer than `p50`, 99 of 100 no longer than `p99`."""

    p50: timedelta
    p99: timedelta

    @classmethod
    def of(cls, durations: Sequence[timedelta]) -> "Spread | None":
        """Return the spread; None of nothing."""
        if not durations:
            return None
        ordered = sorted(durations)
        return cls(_rank(ordered, 0.50), _rank(ordered, 0.99))


@dataclass(frozen=True, slots=True)
class Figures:
    """How fast a set of jobs went. `to_start` is from commit to start, `to_end` from there."""

    jobs: int
    took: timedelta
    to_start: Spread
    to_end: Spread

    @property
    def jobs_per_second(self) -> float:
        """Jobs that ended in a second, from the first commit to the last end."""
        return self.jobs / max(self.took.total_seconds(), 1e-6)

    @classmethod
    def of(cls, jobs: Sequence[Job[Any]]) -> "Figures | None":
        """Return the figures of jobs that have ended; None when there are none.

        All times are those of the database's clock. A job is claimed only when it has a place to
        run, so it starts when it is claimed.
        """
        ended = [
            (job.created_at, job.attempted_at, job.finalized_at)
            for job in jobs
            if job.attempted_at is not None and job.finalized_at is not None
        ]
        to_start = Spread.of([started - created for created, started, _ in ended])
        to_end = Spread.of([end - started for _, started, end in ended])
        if to_start is None or to_end is None:
            return None
        took = max(end for _, _, end in ended) - min(created for created, _, _ in ended)
        return cls(len(ended), took, to_start, to_end)


def _rank(ordered: Sequence[timedelta], part: float) -> timedelta:
    """Return the smallest value that `part` of all are not above."""
    return ordered[max(0, math.ceil(part * len(ordered)) - 1)]
