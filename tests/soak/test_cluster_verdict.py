"""The verdict on a soak on a cluster sees each way in which a promise is broken."""

from dataclasses import replace

import pytest

from support.kube_soak.tally import Run
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
        ({"stuck": ("worker lost",)}, "after every fault jobs end again"),
        ({"unready": "no"}, "at the end the Queue is ready with what was asked for last"),
    ],
)
def test_each_broken_promise_is_told(changes, promise):
    assert broken(replace(KEPT, **changes)) == [promise]
