"""C30: a dump restored elsewhere, a copy, a promoted standby: nothing is lost, nothing runs on.

What belongs to a cluster and not to the rows: transaction ids, by which gaps are bounded;
sequences; and the numbers that a lost time has drawn, which are drawn again.
"""

import asyncio
import contextlib
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import timedelta

import asyncpg
import pytest

import awa
import awa_migrations
from awa import JobState
from awa._store.attempts import Flush
from awa.outcome import Failed
from support.command.command import Commands
from support.dumps import dump
from support.engine import FUTURE, PAST, Engine, begun
from support.fleet.tasks import QUEUE, Task
from support.postgres import Database, Server
from support.waiting import eventually

PAGE = 32768
SEGMENT = 32 * PAGE
"""Transaction ids of one file of the log of transactions."""

LONG = timedelta(minutes=2)
"""No worker that outlives its server is to be taken for dead before it could connect again."""

type MakeCopy = Callable[..., Server]


@pytest.fixture
def make_copy(test_run, postgres_binaries) -> Iterator[MakeCopy]:
    """Make a base backup of a server: `make_copy(source, as_standby=True)`; it is not started."""
    made: list[Server] = []

    def make(source: Server, *, as_standby: bool = False) -> Server:
        made.append(Server(test_run.new_path("copy"), postgres_binaries))
        made[-1].copy(source, as_standby=as_standby)
        return made[-1]

    yield make
    for server in made:
        server.destroy()


def server_at(make_server, transaction: int | None) -> Server:
    """Return a new server that goes on with a transaction id, None for that of a fresh one."""
    server = make_server(fsync="off")
    if transaction is not None:
        server.stop()
        server.set_next_transaction(transaction)
        server.start()
    return server


async def holes_of(session) -> tuple[int, int]:
    """Return how many numbers are remembered as missing, and the lowest bound of them."""
    row = await session.fetchrow(
        "select coalesce(sum(awa.size_of(coalesce(holes_old, '{}')"
        " + coalesce(holes_new, '{}'))), 0) as holes,"
        " coalesce(min(bound_old::text::bigint), 0) as bound"
        " from (select distinct on (lane_id) * from awa.claim_batches"
        " order by lane_id, next_seq desc, claim_id desc) c"
    )
    return row["holes"], row["bound"]


# --- a dump ----------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.timeout(400)
async def test_a_dump_under_load_runs_where_transaction_ids_are_lower_and_where_they_are_higher(
    make_server, make_fleet, connect, tmp_path
):
    source = server_at(make_server, 5 * SEGMENT).create_database()
    await awa_schema(source)
    engine = await Engine(source, connect).open()
    fleet = make_fleet(source)
    ids: dict[int, str] = {}

    async def enqueue(*keys: str, does: str = "ok") -> None:
        made = await fleet.client.insert_many([Task(key, does) for key in keys], queue=QUEUE)
        ids.update((job.id, job.args["key"]) for job in made)

    async def load() -> None:
        for number in range(10_000):
            await enqueue(*(f"l{number}.{at}" for at in range(5)), does="nap")

    await enqueue(*(f"r{number}" for number in range(5)), does="gate")
    # Not to be taken for dead under the load, and soon enough in the new cluster.
    await fleet.embedded("before", max_workers=20, heartbeat_staleness=timedelta(seconds=20))
    await fleet.known_started(*(f"r{number}" for number in range(5)))
    late = [await begun(session) for session in [await engine.session() for _ in range(3)]]
    for number, transaction in enumerate(late):
        await engine.enqueue(transaction._connection, number)
        await enqueue(f"x{number}")
    loading = asyncio.create_task(load())
    await eventually(lambda: len(fleet.completions()) > 50)
    dumped = await asyncio.to_thread(dump, source, tmp_path / "dump")
    loading.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await loading
    await engine.admin.execute("select awa.pause_queue_v1('q', 'test')")

    for transaction in (None, 100 * SEGMENT):
        target = (await asyncio.to_thread(server_at, make_server, transaction)).create_database()
        await asyncio.to_thread(dumped.restore, target)
        await check_restored(target, ids, make_fleet, connect, is_lower=transaction is None)


