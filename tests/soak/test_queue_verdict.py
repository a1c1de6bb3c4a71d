"""The verdict on a soak of the queue sees each way in which a promise is broken."""

from collections import defaultdict
from collections.abc import Callable
from dataclasses import replace

import orjson
import pytest

from support.soak.course import Course, judge_course
from support.soak.stage import CALLS
from support.soak.stories import COMMITTED, ROLLED_BACK, UNKNOWN, Run, Story
from support.soak.verdict import Evidence, judge
from support.soak.watch import Happened, Life, Memory, Pause

LEFT = ("scheduled", "available", "running", "retryable", "waiting_external")
PRUNED = ("pruned", *(f"pruned-{number}" for number in range(40)))
ENDED = {"completed": 5 + len(PRUNED) + 1, "failed": 1, "cancelled": 1}
type Break = Callable[[Evidence], object]


def ended(key: str, begin: float, *, mode: str = "ok") -> Story:
    """A committed job that ran for a second and whose completion was accepted."""
    story = Story(key, mode)
    story.fate, story.committed_at = COMMITTED, begin - 0.5
    run = Run("t", begin, begin)
    run.ended_at = begin + 1
    story.runs.append(run)
    story.accepted.append((begin + 1.1, "t", "Completed"))
    return story


def row(key: str, state: str = "completed", mode: str = "ok", run: str = "t") -> dict[str, object]:
    output = orjson.dumps({"key": key, "token": run}).decode() if run else None
    return {"key": key, "mode": mode, "state": state, "attempt": 1, "output": output}


def kept() -> Evidence:
    """Jobs of every sort whose stories agree with the database, most of them pruned already.

    One of those was pruned before anybody looked.
    """
    plain, due = ended("plain", 10), ended("due", 20)
    due.due_at = 19.5
    plain.seen.append("t")
    first, second = ended("first", 30), ended("second", 40)
    first.unique = second.unique = "7"
    failed = ended("failed", 50, mode="fail")
    failed.accepted = [(51.1, "t", "Failed"), (52.1, "t", "Failed")]
    cancelled = Story("cancelled", "ok")
    cancelled.fate, cancelled.cancel_tried_at, cancelled.cancelled_at = COMMITTED, 60.0, 60.1
    back, unknown = Story("back", "ok"), Story("unknown", "ok")
    back.fate, unknown.fate = ROLLED_BACK, UNKNOWN
    rescued = ended("rescued", 80)
    rescued.runs.insert(0, Run("lost", 75, 75))
    rescued.stale = 1
    stories = (
        plain,
        due,
        first,
        second,
        failed,
        cancelled,
        back,
        unknown,
        rescued,
        ended("unseen", 90),
    )
    return Evidence(
        stories={
            story.key: story for story in (*stories, *(ended(key, 70) for key in PRUNED))
        },
        rows=[
            *(row(key) for key in ("plain", "due", "first", "second", "rescued")),
            row("failed", "failed", "fail", ""), row("cancelled", "cancelled", run=""),
        ],
        counts=[{"queue": "alpha", **dict.fromkeys(LEFT, 0), **ENDED}],
        removed=len(PRUNED) + 1,
        seen=7,
        observed=[row(key) for key in PRUNED],
    )  # fmt: skip


def broken(evidence: Evidence) -> list[str]:
    again = replace(evidence, by_key=defaultdict(list), ends=defaultdict(list))
    return [promise.text for promise in judge(again) if promise.violations]


def test_nothing_is_broken_when_all_is_well():
    assert broken(kept()) == []
    assert all(promise.checked for promise in judge(kept()))


ONCE = "each committed job ended exactly once"
STATE = "each job ended in the state that its handler or an administrator gave it"
GHOST = "nothing ran that was rolled back or never enqueued"
LOST = "no end of a lost claim was taken"
OUTPUT = "every published output is the one that its accepted attempt sealed"
WRITTEN = "what a handler did is never written as something else"
COUNTS = "counts are exact"
EARLY = "no job began before its time"
UNIQUE = "a unique key is held by one unfinished job at a time"
CANCELLED = "a job that was cancelled is not completed"
CHANGES = "what a job that completed shows never changes"
COMPARED = "what jobs ended with was seen before it was pruned, of nearly all"
ATTEMPTS = "no job has more attempts than it may"


