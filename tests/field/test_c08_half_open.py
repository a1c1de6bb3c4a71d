"""C08: a connection whose other end is gone without a word: everything goes on over a new one.

The stop of a command (line 2) is in tests/worker/process/test_stopping.py.
"""

import asyncio
import socket
import time
from collections import Counter
from datetime import timedelta

import pytest

from awa import JobState
from support.fleet.tasks import QUEUE, Task
from support.pgwire import When
from support.waiting import eventually

WITHIN = timedelta(seconds=15)
FLOWS = {
    "claim": "claim_v1",
    "finish": "finish_v",
    "heartbeat": "heartbeat_v1",
    "listen": "pg_advisory_lock_shared",
}
BUSY = """
    select count(*) from pg_stat_activity a
     where a.pid = any($1)
       and (a.state <> 'idle' or exists (select from pg_locks l where l.pid = a.pid
                                          and l.locktype = 'advisory'))
"""
BACKENDS = """
    select array_agg(pid) from pg_stat_activity
     where datname = current_database() and application_name like 'awa%'
"""


@pytest.mark.slow
async def test_whichever_flow_falls_silent_another_takes_its_place_within_fifteen_seconds(
    make_database, migrated_template, make_fleet, make_proxy, connect
):
    async def fall_silent(flow: str) -> None:
        database = make_database(migrated_template)
        fleet, proxy = make_fleet(database), make_proxy(database.server)
        # Limits are those that everybody has. Nobody else is there to hand anything on.
        client = await fleet.embedded(
            "w", database.dsn_through(proxy), max_workers=64,
            heartbeat_interval=timedelta(seconds=1), heartbeat_staleness=timedelta(minutes=20),
        )  # fmt: skip
        worker, admin = client.worker, await connect(database.dsn)
        await eventually(lambda: worker.listener.asleep, WITHIN, what="the worker to sleep")
        before = await admin.fetchval(BACKENDS)
        cut = proxy.cut_at(FLOWS[flow], When.BEFORE_ANSWER, silent=True)
        jobs = await fleet.client.insert_many(TASKS, queue=QUEUE)
        await asyncio.to_thread(cut.wait, timedelta(seconds=20))
        silent_at = time.monotonic()
        said_at = worker.heartbeat.said_at

        async def is_well() -> bool:
            counts = await fleet.counts()
            return (
                counts.completed == len(jobs)
                and worker.listener.asleep
                and worker.heartbeat.said_at > max(said_at, silent_at)
            )

        await eventually(is_well, WITHIN, what=f"all to be well again after {flow}")
        assert fleet.completions() == fleet.keys_started() == Counter(task.key for task in TASKS)
        assert fleet.ends("stale") == []

        async def nothing_is_left() -> bool:
            now = set(await admin.fetchval(BACKENDS))
            new = {worker.listener._backend[0]}
            return not await admin.fetchval(BUSY, sorted((set(before) & now) - new))

        await eventually(nothing_is_left, WITHIN, what=f"backends of the old {flow} to rest")

    async with asyncio.TaskGroup() as flows:
        for flow in FLOWS:
            flows.create_task(fall_silent(flow))


@pytest.mark.parametrize("function", ["claim_v1", "finish_v2", "heartbeat_v1"])
async def test_the_server_ends_a_statement_before_its_client_gives_it_up(
    engine, fleet, database, make_proxy, function
):
    # Unlogged: a number from a logged one can give the claim a transaction id, which it refuses.
    await engine.admin.execute(
        "create unlogged sequence public.told; grant all on sequence told to public"
    )
    await engine.change(
        function,
        (
            "\nbegin\n",
            "\nbegin\nif nextval('public.told') = 1000001 then perform pg_advisory_xact_lock(7);"
            " perform pg_sleep(60); end if;\n",
        ),
    )
    proxy = make_proxy(database.server)
    held = "select pid from pg_locks where locktype = 'advisory' and objid = 7 and granted"
    await fleet.embedded(
        # So long the statement hangs, and can be seen to.
        "w", database.dsn_through(proxy), answer_timeout=timedelta(seconds=4),
        heartbeat_staleness=timedelta(minutes=20),
    )  # fmt: skip
    await fleet.client.insert(Task("a"), queue=QUEUE)
    await eventually(lambda: fleet.completions(), what="the first job to end")
    await engine.admin.fetchval("select setval('public.told', 1000000)")
    await fleet.client.insert(Task("b"), queue=QUEUE)
    await eventually(lambda: engine.admin.fetchval(held), what="the statement to hang")
    proxy.black_hole()  # what the client says about it does not get through either

    async def ended() -> bool:
        return not await engine.admin.fetchval(held)

    await eventually(ended, WITHIN, what="the server to have ended it")
    proxy.forward()
    await fleet.quiet()
    assert fleet.completions() == Counter("ab")


async def test_both_ends_are_told_when_to_give_up_on_a_silent_peer(fleet):
    client = await fleet.embedded("w")
    worker = client.worker
    await eventually(lambda: worker.listener.works, what="the listener")
    async with client.database.session() as pooled:
        for session in (pooled, worker.claimer._line.session, worker.listener._session):
            option = session.socket.getsockopt
            assert option(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
            assert option(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE) == 10
            assert option(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT) == 20_000
        assert await pooled.fetchval("show tcp_keepalives_idle") == "10"
        assert await pooled.fetchval("show tcp_user_timeout") == "20000"


async def test_an_embedded_worker_stops_in_time_too_and_its_job_is_handed_on(
    database, make_proxy, fleet
):
    proxy = make_proxy(database.server)
    job = await fleet.client.insert(Task("a", "gate"), queue=QUEUE)
    client = await fleet.embedded("v", database.dsn_through(proxy))
    await fleet.started("a")
    proxy.black_hole()
    asked_at = time.monotonic()
    assert not await client.shutdown(timeout_ms=1000)
    assert time.monotonic() - asked_at < 1 + 5 + 1
    await fleet.embedded("w")
    fleet.open_gate()
    await fleet.quiet()
    found = await fleet.client.get_job(job.id)
    assert (found.state, found.output) == (JobState.Completed, {"by": "w", "key": "a"})


TASKS = [Task(f"t{number}", "nap") for number in range(100)]
