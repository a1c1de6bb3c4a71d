"""C14: jobs of kinds that a worker does not know are handed back and start when one knows them."""

from collections import Counter
from datetime import timedelta

from awa.metrics import families
from support.fleet.tasks import QUEUE, Task
from support.waiting import eventually

COUNT = 1000
HANDED_BACK_TWICE = (
    "select count(*) filter (where (payload #>> '{returns,unknown}')::int >= 2) = $1"
    " from awa.deferred_jobs where kind = 'v2'"
)


async def test_a_thousand_unknown_jobs_wait_unharmed_and_start_with_the_worker_that_knows(
    engine, fleet
):
    mixed = [at for n in range(COUNT // 50) for at in (("v1", n), ("v2", n))]
    for version, number in mixed:
        # One attempt at most: being handed back must not use it up.
        await fleet.client.insert_many(
            [{"key": f"{version}-{number}-{at}", "does": "ok"} for at in range(50)],
            kind=version, queue=QUEUE, max_attempts=1,
        )  # fmt: skip
    old = await fleet.embedded("old", kind="v1", max_workers=100)
    await eventually(lambda: len(fleet.completions()) == COUNT, timedelta(seconds=30))
    # Two kinds in turn: what is handed back takes no place, and costs no call of its own.
    assert old.worker.metrics.claims["jobs"] <= 10 * COUNT / 100
    await eventually(lambda: engine.admin.fetchval(HANDED_BACK_TWICE, COUNT), timedelta(seconds=60))
    for row in await engine.admin.fetch(engine.sql["list_jobs"], None, "v2", QUEUE, COUNT):
        assert (row["state"], row["attempt"], row["payload"]) == ("scheduled", 0, None)
    (counts,) = await fleet.client.queue_counts(QUEUE)
    assert counts.unknown_kinds == ["v2"]
    await eventually(lambda: unknown_told_by(old) == {("v2", QUEUE): COUNT}, what="the metric")

    await engine.admin.execute("update awa.deferred_jobs set run_at = run_at + interval '1 hour'")
    await fleet.embedded("new", kind="v2", max_workers=100)
    await eventually(lambda: len(fleet.completions()) == 2 * COUNT, timedelta(seconds=10))
    assert set(Counter((run.worker, run.attempt) for run in fleet.runs())) == {
        ("old", 1), ("new", 1)
    }  # fmt: skip
    (counts,) = await fleet.client.queue_counts(QUEUE)
    assert (counts.unknown_kinds, counts.completed) == (None, 2 * COUNT)
    await eventually(lambda: unknown_told_by(old) == {}, what="the metric to forget them")


def unknown_told_by(worker) -> dict[tuple[str, ...], float]:
    (family,) = (f for f in families(worker.worker.metrics) if f.name == "awa_job_unknown_kind")
    return {tuple(dict(labels).values()): n for (_, labels), n in family.samples.items()}


async def test_hand_backs_leave_the_one_attempt_of_a_job_to_the_worker_that_knows_it(fleet, engine):
    """Handed back as unknown again and again, then given back by a worker that stops."""
    await fleet.client.insert_many(
        [{"key": "a", "does": "stay"}], kind="v2", queue=QUEUE, max_attempts=1
    )
    for _ in range(3):
        assert (await engine.hold(kinds=["v1"])).ids == []
        await engine.make_due()
        assert await engine.promote() == 1
    worker = await fleet.embedded("new", kind="v2")
    await fleet.started("a")
    assert await worker.shutdown(timeout_ms=0)
    (job,) = await fleet.client.list_jobs(kind="v2")
    assert (str(job.state), job.attempt, job.errors) == ("available", 0, [])


async def test_an_unknown_job_beside_known_ones_leaves_its_place_to_them(engine):
    await engine.enqueue(engine.admin, 1, kind="v2")
    known = await engine.enqueue(engine.admin, *range(2, 5))
    assert (await engine.hold(limit=4)).ids == known


async def test_a_task_of_a_known_kind_is_not_reported(fleet):
    await fleet.client.insert(Task("a"), queue=QUEUE)
    (counts,) = await fleet.client.queue_counts(QUEUE)
    assert counts.unknown_kinds is None