def change(key: str, **values: object) -> Break:
    """The database says something else about a job."""

    def apply(evidence: Evidence) -> None:
        found = next(one for one in evidence.rows if one["key"] == key)
        found.update(values)

    return apply


def tell(key: str, **values: object) -> Break:
    """The processes noted something else about a job."""

    def apply(evidence: Evidence) -> None:
        for name, value in values.items():
            setattr(evidence.stories[key], name, value)

    return apply


def count(**values: int) -> Break:
    return lambda evidence: evidence.counts[0].update(values)


def accept_twice(evidence: Evidence) -> None:
    evidence.stories["pruned"].accepted.append((72, "t", "Completed"))


def end_too(evidence: Evidence, found: dict[str, object]) -> None:
    """There is one row more, and every count says so."""
    evidence.rows.append(found)
    evidence.seen += 1
    evidence.counts[0][str(found["state"])] += 1


def end_twice(evidence: Evidence) -> None:
    end_too(evidence, row("plain"))


def lose(evidence: Evidence) -> None:
    """A committed job is not there, while one whose commit was not answered makes up for it."""
    evidence.stories["lost"] = Story("lost", "ok")
    evidence.stories["lost"].fate = COMMITTED
    end_too(evidence, row("unknown", "failed", "fail", ""))


def lose_unseen(evidence: Evidence) -> None:
    """A committed job is not there, while one that nobody saw end was pruned in its place."""
    evidence.stories["lost"] = Story("lost", "ok")
    evidence.stories["lost"].fate = COMMITTED
    evidence.removed += 1
    evidence.counts[0]["completed"] += 1


def observe(found: dict[str, object]) -> Break:
    """The database showed something else of a job that it prunes later."""

    def apply(evidence: Evidence) -> None:
        evidence.observed[0] = found

    return apply


def prune_rolled_back(evidence: Evidence) -> None:
    evidence.observed.append(row("back", "failed", "fail", run=""))
    evidence.removed += 1
    evidence.counts[0]["failed"] += 1


def run_rolled_back(evidence: Evidence) -> None:
    evidence.stories["back"].runs.append(Run("t", 90, 90))


def run_unheard_of(evidence: Evidence) -> None:
    evidence.stories["?"] = Story("?", "?")
    evidence.stories["?"].fate = ROLLED_BACK


def end_rolled_back(evidence: Evidence) -> None:
    end_too(evidence, row("back", "failed", "fail", ""))


def take_from_lost(evidence: Evidence) -> None:
    evidence.stories["pruned"].runs.append(Run("later", 70.5, 70.5))


def take_unended(evidence: Evidence) -> None:
    evidence.stories["unseen"].runs[0].ended_at = None


def publish_another(evidence: Evidence) -> None:
    """The output is that of a run whose end nobody accepted."""
    other = Run("other", 79, 80)
    other.ended_at = 79.5
    evidence.stories["rescued"].runs.append(other)
    change("rescued", output=orjson.dumps({"token": "other"}).decode())(evidence)


def read_another(evidence: Evidence) -> None:
    evidence.stories["pruned"].seen.append("other")


def overlap(evidence: Evidence) -> None:
    evidence.stories["second"].committed_at = evidence.stories["first"].committed_at + 0.5


def complete_cancelled(evidence: Evidence) -> None:
    evidence.stories["cancelled"].accepted.append((60.2, "t", "Completed"))


@pytest.mark.parametrize(
    ("breaking", "promise"),
    [
        (end_twice, ONCE), (accept_twice, ONCE), (lose, ONCE), (lose_unseen, ONCE),
        (change("plain", mode="fail"), STATE), (change("failed", state="cancelled"), STATE),
        (run_rolled_back, GHOST), (run_unheard_of, GHOST), (end_rolled_back, GHOST),
        (take_from_lost, LOST), (take_unended, LOST),
        (publish_another, OUTPUT), (change("plain", output=None), OUTPUT),
        (tell("plain", seen=["other"]), OUTPUT), (read_another, OUTPUT),
        (tell("plain", unwritten=True), WRITTEN),
        (count(available=1), COUNTS), (count(completed=ENDED["completed"] + 1), COUNTS),
        (lambda evidence: setattr(evidence, "seen", 6), COUNTS),
        (tell("due", due_at=20.5), EARLY),
        (overlap, UNIQUE),
        (tell("plain", cancelled_at=9.0, cancel_tried_at=9.0), CANCELLED),
        (complete_cancelled, CANCELLED),
        (change("failed", attempt=3), ATTEMPTS), (change("due", attempt=26), ATTEMPTS),
        (observe(row("pruned", "failed", run="")), STATE),
        (observe(row("pruned", run="")), OUTPUT), (observe(row("pruned", run="other")), OUTPUT),
        (observe({**row("pruned"), "attempt": 26}), ATTEMPTS),
        (prune_rolled_back, GHOST),
        (lambda evidence: evidence.observed.append({**row("due"), "attempt": 2}), CHANGES),
        (lambda evidence: evidence.observed.clear(), COMPARED),
    ],
)  # fmt: skip
def test_each_broken_promise_of_the_jobs_is_told(breaking, promise):
    evidence = kept()
    breaking(evidence)
    assert broken(evidence) == [promise]