async def check_restored(database, ids, make_fleet, connect, *, is_lower) -> None:
    """Let a worker of the new cluster run what the dump holds."""
    session = await connect(database.dsn)
    holes, bound = await holes_of(session)
    here = int(await session.fetchval("select pg_current_xact_id()::text"))
    assert holes >= 3
    assert (here < bound) is is_lower
    fleet = make_fleet(database)
    found = {job_id: await job_or_none(fleet.client, job_id) for job_id in ids}
    states = Counter(job.state for job in found.values() if job is not None)
    assert states[JobState.Running] >= 5
    assert states[JobState.Completed] > 50
    waiting = {
        ids[job_id]: job.state
        for job_id, job in found.items()
        if job is not None and job.state is not JobState.Completed
    }
    (fleet.folder / "gate").touch()
    (new,) = await fleet.client.insert_many([Task("new")], queue=QUEUE)
    assert new.id > max(job_id for job_id, job in found.items() if job is not None)

    await fleet.embedded("after", max_workers=20)
    await fleet.quiet(seconds=80)
    assert fleet.completions() == Counter([*waiting, "new"])
    assert fleet.keys_started() == Counter([*waiting, "new"])
    await fleet.client.insert_many([Task("b1"), Task("b2")], queue=QUEUE)

    async def settled() -> bool:
        return (await holes_of(session))[0] == 0

    await eventually(settled, what="the gaps to be dropped")
    await fleet.quiet(seconds=40)
    assert await session.fetchval("select count(*) from awa.incarnations") == 2
    counts = await fleet.counts()
    assert counts.completed == states[JobState.Completed] + len(waiting) + 3


# --- data alone ------------------------------------------------------------------------------


@pytest.fixture
async def left_behind(database, engine, make_database, tmp_path) -> Database:
    """Return a database with ready, running, deferred and done jobs and sequences at their start.

    Nothing has connected to it but the restore.
    """
    await engine.enqueue(engine.admin, *range(6))
    held = await engine.hold(limit=3)
    await engine.finish(held.part(held.ids[:1]))
    await engine.finish(held.part(held.ids[1:2]), Failed("as told", terminal=True))
    await engine.enqueue(engine.admin, 6, 7, run_at=PAST)
    restored: Database = make_database()
    dump(database, tmp_path / "dump").restore(restored, sequences=False)
    return restored


async def ids_in(session) -> set[int]:
    """Return the identity of every job that the tables know."""
    rows = await session.fetch(
        "select job_id from awa.ready_entries union all select job_id from awa.deferred_jobs"
        " union all select job_id from awa.done_entries"
    )
    return {row["job_id"] for row in rows}


async def test_sequences_left_behind_are_raised_with_a_message_before_the_first_insert(
    left_behind, connect, make_fleet
):
    session = await connect(left_behind.dsn)
    said: list[str] = []
    session.add_log_listener(lambda _, message: said.append(message.message))
    old = await ids_in(session)
    engine = Engine(left_behind, connect)
    ready = await engine.enqueue(session, 10, 11)
    later = await engine.enqueue(session, 12, run_at=FUTURE)
    assert min(ready) > max(job_id for job_id in old if job_id % 1024)
    assert min(later) > max(job_id for job_id in old if job_id % 1024 == 0)
    assert any("awa.lane_seq_1 was at 0 and the rows at 6" in message for message in said), said
    await engine.enqueue(session, 13, queue="another")
    assert not await session.fetchval(
        "select exists (select from awa.numbers_in_use()"
        " where highest > coalesce(pg_sequence_last_value(sequence), 0))"
    )
    said.clear()
    await engine.enqueue(await connect(left_behind.dsn), 14)
    assert said == []

    # Everything that the restored tables had to run runs once, and so does what is new.
    await engine.open()
    await engine.admin.execute(
        "update awa.runtime_instances set last_seen = '2020-01-01' where worker_id <> $1",
        engine.worker,
    )
    assert sum((await engine.rescue()).values()) == 1
    assert await engine.promote() == 2
    assert await engine.claim_everything() == {2, 3, 4, 5, 6, 7, 10, 11, 14}


async def test_the_first_of_many_producers_raises_the_sequences_for_all(left_behind, connect):
    engine = Engine(left_behind, connect)
    sessions = [await connect(left_behind.dsn) for _ in range(12)]
    old = await ids_in(sessions[0])
    # The first one leaves its transaction open: nobody waits for its end.
    transaction = await begun(sessions[0])
    made = [await engine.enqueue(sessions[0], 0)]
    async with asyncio.timeout(20):
        made += await asyncio.gather(
            *(engine.enqueue(session, *range(5)) for session in sessions[1:])
        )
    await transaction.rollback()
    ids = [job_id for batch in made for job_id in batch]
    assert len(set(ids)) == len(ids)
    assert not set(ids) & old


