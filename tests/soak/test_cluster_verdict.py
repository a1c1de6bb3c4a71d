"""The verdict on a soak on a cluster sees each way in which a promise is broken."""

from dataclasses import replace

import pytest

from support.kube_soak.tally import Lost, Run, waits
from support.kube_soak.verdict import Ended, Noted, judge

OUTPUT = {"pod": "a", "attempt": 1, "version": 2}
KEPT = Noted(
    sure=(1,),
    runs=(Run("began", 1, 1, "a", 2, 10.0), Run("ended", 1, 1, "a", 2, 11.0)),
    jobs={1: Ended(1, "completed", 1, OUTPUT, 11.1)},
    counts={"completed": 1, "failed": 0},
    migrations={"1-abc": 1},
)
JOB = KEPT.jobs[1]
LOST = Lost("b", 5.0)
# A job of the lost pod begins again after 61 s, and the other one worked all the time.
LATE = (Run("began", 2, 1, "b", 2, 4.0), *KEPT.runs, Run("began", 2, 2, "a", 2, 66.0))


def broken(noted: Noted) -> list[str]:
    return [promise for promise, how in judge(noted).broken.items() if how]


def test_nothing_is_broken_when_all_is_well():
    assert broken(KEPT) == []
    assert judge(KEPT).holds
    assert all(line.startswith("kept") for line in judge(KEPT).lines())


@pytest.mark.parametrize(
    ("changes", "promise"),
    [
        ({"jobs": {}, "counts": {}}, "every job whose insert was answered has completed"),
        (
            {"jobs": {1: replace(JOB, state="running")}, "counts": {"running": 1}},
            "every job whose insert was answered has completed",
        ),
        (
            {"jobs": {1: replace(JOB, output={**OUTPUT, "pod": "b"})}},
            "every output is the one that its accepted attempt recorded",
        ),
        (
            {"jobs": {1: replace(JOB, attempt=2)}},
            "every output is the one that its accepted attempt recorded",
        ),
        (
            {"runs": (*KEPT.runs, Run("began", 1, 2, "b", 2, 13.0))},
            "no job starts again after it has completed",
        ),
        ({"counts": {"completed": 2}}, "counts are exact"),
        (
            {"migrations": {"1-abc": 2}},
            "each migration succeeded once, and no two ran at the same time",
        ),
        ({"overlaps": 1}, "each migration succeeded once, and no two ran at the same time"),
        ({"operator_restarts": 1}, "the operator never ended by itself"),
        ({"lost": (LOST,), "runs": LATE}, "jobs of a lost pod soon begin again"),
        ({"observed": (3.0, 61.0)}, "after a fault of the API server a changed spec is soon seen"),
        ({"stuck": ("worker lost",)}, "after every fault jobs end again"),
        ({"unready": "no"}, "at the end the Queue is ready with what was asked for last"),
    ],
)
def test_each_broken_promise_is_told(changes, promise):
    assert broken(replace(KEPT, **changes)) == [promise]


def test_jobs_of_a_lost_pod_are_late_only_where_others_work():
    alone = (LATE[0], LATE[-1])
    assert broken(replace(KEPT, jobs={}, sure=(), counts={}, lost=(LOST,), runs=alone)) == []


def test_a_job_waits_that_was_last_begun_by_the_lost_pod_and_not_ended():
    ended = (Run("began", 3, 1, "b", 2, 4.0), Run("ended", 3, 1, "b", 2, 5.5))
    later = Run("began", 4, 1, "b", 2, 5.1)
    moved = (Run("began", 5, 1, "b", 2, 1.0), Run("began", 5, 2, "a", 2, 2.0))
    assert waits((*moved, *LATE, *ended, later), LOST) == [61.0]
    assert waits(LATE[:1], LOST) == [float("inf")]


def test_the_promises_of_time_are_kept_just_in_time():
    soon = (*LATE[:-1], replace(LATE[-1], at=64.0))
    assert broken(replace(KEPT, lost=(LOST,), runs=soon, observed=(59.0,))) == []
