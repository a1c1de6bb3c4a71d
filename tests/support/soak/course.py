"""What neither jobs nor counts show: how the processes and the server came through the faults."""

import bisect
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from support.soak.stage import CALLS
from support.soak.verdict import Promise, Violation
from support.soak.watch import Happened, Life, Pause

BACK_LIMIT_SECONDS = 60.0
"""So long after a fault is over jobs must begin again, with nobody's help."""
PLENTY = 3000
"""When all begin so many jobs in that time, there was work for each process, and time for it."""
GROWTH_LIMIT_MEBIBYTES = 20.0
DID_NOT_STOP = "did not stop"


@dataclass(frozen=True)
class Course:
    """How a soak went: what followed each fault, who lived, and what was counted meanwhile.

    `begins` are the times at which each process began jobs, in order, `growth` the MiB by which
    the memory of the steady worker grew, if that could be told.
    """

    followed: list[Pause]
    produced_until: float
    members: int
    lives: list[Life]
    begins: Mapping[int, list[float]]
    worst_updates: int = 0
    counts: Mapping[str, int] = field(default_factory=dict)
    left_out: Mapping[str, str] = field(default_factory=dict)
    growth: float | None = None


def judge_course(course: Course) -> list[Promise]:
    """Return a verdict for each promise that the course of a soak can show."""
    faults = [pause.fault for pause in course.followed]
    judged = [
        p for p in course.followed if p.fault.ended + BACK_LIMIT_SECONDS <= course.produced_until
    ]
    deaf, told = _deaf(course, faults)
    kinds = {fault.name for fault in faults} | course.left_out.keys()
    return [
        Promise(
            "no row of a partitioned table is updated or deleted", 1,
            [Violation(f"{course.worst_updates} rows")] if course.worst_updates else [],
        ),
        Promise(
            "work goes on by itself after every fault", len(judged), list(_silent(judged)),
            len(faults),
        ),
        Promise(
            "every process that lives on works on by itself after every fault", told, deaf,
            len(faults),
        ),
        Promise(
            "every process stops when it is asked to", course.members, list(_stuck(course.counts))
        ),
        Promise(
            "every kind of fault was done and took effect", len(kinds),
            list(_without_effect(course, faults)),
        ),
        Promise(
            "the memory of a worker that lives on stays the same", int(course.growth is not None),
            list(_grown(course)), 1,
        ),
        Promise(
            "jobs of unknown kinds were handed back, and holes were left and moved",
            sum(course.counts.get(name, 0) for name in CALLS.values()),
            [Violation(f"no {name}") for name in CALLS.values() if not course.counts.get(name)],
        ),
    ]  # fmt: skip


def _silent(judged: list[Pause]) -> Iterator[Violation]:
    for pause in judged:
        if pause.back_after is None or pause.back_after > BACK_LIMIT_SECONDS:
            yield Violation(f"no job began for {BACK_LIMIT_SECONDS:g} s after {pause.fault.name}")


def _deaf(course: Course, faults: list[Happened]) -> tuple[list[Violation], int]:
    """Return who was deaf after a fault, and after how many faults somebody could be judged.

    A process is judged when it lives on for long enough, with enough work for all. Its start
    counts as well: it is followed by jobs as a fault is.
    """
    all_begins = sorted(at for begins in course.begins.values() for at in begins)
    violations, judged = [], set()
    for life in course.lives:
        start = Happened("its start", life.begun, life.begun)
        begins = course.begins.get(life.pid, [])
        for fault in (start, *faults):
            end = fault.ended + BACK_LIMIT_SECONDS
            if fault.ended < life.begun or end > min(life.ended, course.produced_until):
                continue
            if _between(all_begins, fault.ended, end) < PLENTY:
                continue
            judged.add(fault)
            if not _between(begins, fault.ended, end):
                violations.append(
                    Violation(
                        f"{life.name}, process {life.pid}, began no job for "
                        f"{BACK_LIMIT_SECONDS:g} s after {fault.name}"
                    )
                )
                break
    return violations, len(judged & set(faults))


def _between(times: list[float], begin: float, end: float) -> int:
    return bisect.bisect_right(times, end) - bisect.bisect_left(times, begin)


def _stuck(counts: Mapping[str, int]) -> Iterator[Violation]:
    for name, count in counts.items():
        if name.endswith(DID_NOT_STOP):
            yield Violation(f"{count} times: {name}")


def _grown(course: Course) -> Iterator[Violation]:
    if course.growth is not None and course.growth >= GROWTH_LIMIT_MEBIBYTES:
        yield Violation(f"it grew by {course.growth:.1f} MiB")


def _without_effect(course: Course, faults: list[Happened]) -> Iterator[Violation]:
    for name, reason in course.left_out.items():
        yield Violation(f"{name} was left out: {reason}")
    tried = Counter(fault.name for fault in faults)
    for name in tried.keys() - {fault.name for fault in faults if fault.took_effect}:
        yield Violation(f"{name} took no effect in {tried[name]} tries")