async def test_nobody_claims_from_another_clusters_tables_before_they_are_settled(engine):
    await engine.enqueue(engine.admin, 1)
    await engine.admin.execute("update awa.incarnations set timeline = timeline + 1")
    newcomer = await engine.session()
    with pytest.raises(awa.DatabaseError) as refused:
        await engine.hold(newcomer)
    assert refused.value.sqlstate == "AWA02"
    with pytest.raises(asyncpg.PostgresError, match="nobody has settled"):
        await newcomer.fetch("select * from awa.prune_v1('1h', 1000000000)")
    numbers = "select pg_sequence_last_value('awa.claim_id')"
    before = await newcomer.fetchval(numbers) or 0
    arrived = await asyncio.gather(
        *(s.fetchrow("select * from awa.arrive_v1()") for s in [newcomer, await engine.session()])
    )
    assert sorted(row["moved"] for row in arrived) == [False, True]
    assert {row["incarnation"] for row in arrived} == {2}
    assert await newcomer.fetchval(numbers) > before + 2**31
    assert len((await engine.hold(newcomer)).ids) == 1


async def test_a_hole_of_a_prepared_transaction_outlives_the_change_of_cluster(quiet_engine):
    engine = quiet_engine
    late = await engine.session()
    await late.execute("begin")
    await engine.enqueue(late, 1)
    await late.execute("prepare transaction 'late'")
    await engine.enqueue(engine.admin, 2)
    assert await engine.claim_everything() == {2}
    await engine.admin.execute("update awa.incarnations set timeline = timeline + 1")
    row = await engine.admin.fetchrow("select * from awa.arrive_v1()")
    assert (row["moved"], row["holes"]) == (True, 1)
    await engine.enqueue(engine.admin, 3)
    assert await engine.claim_everything() == {3}
    await engine.admin.execute("commit prepared 'late'")
    assert await engine.claim_everything() == {1}


async def test_holes_left_to_the_leader_where_ids_were_higher_are_looked_through_and_forgotten(
    quiet_engine,
):
    engine = quiet_engine
    await engine.enqueue(engine.admin, 1)
    await engine.admin.execute(
        "insert into awa.lane_holes (lane_id, holes, bound)"
        " select lane_id, '{[1,1000)}', '1000000000000' from awa.lanes where queue is not null"
    )
    await engine.admin.execute("update awa.incarnations set timeline = timeline + 1")
    row = await engine.admin.fetchrow("select * from awa.arrive_v1()")
    assert (row["moved"], row["holes"]) == (True, 999)
    assert await engine.admin.fetchval("select awa.settle_holes_v1()") == 1
    assert await engine.admin.fetchval("select count(*) from awa.lane_holes") == 0
    assert await engine.claim_everything() == {1}


# --- a copy, and a standby -------------------------------------------------------------------


def refusals_of(worker: awa.AsyncClient) -> dict[int, bool]:
    """Return, and fill from now on, whether the ends of each claim were refused, by its token."""
    refused: dict[int, bool] = {}
    assert worker.worker is not None
    finisher = worker.worker.finisher
    inner = finisher.ended

    def ended(flush: Flush, stale: set[tuple[int, int]]) -> None:
        inner(flush, stale)
        for attempt in flush.sealed:
            claim = attempt.claim
            refused[claim.token] = (claim.claim_id, attempt.seq) in stale

    finisher.ended = ended
    return refused


async def claims_of(dsn: str) -> list[asyncpg.Record]:
    """Return claim, token and size of every claim that took a job."""
    session = await asyncpg.connect(dsn)
    try:
        return await session.fetch(
            "select claim_id, token, awa.size_of(items) as jobs from awa.claim_batches"
            " where not isempty(items) order by claim_id"
        )
    finally:
        await session.close()


