"""No row of the ring is ever changed or deleted, whatever happens to its jobs."""

from datetime import timedelta

from awa._store.attempts import GIVEN_BACK
from awa.outcome import Cancelled, Failed, RetryRequested, Snoozed
from support.engine import PAST, Unique

TOUCHED = (
    "select s.relname, n_tup_upd, n_tup_del from pg_stat_user_tables s"
    " join pg_class c on c.oid = s.relid where c.relispartition and n_tup_upd + n_tup_del > 0"
)


async def test_a_mixed_load_only_appends_to_partitioned_tables(engine):
    ends = (Failed("x"), Failed("x", terminal=True), RetryRequested(timedelta(0)), GIVEN_BACK,
            Snoozed(timedelta(0)), Cancelled("x"))  # fmt: skip
    for turn in range(24):
        await engine.enqueue(engine.admin, *range(20), payload={"tags": ["t"]})
        await engine.enqueue(engine.admin, *range(5), run_at=PAST, priority=turn % 4 + 1)
        unique = Unique(("available",), f"{turn:016}".encode())
        (cancelled, *_) = await engine.enqueue(engine.admin, 1, unique=unique, queue="q")
        await engine.enqueue(engine.admin, 2, kind="nobody knows")
        await engine.admin.fetchval(engine.sql["cancel"], cancelled)
        held = await engine.hold(deadline=0.001 if turn % 5 == 0 else 0)
        half = len(held.ids) // 2
        await engine.finish(held.part(held.ids[:half]), outputs={held.ids[0]: "1"})
        await engine.finish(held.part(held.ids[half : half + 6]), ends[turn % 6])
        await engine.admin.fetchval(engine.sql["cancel"], held.ids[-1])
        await engine.promote()
        if turn % 6 == 5:
            worker = await engine.register()
            await engine.hold(worker=worker, limit=5)
            await engine.admin.fetchval("select awa.mark_dead_v1($1, 'x')", worker)
        await engine.rescue()
        await engine.admin.fetch(engine.sql["rescue_overdue"])
        await engine.admin.fetchval(engine.sql["settle_holes"])
        await engine.rotate_anyway()
        await engine.admin.fetchval(engine.sql["evacuate"], timedelta(0), 1000)
        await engine.admin.fetchrow(engine.sql["prune"], timedelta(0), 10**15)
        await engine.beat(engine.worker, [held], grace="1 hour")
    await engine.admin.execute("select pg_stat_force_next_flush()")
    assert await engine.admin.fetchval(
        "select sum(n_tup_ins) > 500 from pg_stat_user_tables where relname like 'ready_entries_%'"
    )
    assert [tuple(row) for row in await engine.admin.fetch(TOUCHED)] == []


async def test_the_look_for_changes_sees_one(engine):
    await engine.enqueue(engine.admin, 1)
    await engine.admin.execute("update awa.ready_entries set attempt = 1")
    await engine.admin.execute("select pg_stat_force_next_flush()")
    assert [tuple(row) for row in await engine.admin.fetch(TOUCHED)] == [("ready_entries_00", 1, 0)]
