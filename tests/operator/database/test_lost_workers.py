"""The jobs of a worker whose pod is gone run again at once; a false alarm changes nothing."""

from datetime import timedelta

import pytest

from awa import JobState
from awa.outcome import COMPLETED
from support.waiting import eventually
from support.watched import OWNER, served

LONG = timedelta(seconds=60)
REGISTER = "select awa.register_worker_v1('n', '0', 'h', 1, '{q}', '{k}', '1h', $1, $2, $2)"


async def outside_of(watched, *pods):
    """Return the live workers that run in none of these pods."""
    workers = await eventually(lambda: watched.poller.live_workers(("ns", "a")))
    return [one for one in workers if one.pod not in pods]


async def give_up(watched, worker) -> bool:
    return await watched.poller.mark_dead(("ns", "a"), worker.worker_id, f"{worker.pod} is gone")


async def test_what_had_started_crashed_and_the_rest_goes_back_uncounted(watched, engine):
    gone = await engine.admin.fetchval(REGISTER, OWNER, "pod-a")
    await engine.admin.fetchval(REGISTER, OWNER, "pod-b")
    started, waiting = await engine.enqueue(engine.admin, 1, 2)
    held = await engine.hold(worker=gone)
    await engine.beat(gone, [held], started=held.part([started]))
    watched.serve("a", served(engine.database.dsn))
    (found,) = await outside_of(watched, "pod-b")
    assert found.worker_id == gone
    assert await give_up(watched, found)
    assert await engine.state(waiting) == "available"
    assert (await engine.job(waiting))["attempt"] == 0
    assert await engine.state(started) == "retryable"
    assert [one["error"] for one in await engine.errors(started)] == ["worker died: pod-a is gone"]
    await watched.looks_again(engine.database.dsn)
    assert await outside_of(watched, "pod-b") == []
    assert not await give_up(watched, found)


async def test_a_database_that_is_looked_at_rarely_hears_of_a_lost_worker_too(watched, engine):
    await engine.admin.fetchval(REGISTER, OWNER, "pod-a")
    watched.serve("a", served(engine.database.dsn, poll_interval=timedelta(minutes=5)))
    (found,) = await outside_of(watched)
    watched.poller.probe_soon(("ns", "a"))
    await watched.looks_again(engine.database.dsn)
    assert await give_up(watched, found)


async def test_an_attempt_outside_of_the_ring_is_handed_on_too(watched, engine):
    gone = await engine.admin.fetchval(REGISTER, OWNER, "pod-a")
    (job,) = await engine.enqueue(engine.admin, 1)
    await engine.hold(worker=gone)
    await engine.rotate()
    assert await engine.admin.fetchval(engine.sql["evacuate"], timedelta(0), 10) == 1
    watched.serve("a", served(engine.database.dsn))
    (found,) = await outside_of(watched)
    assert await give_up(watched, found)
    assert await engine.state(job) == "retryable"


async def test_workers_of_others_in_the_same_database_are_not_looked_at(watched, engine):
    await engine.admin.fetchval(REGISTER, "another queue", "pod-a")
    await engine.register()  # runs in no pod
    mine = await engine.admin.fetchval(REGISTER, OWNER, "pod-a")
    watched.serve("a", served(engine.database.dsn))
    assert [one.worker_id for one in await outside_of(watched)] == [mine]


async def test_the_end_of_a_worker_that_was_given_up_wrongly_is_refused_and_nothing_lost(
    watched, engine
):
    wrong = await engine.admin.fetchval(REGISTER, OWNER, "pod-a")
    (job,) = await engine.enqueue(engine.admin, 1)
    held = await engine.hold(worker=wrong)
    watched.serve("a", served(engine.database.dsn))
    (found,) = await outside_of(watched)
    assert await give_up(watched, found)
    assert await engine.finish(held, COMPLETED) == {job}  # stale
    again = await engine.hold()
    assert again.ids == [job]
    assert await engine.finish(again) == set()
    assert await engine.counts() == {"completed": 1}
    assert await engine.beat(wrong) == (False, 0)


