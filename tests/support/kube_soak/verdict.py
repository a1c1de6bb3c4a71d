"""What a soak on a cluster has shown: one line for each promise, from what was noted."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from support.kube_soak.tally import Lost, Run, waits

LOST_LIMIT_SECONDS = 60.0
"""So long after their pod was lost jobs must begin again, when there are other workers."""
OBSERVED_LIMIT_SECONDS = 60.0
"""So long after the API server answers again a changed spec must have been seen."""
LATE_SECONDS = 1.0
"""The clocks of handlers and database are one; a word may still be under way for so long."""


@dataclass(frozen=True, slots=True)
class Ended:
    """A job as the database has it at the end."""

    id: int
    state: str
    attempt: int
    output: Any
    ended_at: float


@dataclass(frozen=True, slots=True)
class Noted:
    """Everything that was noted.

    `sure` are jobs whose insert was answered, `runs` the words of handlers, `jobs` what the
    database has at the end, `counts` its jobs by state. `migrations` are the Jobs of each target
    that succeeded, `overlaps` moments at which two of them ran. `operator_restarts` counts
    containers of the operator that ended by themselves, `stuck` tells after which fault no job
    ended any more, and `unready` why the Queue was not ready at last. `lost` are pods that were
    taken from their jobs, `observed` the seconds until a changed spec was seen after each fault of
    the API server.
    """

    sure: tuple[int, ...]
    runs: tuple[Run, ...]
    jobs: Mapping[int, Ended]
    counts: Mapping[str, int]
    migrations: Mapping[str, int]
    overlaps: int = 0
    operator_restarts: int = 0
    stuck: tuple[str, ...] = ()
    unready: str = ""
    lost: tuple[Lost, ...] = ()
    observed: tuple[float, ...] = ()


@dataclass(slots=True)
class Verdict:
    """Each promise, and the first few ways in which it was broken."""

    broken: dict[str, list[str]] = field(default_factory=dict)

    @property
    def holds(self) -> bool:
        """Whether every promise was kept."""
        return not any(self.broken.values())

    def lines(self) -> Iterator[str]:
        """Yield one line for each promise."""
        for promise, how in self.broken.items():
            yield f"{'BROKEN' if how else 'kept':<7} {promise}"
            yield from (f"        {one}" for one in how[:5])


def judge(noted: Noted) -> Verdict:
    """Return the verdict on what was noted."""
    promises: dict[str, Iterable[str]] = {
        "every job whose insert was answered has completed": _lost(noted),
        "every output is the one that its accepted attempt recorded": _foreign_outputs(noted),
        "no job starts again after it has completed": _repeated(noted),
        "counts are exact": _miscounted(noted),
        "each migration succeeded once, and no two ran at the same time": _migrated_twice(noted),
        "the operator never ended by itself": (
            [f"{noted.operator_restarts} restarts"] if noted.operator_restarts else []
        ),
        "after every fault jobs end again": noted.stuck,
        "jobs of a lost pod soon begin again": _left_lying(noted),
        "after a fault of the API server a changed spec is soon seen": (
            f"it took {seconds:.0f} s"
            for seconds in noted.observed
            if seconds > OBSERVED_LIMIT_SECONDS
        ),
        "at the end the Queue is ready with what was asked for last": (
            [noted.unready] if noted.unready else []
        ),
    }
    return Verdict({promise: list(how) for promise, how in promises.items()})


def _lost(noted: Noted) -> Iterator[str]:
    for number in noted.sure:
        job = noted.jobs.get(number)
        if job is None:
            yield f"job {number} is not there"
        elif job.state != "completed":
            yield f"job {number} is {job.state}, attempt {job.attempt}"


def _foreign_outputs(noted: Noted) -> Iterator[str]:
    told = {
        (run.job, run.attempt, run.pod, run.version) for run in noted.runs if run.word == "ended"
    }
    for job in noted.jobs.values():
        if job.state != "completed":
            continue
        output = job.output if isinstance(job.output, dict) else {}
        sealed = (job.id, output.get("attempt"), output.get("pod"), output.get("version"))
        if sealed not in told or output.get("attempt") != job.attempt:
            yield f"job {job.id}, attempt {job.attempt}: {job.output}"


def _repeated(noted: Noted) -> Iterator[str]:
    for run in noted.runs:
        job = noted.jobs.get(run.job)
        if run.word == "began" and job is not None and job.state == "completed":
            late = run.at - job.ended_at
            if late > LATE_SECONDS:
                yield f"job {run.job} began in {run.pod} {late:.1f} s after it had completed"


def _left_lying(noted: Noted) -> Iterator[str]:
    for lost in noted.lost:
        late = [one for one in waits(noted.runs, lost) if one > LOST_LIMIT_SECONDS]
        others_work = any(
            run.word == "began" and run.pod != lost.pod
            and lost.at < run.at < lost.at + LOST_LIMIT_SECONDS / 2
            for run in noted.runs
        )  # fmt: skip
        if late and others_work:
            yield f"{len(late)} jobs of {lost.pod} waited, the last one for {max(late):.0f} s"


def _miscounted(noted: Noted) -> Iterator[str]:
    there = Counter(job.state for job in noted.jobs.values())
    said = Counter({state: count for state, count in noted.counts.items() if count})
    if there != said:
        yield f"the queue counts {dict(said)}, and there are {dict(there)}"


def _migrated_twice(noted: Noted) -> Iterator[str]:
    for target, count in noted.migrations.items():
        if count > 1:
            yield f"{count} Jobs of the target {target} succeeded"
    if noted.overlaps:
        yield f"two Jobs ran at the same time, seen {noted.overlaps} times"