@pytest.mark.slow
@pytest.mark.parametrize("timeline", ["same", "new"])
async def test_an_old_worker_cannot_finish_its_attempt_against_the_restored_copy(
    timeline, make_server, make_proxy, make_copy, make_fleet
):
    source = make_server(fsync="off").create_database()
    await awa_schema(source)
    proxy = make_proxy(source.server)
    fleet = make_fleet(source)
    await fleet.client.pause_queue(QUEUE)
    (job,) = await fleet.client.insert_many([Task("a", "rescue")], queue=QUEUE)
    await fleet.embedded(
        "old", dsn=source.dsn_through(proxy), heartbeat_staleness=LONG,
        heartbeat_interval=LONG / 4,  # told of the lost attempt it would be free, and run the job
        max_workers=1,
    )  # fmt: skip
    server = await asyncio.to_thread(make_copy, source.server)
    await fleet.client.resume_queue(QUEUE)
    await fleet.started("a")
    (lost,) = await claims_of(source.dsn)

    copy = Database(server, source.name)
    if timeline == "new":
        server.recover_to_new_timeline()
    await asyncio.to_thread(source.server.stop)
    await asyncio.to_thread(server.start)
    proxy.redirect(server.host, server.port)
    restored = make_fleet(copy)
    restored.folder = fleet.folder
    await restored.client.resume_queue(QUEUE)
    await restored.embedded("new")
    await eventually(lambda: fleet.keys_started() == Counter(a=2), what="the job to run again")
    (again,) = await claims_of(copy.dsn)
    assert again["token"] != lost["token"]
    # A copy on the same timeline looks like its original: only the token tells the claims apart.
    assert (again["claim_id"] == lost["claim_id"]) is (timeline == "same")
    fleet.open_gate()
    await eventually(lambda: fleet.ends("stale"), timedelta(seconds=20))
    await restored.quiet()
    assert fleet.ends("stale") == [("a", "old", "Completed")]
    assert fleet.ends() == [("a", "new", "Completed")]
    assert (await restored.client.get_job(job.id)).output == {"by": "new", "key": "a"}
    assert (await restored.counts()).completed == 1


@pytest.mark.slow
async def test_a_worker_that_outlives_the_switch_tells_two_claims_of_one_number_apart(
    make_server, make_proxy, make_copy, make_fleet
):
    source = make_server(fsync="off").create_database()
    await awa_schema(source)
    proxy = make_proxy(source.server)
    fleet = make_fleet(source)
    await fleet.client.pause_queue(QUEUE)
    await fleet.client.insert_many([Task("a", "rescue")], queue=QUEUE)
    worker = await fleet.embedded(
        "w", dsn=source.dsn_through(proxy), heartbeat_staleness=LONG,
        heartbeat_interval=LONG / 4,  # so that nobody tells it of the lost attempt
        max_workers=5,
    )  # fmt: skip
    server = await asyncio.to_thread(make_copy, source.server)
    await fleet.client.resume_queue(QUEUE)
    await fleet.started("a")
    (lost,) = await claims_of(source.dsn)

    copy = Database(server, source.name)
    await asyncio.to_thread(source.server.stop)
    await asyncio.to_thread(server.start)
    restored = make_fleet(copy)
    await restored.client.resume_queue(QUEUE)
    proxy.redirect(server.host, server.port)
    await eventually(lambda: fleet.keys_started() == Counter(a=2), what="the job to run again")
    (again,) = await claims_of(copy.dsn)
    assert again["claim_id"] == lost["claim_id"]
    refused = refusals_of(worker)
    assert worker.worker is not None
    running = {attempt.claim.token: attempt for attempt in worker.worker.executor.waiting.values()}
    assert set(running) == {lost["token"], again["token"]}
    # The attempt of the lost time ends first, with success, while the other one is open.
    running[lost["token"]].stop("test")
    await eventually(lambda: refused == {lost["token"]: True}, what="its end to be refused")
    fleet.open_gate()
    await eventually(lambda: refused == {lost["token"]: True, again["token"]: False})
    assert fleet.ends("stale") == [("a", "w", "Completed")]
    assert fleet.ends() == [("a", "w", "Completed")]
    assert worker.worker.metrics.stale == {QUEUE: 1}
    await restored.quiet()
    assert (await restored.counts()).completed == 1
    # Its places are free again, and it goes on.
    await restored.client.insert_many([Task(f"b{n}", "nap") for n in range(20)], queue=QUEUE)
    await restored.quiet()
    assert fleet.keys_started() == Counter({"a": 2} | {f"b{n}": 1 for n in range(20)})


