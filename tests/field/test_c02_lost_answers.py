"""C02: the handler is done, and the database does not answer, or not in time."""

import asyncio
import time
from collections import Counter
from datetime import timedelta

import pytest

from awa import DatabaseUnreachable, JobState
from support.fleet.tasks import QUEUE, Task
from support.pgwire import When
from support.sizes import sized
from support.waiting import eventually

COUNT = 200
FAULTS = {
    "40001": "raise exception 'told to' using errcode = '40001'",
    "40P01": "raise exception 'told to' using errcode = '40P01'",
    "57P01": "perform pg_terminate_backend(pg_backend_pid()); perform pg_sleep(10)",
}


@pytest.mark.parametrize("nth", [1, 2])
@pytest.mark.parametrize("when", list(When))
async def test_a_finish_cut_anywhere_is_written_once(fleet, database, make_proxy, when, nth):
    proxy = make_proxy(database.server)
    jobs = await fleet.client.insert_many(tasks(), queue=QUEUE)
    cut = proxy.cut_at("finish_v", when, nth=nth)
    worker = await fleet.embedded("w", database.dsn_through(proxy), max_workers=64)
    await asyncio.to_thread(cut.wait)
    await assert_all_published_once(fleet, worker, jobs)


@pytest.mark.parametrize("sqlstate", list(FAULTS))
async def test_a_finish_answered_with_a_passing_error_is_sent_again(engine, fleet, sqlstate):
    await engine.admin.execute("create sequence public.told; grant all on sequence told to public")
    for function in ("finish_v1", "finish_v2"):
        await engine.change(
            function,
            (
                "\nbegin\n",
                f"\nbegin\nif nextval('public.told') = 1 then {FAULTS[sqlstate]}; end if;\n",
            ),
        )
    jobs = await fleet.client.insert_many(tasks(), queue=QUEUE)
    worker = await fleet.embedded("w", max_workers=64)
    await assert_all_published_once(fleet, worker, jobs)
    assert await engine.admin.fetchval("select last_value from public.told") > 1


async def test_a_lost_answer_about_outputs_does_not_stop_the_finisher(fleet, database, make_proxy):
    proxy = make_proxy(database.server)
    jobs = await fleet.client.insert_many(tasks(), queue=QUEUE)
    cut = proxy.cut_at("attname in ('outputs'", When.BEFORE_ANSWER)
    worker = await fleet.embedded("w", database.dsn_through(proxy), max_workers=64)
    await asyncio.to_thread(cut.wait)
    await assert_all_published_once(fleet, worker, jobs)
    assert worker.worker.finisher.restarts == 0
    assert worker.worker.finisher.resent > 0


async def test_jobs_of_a_claim_whose_answer_is_lost_run_soon_and_uncounted(
    fleet, database, make_proxy
):
    proxy = make_proxy(database.server)
    await fleet.client.insert_many(tasks(), queue=QUEUE)
    cut = proxy.cut_at("claim_v1", When.BEFORE_ANSWER)
    # Nothing but the worker itself may hand these back: it is never stale, nothing is overdue.
    await fleet.embedded(
        "w", database.dsn_through(proxy), max_workers=64, deadline_seconds=300,
        heartbeat_interval=timedelta(minutes=5), heartbeat_staleness=timedelta(minutes=20),
    )  # fmt: skip
    await asyncio.to_thread(cut.wait)
    await fleet.quiet()
    assert {(run.key, run.attempt) for run in fleet.runs()} == {(t.key, 1) for t in tasks()}
    assert len(fleet.completions()) == COUNT


async def test_a_claim_that_nobody_gives_back_is_missed_by_the_next_heartbeats(
    engine, fleet, database, make_proxy
):
    proxy = make_proxy(database.server)
    await fleet.client.insert_many(tasks(), queue=QUEUE)
    # The worker finds nothing by the token, as if the claim had committed after it asked.
    await engine.change("give_back_v1", ("\nbegin\n", "\nbegin\nreturn 0;\n"))
    cut = proxy.cut_at("claim_v1", When.BEFORE_ANSWER)
    await fleet.embedded(
        "w", database.dsn_through(proxy), max_workers=64, deadline_seconds=300,
        heartbeat_staleness=timedelta(minutes=20),
    )  # fmt: skip
    await asyncio.to_thread(cut.wait)
    await fleet.quiet()
    assert {(run.key, run.attempt) for run in fleet.runs()} == {(t.key, 1) for t in tasks()}


