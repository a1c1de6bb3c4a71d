"""C02, C03, C04, C16 and C31 where pods are concerned: real workers on the cluster."""

import asyncio
import time
from collections.abc import Iterator
from contextlib import suppress
from datetime import timedelta
from typing import Any

import psutil
import pytest

import awa
from cluster.faults import processes_of
from support.definitions import queue_definition
from support.holding import HOLD, Call, has_ended, until_started_is_known
from support.operating import Site, site, took
from support.stories import LIMIT, WORKERS, apply, apply_with, image, until_ready
from support.waiting import eventually

__all__ = ["apply", "image", "queue_definition", "site"]

pytestmark = [pytest.mark.timeout(420), pytest.mark.kubernetes]

MANY = 20
REPLICAS, ROOM = 4, 9
"""A pod needs one connection, and would take three and those of its pool if there were room."""
QUICK = {
    "AWA_HEARTBEAT_INTERVAL_SECONDS": "0.5",
    "AWA_HEARTBEAT_STALENESS_SECONDS": "5",
    "AWA_RESCUE_INTERVAL_SECONDS": "0.5",
}


@pytest.fixture
def frozen() -> Iterator[list[psutil.Process]]:
    """Processes that were frozen, which go on after the test in any case."""
    made: list[psutil.Process] = []
    yield made
    for one in made:
        if one.is_running():
            one.resume()


async def test_c02_handlers_that_end_while_the_database_is_away_are_published_once(
    site, image, board, own_server
):
    database = own_server(site.cluster)
    await site.start().until_leads()
    site.namespace.apply(database.secret("db"))
    worker = {"image": image(1, HOLD, "hold"), "concurrency": MANY, "env": board.environment}
    apply_with(site, worker=worker, replicas=1)
    await until_ready(site, "mail")
    async with awa.AsyncClient(database.dsn) as client:
        for _ in range(MANY):
            await client.insert({}, kind="hold", queue="mail")
        calls = await board.until(MANY)

        await asyncio.to_thread(database.database.server.stop)
        for call in calls:
            call.release()
        await board.until_gone(*calls)
        await asyncio.to_thread(database.database.server.start)

        for call in calls:
            assert (await has_ended(client, call.job)).output == {"pod": call.pod}
    assert board.calls == calls
    assert restarts(site) == [0]


async def test_c03_a_pod_that_was_suspended_cannot_end_what_another_has_done(
    site, image, apply, board, pod_client, kube_database, connect, frozen
):
    await site.start().until_leads()
    env = [*board.environment, *({"name": name, "value": QUICK[name]} for name in QUICK)]
    worker = {"image": image(1, HOLD, "hold"), "concurrency": 1, "env": env}
    apply(worker=worker, replicas=2)
    await until_ready(site, "mail")
    job = await pod_client.insert({}, kind="hold", queue="mail")
    (first,) = await board.until(1)
    await until_started_is_known(await connect(kube_database.dsn))
    frozen.extend(processes_of(first.pod))
    assert frozen
    for one in frozen:
        one.suspend()
    _, second = await board.until(2)
    assert second.pod != first.pod
    second.release()
    done = await has_ended(pod_client, job.id, attempt=2)
    assert done.output == {"pod": second.pod}

    for one in frozen:
        one.resume()
    first.release()
    await board.until_gone(first)
    # It works again, under another name: both pods have a job at the same time.
    for _ in range(2):
        await pod_client.insert({}, kind="hold", queue="mail")
    *_, third, fourth = await board.until(4)
    assert {third.pod, fourth.pod} == {first.pod, second.pod}
    assert await pod_client.get_job(job.id) == done


