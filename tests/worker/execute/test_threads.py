"""Plain functions run in threads, hold their places until they return, and can be asked to stop."""

import threading
from dataclasses import dataclass
from datetime import timedelta

import pytest

import awa
from support.waiting import eventually


@dataclass
class Blocking:
    n: int


@pytest.fixture
async def client(database):
    async with awa.AsyncClient(database.dsn) as client:
        yield client


async def test_plain_functions_run_at_once_in_threads_and_record_outputs(client):
    together = threading.Barrier(4, timeout=10)
    names = set()

    def handler(job: awa.Job[Blocking]) -> None:
        together.wait()  # passes only when four run at the same time
        names.add(threading.current_thread().name)
        job.set_output({"n": job.args.n})

    client.registry.add(handler, Blocking, queue="default")
    jobs = await client.insert_many([Blocking(n) for n in range(4)])
    await client.start([("default", 4)])
    await eventually(lambda: len(names) == 4, timedelta(seconds=10), what="four threads")
    await client.shutdown()
    assert threading.current_thread().name not in names
    assert [(await client.get_job(job.id)).output for job in jobs] == [{"n": n} for n in range(4)]


async def test_a_stuck_function_keeps_its_place_and_is_not_reported_as_ended(client):
    started, release = [], threading.Event()

    def handler(job: awa.Job[Blocking]) -> None:
        started.append(job.args.n)
        release.wait(30)

    client.registry.add(handler, Blocking, queue="default")
    await client.insert_many([Blocking(n) for n in range(5)])
    await client.start([("default", 2)])
    await eventually(lambda: len(started) == 2, timedelta(seconds=10), what="two to start")
    worker = client.worker
    assert worker is not None
    assert worker.permits.offer("default") == 0
    (counts,) = await client.queue_counts("default")
    assert (counts.running, counts.available, counts.completed) == (2, 3, 0)
    release.set()
    await eventually(lambda: len(started) == 5, timedelta(seconds=10), what="all to start")
    assert await client.shutdown()


async def test_a_function_that_asks_is_told_to_stop_when_its_job_is_cancelled(client):
    began, told = threading.Event(), threading.Event()

    def handler(job: awa.Job[Blocking]) -> None:
        began.set()
        for _ in range(2000):
            if job.is_cancelled():
                told.set()
                return
            told.wait(0.005)

    client.registry.add(handler, Blocking, queue="default")
    job = await client.insert(Blocking(1))
    await client.start([("default", 1)])
    await eventually(began.is_set, timedelta(seconds=10), what="the start")
    await eventually(lambda: client.worker.listener.works, what="the listener")
    assert str((await client.cancel(job.id)).state) == "cancelled"
    await eventually(told.is_set, timedelta(seconds=10), what="the word to stop")
    await client.shutdown()
    assert str((await client.get_job(job.id)).state) == "cancelled"