# A limit above the longest pause between two tries: all are heard before anybody may judge.
@pytest.mark.parametrize(
    ("staleness", "outage"),
    [(sized(20.0, 90.0), sized(0.0, 30.0)), (8.0, sized(9.6, 30.0))],
    ids=["short outage", "longer than staleness"],
)
async def test_handlers_that_end_while_the_database_is_gone_are_published_when_it_is_back(
    durable_database, make_fleet, staleness, outage
):
    server = durable_database.server
    fleet = make_fleet(durable_database)
    jobs = await fleet.client.insert_many([Task(f"t{n}", "gate") for n in range(50)], queue=QUEUE)
    workers = [
        await fleet.embedded(
            name, max_workers=25,
            heartbeat_interval=timedelta(seconds=0.3),
            heartbeat_staleness=timedelta(seconds=staleness),
        )
        for name in ("v", "w")
    ]  # fmt: skip
    await fleet.started(*(f"t{n}" for n in range(50)))
    await asyncio.to_thread(server.stop)
    gone_at = time.monotonic()
    fleet.open_gate()
    for worker in workers:
        finisher = worker.worker.finisher
        await eventually(lambda finisher=finisher: finisher.waiting == 25, what="ends to wait")
        await eventually(lambda finisher=finisher: finisher.resent > 3, what="tries in vain")
    await eventually(
        lambda: time.monotonic() - gone_at > outage, timedelta(seconds=60), what="a long outage"
    )
    await asyncio.to_thread(server.start)
    await fleet.quiet(seconds=30)
    assert set(fleet.keys_started().values()) == {1}
    for job in jobs:
        assert (await fleet.client.get_job(job.id)).output["key"] == job.args["key"]


async def test_handlers_that_end_while_the_server_takes_no_writes_are_published_later(
    durable_database, make_fleet
):
    fleet = make_fleet(durable_database)
    jobs = await fleet.client.insert_many([Task(f"t{n}", "gate") for n in range(50)], queue=QUEUE)
    worker = await fleet.embedded("w", max_workers=50, heartbeat_staleness=timedelta(seconds=20))
    await fleet.started(*(f"t{n}" for n in range(50)))
    with durable_database.server.admin() as admin:
        admin.execute("alter system set default_transaction_read_only = on")
        admin.execute("select pg_reload_conf()")
        try:
            fleet.open_gate()
            finisher = worker.worker.finisher
            await eventually(lambda: finisher.resent > 3, what="tries in vain")
            assert finisher.waiting == 50
            with pytest.raises(DatabaseUnreachable, match="takes no writes"):
                await fleet.client.insert(Task("late"), queue=QUEUE)
        finally:
            admin.execute("set default_transaction_read_only = off")
            admin.execute("alter system reset default_transaction_read_only")
            admin.execute("select pg_reload_conf()")
    await fleet.quiet(seconds=30)
    assert set(fleet.keys_started().values()) == {1}
    for job in jobs:
        assert (await fleet.client.get_job(job.id)).output["key"] == job.args["key"]


async def assert_all_published_once(fleet, worker, jobs) -> None:
    await fleet.quiet()
    assert sorted(fleet.keys_started().items()) == sorted((t.key, 1) for t in tasks())
    for job in jobs:
        found = await fleet.client.get_job(job.id)
        assert found.state is JobState.Completed
        assert found.output == {"by": "w", "key": job.args["key"]}
    metrics = worker.worker.metrics
    await eventually(lambda: sum(metrics.outcomes.values()) >= COUNT)
    assert metrics.outcomes == {("task", QUEUE, "completed"): COUNT}
    assert sum(metrics.stale.values()) == 0
    assert sorted(fleet.completions().items()) == sorted((t.key, 1) for t in tasks())


async def test_a_job_claimed_from_a_gap_stays_when_those_behind_it_have_ended(engine, fleet):
    """One claim hands out both, apart; its worker names the claim until both have ended."""
    late = await engine.session()
    transaction = late.transaction()
    await transaction.start()
    await late.execute(
        "select awa.enqueue_v1($1, 2::smallint, array['task'],"
        " array[jsonb_build_object('key', 'late', 'does', 'gate')])",
        QUEUE,
    )
    await fleet.client.insert_many([Task("first")], queue=QUEUE)
    await fleet.embedded("w", heartbeat_staleness=timedelta(minutes=5))
    await eventually(lambda: fleet.completions()["first"])
    await fleet.client.pause_queue(QUEUE)
    await transaction.commit()
    await fleet.client.insert_many([Task("b1"), Task("b2")], queue=QUEUE)
    await fleet.client.resume_queue(QUEUE)
    await fleet.started("late", "b1", "b2")
    await eventually(lambda: fleet.completions().total() == 3, what="those behind it to end")

    async def has_been_heard() -> bool:
        """Whether heartbeats went on for more than the two intervals that a lost claim gets."""
        heard: bool = await engine.admin.fetchval(
            "select (select max(last_seen) from awa.runtime_instances)"
            " > (select max(claimed_at) from awa.claim_batches where not isempty(items))"
            " + interval '2.5 s'"
        )
        return heard

    await eventually(has_been_heard, what="some heartbeats")
    assert fleet.keys_started()["late"] == 1
    fleet.open_gate()
    await fleet.quiet()
    assert fleet.keys_started() == Counter(["late", "first", "b1", "b2"])
    assert fleet.ends("stale") == []


def tasks() -> list[Task]:
    return [Task(f"t{number}") for number in range(COUNT)]