async def test_c04_a_container_that_starts_again_does_not_shield_what_it_had(
    site, image, apply, board, pod_client
):
    await site.start().until_leads()
    worker = {"image": image(1, HOLD, "hold"), "env": board.environment}
    apply(worker=worker, replicas=1)
    await until_ready(site, "mail")
    job = await pod_client.insert({}, kind="hold", queue="mail")
    (first,) = await board.until(1)
    killed = time.monotonic()
    for one in processes_of(first.pod):
        one.kill()
    _, second = await board.until(2)
    # The same host, the same process number 1; a silent worker is given 90 seconds.
    assert second.pod == first.pod
    assert took(killed) < timedelta(seconds=60)
    second.release()
    assert (await has_ended(pod_client, job.id, attempt=2)).output == {"pod": second.pod}


async def test_c16_handlers_that_do_not_stop_end_with_their_pod_and_start_after_it(
    site, image, apply, board, pod_client
):
    await site.start().until_leads()
    worker = {
        "image": image(1, HOLD, "hold"), "concurrency": 2, "drainTimeoutSeconds": 2,
        "env": board.environment,
    }  # fmt: skip
    apply(worker=worker, replicas=1)
    await until_ready(site, "mail")
    for kind in ("deaf", "stuck"):
        await pod_client.insert({}, kind=kind, queue="mail")
    old = await board.until(2)
    began = time.monotonic()
    await asyncio.to_thread(site.namespace.kubectl, "delete", f"pod/{old[0].pod}")
    assert took(began) < timedelta(seconds=20)
    new = (await board.until(4))[2:]
    assert {call.job for call in new} == {call.job for call in old}
    assert {call.pod for call in new}.isdisjoint(call.pod for call in old)
    gone: Any = {call.job: call.ended for call in old}
    assert all(call.began > gone[call.job] for call in new)
    states = {(await pod_client.get_job(call.job)).state for call in new}
    assert states == {awa.JobState.Running}


async def test_c31_pods_without_room_for_all_their_connections_work_also_after_a_restart(
    site, image, board, own_server
):
    database = own_server(site.cluster)
    server = database.database.server
    with server.admin() as admin:
        admin.execute(f"alter system set max_connections = {ROOM}")
    await asyncio.to_thread(server.restart)
    await site.start().until_leads()
    site.namespace.apply(database.secret("db"))
    worker = {"image": image(1, HOLD, "hold"), "concurrency": 1, "env": board.environment}
    apply_with(site, worker=worker, replicas=REPLICAS)
    await until_ready(site, "mail")
    assert "raise max_connections" in site.condition("ScalingActive")["message"]
    async with awa.AsyncClient(database.dsn, 1) as client:
        before = await each_works(client, board)
        await asyncio.to_thread(server.restart)
        after = await each_works(client, board)
    assert {call.pod for call in after} == {call.pod for call in before}
    await until_ready(site, "mail")
    assert restarts(site) == [0] * REPLICAS


async def each_works(client, board) -> list[Call]:
    """Have each of the pods run a job, all at the same time; return what they ran."""
    known, jobs = len(board.calls), []

    async def are_enqueued() -> bool:
        with suppress(awa.DatabaseUnreachable):
            jobs.extend(await client.insert_many([{}] * REPLICAS, kind="hold", queue="mail"))
        return bool(jobs)

    await eventually(are_enqueued, LIMIT, what="there is room to enqueue")
    calls: list[Call] = (await board.until(known + REPLICAS))[known:]
    assert len({call.pod for call in calls}) == REPLICAS
    for call in calls:
        call.release()

    async def are_done() -> bool:
        with suppress(awa.DatabaseUnreachable):
            found = [await client.get_job(job.id) for job in jobs]
            return all(job.state is awa.JobState.Completed for job in found)
        return False

    await eventually(are_done, LIMIT, what="all are done")
    assert sorted(call.job for call in calls) == [job.id for job in jobs]
    assert len(board.calls) == known + REPLICAS
    return calls


def restarts(site: Site) -> list[int]:
    """Return how often each container of a worker was started again."""
    return [
        one["restartCount"]
        for pod in site.list("pods", WORKERS)
        for one in pod["status"]["containerStatuses"]
    ]