FAULT, SMALL = Happened("cut_everything", 10.0, 11.0), Happened("cut_everything", 5.0, 5.5, False)
PAUSE = Pause(FAULT, 1.0, 0.5)
TALLIED = {"work started again": 3, **dict.fromkeys(CALLS.values(), 2)}
BUSY = [float(second) for second in range(100) for _ in range(60)]
WELL = Course(
    [Pause(SMALL, 1.0, 0.5), PAUSE],
    100.0,
    6,
    lives=[Life(1, "worker 0", 0, 100), Life(2, "worker 1", 20, 60), Life(3, "worker 2", 30, 100)],
    begins={1: BUSY, 3: [35.0, 90.0]},
    counts=TALLIED,
    growth=19.0,
)
GOES_ON = "work goes on by itself after every fault"
EACH_GOES_ON = "every process that lives on works on by itself after every fault"
EFFECT = "every kind of fault was done and took effect"
STEADY = "the memory of a worker that lives on stays the same"
STOPS = "every process stops when it is asked to"
UNKNOWN_KINDS = "jobs of unknown kinds were handed back, and holes were left and moved"


def broken_course(course: Course) -> list[str]:
    return [promise.text for promise in judge_course(course) if promise.violations]


def test_nothing_is_broken_when_all_went_well():
    assert broken_course(WELL) == []


@pytest.mark.parametrize(
    ("changes", "promise"),
    [
        ({"worst_updates": 1}, "no row of a partitioned table is updated or deleted"),
        ({"followed": [Pause(FAULT, 70.0, 61.0)]}, GOES_ON),
        ({"followed": [Pause(FAULT, 89.0, None)]}, GOES_ON),
        ({"begins": {1: [9.0], 2: BUSY, 3: [35.0]}}, EACH_GOES_ON),
        ({"begins": {1: BUSY}}, EACH_GOES_ON),
        ({"left_out": {"fill_disk": "no disk"}}, EFFECT),
        ({"followed": [replace(PAUSE, fault=SMALL)]}, EFFECT),
        ({"growth": 20.0}, STEADY),
        ({"counts": {**TALLIED, "work did not stop": 1}}, STOPS),
        *(({"counts": {**TALLIED, name: 0}}, UNKNOWN_KINDS) for name in CALLS.values()),
    ],
)
def test_each_broken_promise_of_the_course_is_told(changes, promise):
    assert broken_course(replace(WELL, **changes)) == [promise]


def test_only_what_could_be_judged_is_counted():
    by_text = {p.text: p for p in judge_course(replace(WELL, produced_until=70.0))}
    assert (by_text[GOES_ON].checked, by_text[GOES_ON].of) == (1, 2)
    by_text = {p.text: p for p in judge_course(replace(WELL, begins={1: [20.0], 3: [35.0]}))}
    assert (by_text[EACH_GOES_ON].checked, by_text[EACH_GOES_ON].of) == (0, 2)


def test_growth_is_counted_from_when_a_worker_is_warm():
    warm = [10.0, 20, 40, 60, 60, 60, *[60] * 21, 70, 70, 90]
    assert Memory({"steady worker": warm}).growth() == 10
    assert Memory({"steady worker": warm[:29]}).growth() is None


def test_each_promise_has_been_broken_by_some_evidence_here():
    promises = {promise.text for promise in (*judge(kept()), *judge_course(WELL))}
    told = {
        values[1]
        for test in (
            test_each_broken_promise_of_the_jobs_is_told,
            test_each_broken_promise_of_the_course_is_told,
        )
        for values in test.pytestmark[0].args[1]
    }
    assert told == promises
