"""What neither jobs nor counts show: how the processes and the server came through the faults."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from support.soak.verdict import Promise, Violation
from support.soak.watch import Pause

BACK_LIMIT_SECONDS = 60.0
"""So long after a fault is over jobs must begin again, with nobody's help."""
DID_NOT_STOP = "did not stop"


@dataclass(frozen=True)
class Course:
    """How a soak went: what followed each fault, and what was counted meanwhile."""

    followed: list[Pause]
    produced_until: float
    members: int
    worst_updates: int = 0
    counts: Mapping[str, int] = field(default_factory=dict)


def judge_course(course: Course) -> list[Promise]:
    """Return a verdict for each promise that the course of a soak can show."""
    updates = [Violation(f"{course.worst_updates} rows")] if course.worst_updates else []
    return [
        Promise("no row of a partitioned table is updated or deleted", 1, updates),
        Promise(
            "work goes on by itself after every fault",
            len(course.followed),
            list(_silent(course)),
        ),
        Promise(
            "every process stops when it is asked to", course.members, list(_stuck(course.counts))
        ),
    ]


def _silent(course: Course) -> Iterator[Violation]:
    for pause in course.followed:
        if course.produced_until - pause.fault.ended <= BACK_LIMIT_SECONDS:
            continue
        if pause.back_after is None or pause.back_after > BACK_LIMIT_SECONDS:
            yield Violation(f"no job began for {BACK_LIMIT_SECONDS:g} s after {pause.fault.name}")


def _stuck(counts: Mapping[str, int]) -> Iterator[Violation]:
    for name, count in counts.items():
        if name.endswith(DID_NOT_STOP):
            yield Violation(f"{count} times: {name}")