@pytest.mark.timeout(300)
async def test_real_workers_given_up_again_and_again_register_again_and_lose_no_job(
    watched, database, make_commands, client
):
    """Every job completes exactly once while its worker is declared dead under it all the time."""
    commands = make_commands(database.dsn)
    command = commands.start(
        "work", "--processes", "2",
        AWA_POD_OWNER=OWNER, AWA_POD_NAME="pod-a", AWA_POD_UID="uid-a",
    )  # fmt: skip
    await command.works(2)
    watched.serve("a", served(database.dsn, "default"))
    jobs = [await client.insert({"key": f"k{n}"}, kind="quick") for n in range(300)]
    given_up = set()
    for _ in range(4):
        workers = await eventually(
            lambda: [
                one
                for one in watched.poller.live_workers(("ns", "a"))
                if one.worker_id not in given_up
            ],
            LONG,
            what="workers that registered again",
        )
        assert {(one.pod, one.pod_uid) for one in workers} == {("pod-a", "uid-a")}
        for one in workers:
            await give_up(watched, one)
            given_up.add(one.worker_id)
        jobs += [await client.insert({"key": f"l{n}"}, kind="quick") for n in range(50)]

    async def all_done() -> bool:
        counts = await client.queue_counts("default")
        return counts[0].completed == len(jobs)

    await eventually(all_done, LONG, what="all jobs completed")
    assert len(command.lines("declared dead, registering again")) >= 4
    for job in jobs[::25]:
        assert (await client.get_job(job.id)).state is JobState.Completed
    assert command.children()


async def test_a_pod_that_is_gone_has_its_jobs_run_elsewhere_within_seconds(
    watched, database, make_commands, client
):
    """Kill -9 of everything in a pod together with its folder, as when a node is lost."""
    gone, other = make_commands(database.dsn), make_commands(database.dsn)
    jobs = [await client.insert({"key": f"k{n}"}, kind="stay") for n in range(3)]
    first = gone.start(
        AWA_POD_OWNER=OWNER, AWA_POD_NAME="pod-a", AWA_POD_UID="a", AWA_QUEUES="default:3"
    )
    await gone.noted("started", "k0", "k1", "k2")
    watched.serve("a", served(database.dsn, "default"))
    await eventually(lambda: watched.poller.live_workers(("ns", "a")), LONG)
    first.close()
    other.open_gate()
    second = other.start(AWA_POD_OWNER=OWNER, AWA_POD_NAME="pod-b", AWA_POD_UID="b")
    await second.works()
    assert other.notes("started") == []  # nobody knows yet
    for one in await outside_of(watched, "pod-b"):
        await give_up(watched, one)

    async def all_done() -> bool:
        found = [await client.get_job(job.id) for job in jobs]
        return all(job.state is JobState.Completed for job in found)

    await eventually(all_done, timedelta(seconds=15), what="all three jobs")


@pytest.mark.timeout(300)
async def test_a_container_that_starts_again_in_its_pod_settles_its_predecessor_itself(
    watched, database, make_commands, client
):
    """The folder outlives the container, as an emptyDir does: nobody else need know."""
    commands = make_commands(database.dsn)
    pod = {"AWA_POD_OWNER": OWNER, "AWA_POD_NAME": "pod-a", "AWA_POD_UID": "a"}
    job = await client.insert({"key": "held"}, kind="hold_up", priority=1)
    rest = [await client.insert({"key": f"k{n}"}, kind="quick") for n in range(5)]
    first = commands.start("work", "--queue", "default:6", **pod)
    await commands.noted("started", "held")
    watched.serve("a", served(database.dsn, "default"))
    (before,) = await eventually(lambda: watched.poller.live_workers(("ns", "a")), LONG)
    first.close()  # kill -9 of every process in the container
    commands.start("work", "--queue", "default:6", **pod)

    async def all_done() -> bool:
        found = [await client.get_job(one.id) for one in (job, *rest)]
        return all(one.state is JobState.Completed for one in found)

    await eventually(all_done, LONG, what="all jobs")
    done = await client.get_job(job.id)
    assert (done.attempt, len(done.errors)) == (2, 1)
    assert {(await client.get_job(one.id)).attempt for one in rest} == {1}
    (after,) = await eventually(
        lambda: [
            one
            for one in watched.poller.live_workers(("ns", "a"))
            if one.worker_id != before.worker_id
        ],
        LONG,
    )
    assert (after.pod, after.pod_uid) == (before.pod, before.pod_uid) == ("pod-a", "a")