@pytest.mark.slow
@pytest.mark.timeout(300)
async def test_a_standby_that_lacks_the_last_moment_takes_over_and_refuses_its_attempts(
    make_server, make_proxy, make_copy, make_fleet, connect
):
    primary = make_server(fsync="off").create_database()
    await awa_schema(primary)
    proxy = make_proxy(primary.server)
    fleet = make_fleet(primary)
    server = await asyncio.to_thread(make_copy, primary.server, as_standby=True)
    await asyncio.to_thread(server.start)
    standby = Database(server, primary.name)
    worker = await fleet.embedded("w", dsn=primary.dsn_through(proxy), heartbeat_staleness=LONG)
    refused = refusals_of(worker)
    await fleet.client.insert_many([Task("kept", "gate")], queue=QUEUE)
    await fleet.known_started("kept")
    await fleet.client.insert_many([Task("first")], queue=QUEUE)
    await eventually(lambda: fleet.completions()["first"])
    await fleet.client.pause_queue(QUEUE)
    await fleet.client.insert_many([Task("lost", "rescue"), Task("twice")], queue=QUEUE)
    await caught_up(primary, standby, connect)
    with server.admin() as admin:
        admin.execute("alter system set primary_conninfo = ''")
        admin.execute("select pg_reload_conf()")
    await eventually(lambda: not receives(server), what="the standby to be cut off")

    # The last moment: claims, an end, and jobs that the standby never hears of.
    await fleet.client.resume_queue(QUEUE)
    await fleet.started("lost")
    await eventually(lambda: fleet.completions()["twice"])
    await fleet.client.insert_many([Task("gone")], queue=QUEUE)
    await eventually(lambda: fleet.completions()["gone"])
    (lost,) = [claim for claim in await claims_of(primary.dsn) if claim["jobs"] == 2]
    await asyncio.to_thread(primary.server.kill)
    with server.admin() as admin:
        admin.execute("select pg_promote()")
    restored = make_fleet(standby)
    proxy.redirect(server.host, server.port)
    await restored.client.resume_queue(QUEUE)
    await eventually(
        lambda: fleet.keys_started()["lost"] == 2 and fleet.completions()["twice"] == 2,
        timedelta(seconds=30), what="what was lost to run again",
    )  # fmt: skip
    fleet.open_gate()
    await restored.quiet(seconds=30)
    await eventually(lambda: fleet.ends("stale"), what="the lost attempt's end to be refused")
    assert [token for token, was_refused in refused.items() if was_refused] == [lost["token"]]
    assert fleet.ends("stale") == [("lost", "w", "Completed")]
    assert fleet.completions() == Counter(first=1, kept=1, lost=1, twice=2, gone=1)
    assert fleet.keys_started() == Counter(first=1, kept=1, lost=2, twice=2, gone=1)
    assert (await restored.counts()).completed == 4
    session = await connect(standby.dsn)
    timelines = await session.fetch("select timeline from awa.incarnations order by incarnation")
    assert [row["timeline"] for row in timelines] == [1, 2]
    await restored.client.insert_many([Task("new")], queue=QUEUE)
    await restored.quiet()
    assert fleet.completions()["new"] == 1


async def caught_up(primary: Database, standby: Database, connect) -> None:
    """Wait until the standby has everything that the primary has."""
    here, there = await connect(primary.dsn), await connect(standby.dsn)
    last = await here.fetchval("select pg_current_wal_insert_lsn()::text")

    async def replayed() -> bool:
        return await there.fetchval("select pg_last_wal_replay_lsn() >= $1::text::pg_lsn", last)

    await here.execute("create table if not exists public.nudge ()")
    await eventually(replayed, timedelta(seconds=20))
    there.terminate()


def receives(server: Server) -> bool:
    """Whether a standby is connected to its primary."""
    with server.admin() as admin:
        return admin.execute("select count(*) from pg_stat_wal_receiver").fetchone() != (0,)


async def job_or_none(client: awa.AsyncClient, job_id: int):
    """Return a job; None when the dump does not have it."""
    with contextlib.suppress(awa.JobNotFound):
        return await client.get_job(job_id)
    return None


async def awa_schema(database: Database) -> None:
    """Make the schema."""
    await awa_migrations.migrate(database.dsn)


@pytest.mark.slow
@pytest.mark.timeout(300)
async def test_a_worker_that_starts_at_a_standby_works_when_its_address_leads_to_the_primary(
    make_server, make_proxy, make_copy, make_fleet, tmp_path
):
    primary = make_server(fsync="off").create_database()
    await awa_schema(primary)
    server = await asyncio.to_thread(make_copy, primary.server, as_standby=True)
    await asyncio.to_thread(server.start)
    proxy = make_proxy(server)
    commands = Commands(primary.dsn_through(proxy), tmp_path)
    try:
        command = commands.start()
        (line,) = await command.said("cannot work yet, trying again")
        assert "standby" in line["reason"]
        proxy.redirect(primary.server.host, primary.server.port, cut=False)
        await command.works()
    finally:
        commands.close()
