"""C16: a handler that will not stop keeps its place and is counted; others take the work.

Stops (lines 1 and 2) are in tests/worker/process/test_stopping.py: handlers that swallow every
cancel or hang in a thread end with their process and run on after it; one that looks at the flag
completes.
"""

from datetime import timedelta

from awa.metrics import families
from support.fleet.tasks import QUEUE, Blocking, Task
from support.waiting import eventually

STUCK = 4
OTHERS = 10
SOON = timedelta(seconds=60)
PATIENT = timedelta(minutes=10)


def stuck_told_by(client) -> dict[str, float]:
    (family,) = (f for f in families(client.worker.metrics) if f.name == "awa_job_stuck")
    return {dict(labels)["awa_job_kind"]: value for (_, labels), value in family.samples.items()}


async def test_stuck_functions_keep_their_places_are_counted_and_stop_nobody_else(fleet):
    stuck = [Blocking(f"stuck{n}") for n in range(STUCK)]
    jobs = await fleet.client.insert_many(stuck, queue=QUEUE, max_attempts=1)
    one = await fleet.embedded(
        "one", max_workers=STUCK, deadline_seconds=0.5, heartbeat_staleness=PATIENT
    )
    assert stuck_told_by(one) == {"task": 0, "blocking": 0}
    await fleet.started(*(task.key for task in stuck), seconds=60)
    await fleet.client.insert_many([Task(f"other{n}") for n in range(OTHERS)], queue=QUEUE)
    await eventually(
        lambda: stuck_told_by(one) == {"task": 0, "blocking": STUCK}, SOON, what="four stuck"
    )
    # Their jobs are given up, their threads run on: nothing is claimed that could not start.
    await eventually(lambda: given_up(fleet), SOON, what="four jobs given up")
    counts = await fleet.counts()
    assert (counts.running, counts.available) == (0, OTHERS)
    assert one.worker.permits.offer(QUEUE) == 0
    await fleet.embedded("two", max_workers=STUCK, heartbeat_staleness=PATIENT)
    await fleet.quiet(60)
    assert {run.worker for run in fleet.runs() if run.key.startswith("other")} == {"two"}
    assert [run.ended_ns for run in fleet.runs() if run.key.startswith("stuck")] == [None] * STUCK
    fleet.open_gate()
    await eventually(lambda: stuck_told_by(one) == {"task": 0, "blocking": 0}, SOON)
    for job in jobs:
        found = await fleet.client.get_job(job.id)
        assert str(found.state) == "failed"
        assert [error["error"] for error in found.errors] == ["hard deadline exceeded"]
    assert await one.shutdown()


async def test_the_job_of_a_stuck_function_runs_elsewhere_beside_it_and_only_that_run_counts(fleet):
    stuck = [Blocking(f"stuck{n}") for n in range(STUCK)]
    jobs = await fleet.client.insert_many(stuck, queue=QUEUE, max_attempts=2)
    await fleet.embedded(
        "one", max_workers=STUCK, deadline_seconds=0.5, heartbeat_staleness=PATIENT
    )
    await fleet.started(*(task.key for task in stuck), seconds=60)
    await fleet.embedded("two", max_workers=STUCK, heartbeat_staleness=PATIENT)
    twice = {task.key: 2 for task in stuck}
    await eventually(lambda: fleet.keys_started() == twice, SOON, what="the second attempts")
    both = [("one", 1, None), ("two", 2, None)]
    for task in stuck:
        found = [run for run in fleet.runs() if run.key == task.key]
        assert [(run.worker, run.attempt, run.ended_ns) for run in found] == both
    fleet.open_gate()
    ends = {(task.key, word) for task in stuck for word in ("one", "two")}
    await eventually(lambda: ended(fleet) == ends, SOON, what="both threads of each to end")
    await fleet.quiet(60)
    assert sorted(fleet.ends()) == [(task.key, "two", "Completed") for task in stuck]
    for job in jobs:
        found = await fleet.client.get_job(job.id)
        assert (str(found.state), found.attempt) == ("completed", 2)
        assert found.output == {"by": "two", "key": job.args["key"]}
        assert [error["error"] for error in found.errors] == ["hard deadline exceeded"]


def ended(fleet) -> set[tuple[str, str]]:
    return {(run.key, run.worker) for run in fleet.runs() if run.ended_ns is not None}


async def given_up(fleet) -> bool:
    return (await fleet.counts()).failed == STUCK
