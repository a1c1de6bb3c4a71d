"""Plans do not hang on statistics: the work of a hot call is bounded, whatever the tables hold.

What a call touches is read from the server's own counters for blocks and scans, as it runs.
"""

import pytest

from awa.outcome import Failed
from support.engine import FUTURE, PAST

COUNTS = (
    "select coalesce(sum(heap_blks_read + heap_blks_hit + idx_blks_read + idx_blks_hit"
    " + toast_blks_read + toast_blks_hit), 0)::bigint from pg_statio_user_tables"
)
SEQUENTIAL = (
    "select relname, seq_tup_read from pg_stat_user_tables"
    " where relname ~ '_\\d\\d$' or relname in ('deferred_jobs', 'leases', 'done_entries')"
)
SIZES = {
    "empty": (0, None),
    "small": (50, None),
    "50,000, never analysed": (50_000, None),
    "50,000, analysed": (50_000, "analyze"),
    "analysed while empty": (50_000, "analyze before"),
}
BATCH = 100
MOST_BLOCKS = 4000
"""For a batch of a hundred jobs; a scan of 50,000 bodies reads more rows than any of them may."""


@pytest.fixture(params=SIZES)
async def filled(quiet_engine, request):
    """The engine with so many jobs waiting, as many completed, and as many deferred.

    Nothing is vacuumed meanwhile: that would count as blocks that a call has read.
    """
    engine = quiet_engine
    count, statistics = SIZES[request.param]
    if statistics == "analyze before":
        await engine.admin.execute("analyze")
    for _ in range(count // 10_000):
        for session, run_at in ((engine.admin, None), (engine.admin, FUTURE)):
            await engine.enqueue(session, *range(10_000), run_at=run_at)
        await engine.finish(await engine.hold(limit=10_000))
    if count:
        await engine.enqueue(engine.admin, *range(max(count, BATCH)), queue="q")
    if statistics == "analyze":
        await engine.admin.execute("analyze")
    return engine


async def cost(engine, call):
    """Run a call twice in a session and return what the second took: blocks, rows of whole scans.

    The first brings the catalog and the plans into the session.
    """
    session = await engine.session()
    await call(session)
    watcher = engine.admin
    await engine.publish_statistics()
    before = await watcher.fetchval(COUNTS), dict(await watcher.fetch(SEQUENTIAL))
    await call(session)
    await engine.publish_statistics()
    after = await watcher.fetchval(COUNTS), dict(await watcher.fetch(SEQUENTIAL))
    scanned = {name: after[1][name] - before[1][name] for name in after[1]}
    return after[0] - before[0], {name: rows for name, rows in scanned.items() if rows}


def few_whole_scans(scanned: dict[str, int]) -> bool:
    """Whether nothing but tiny tables was read from end to end."""
    return sum(scanned.values()) <= 2 * BATCH


async def test_a_claim_reads_what_it_takes(filled):
    blocks, scanned = await cost(filled, lambda session: filled.hold(session, limit=BATCH))
    assert blocks < MOST_BLOCKS
    assert few_whole_scans(scanned), scanned


BODY_SCANS = (
    "select sum(coalesce(idx_scan, 0) + coalesce(seq_scan, 0))::bigint from pg_stat_user_tables"
    " where relname like 'ready\\_entries\\___'"
)


async def test_a_claim_of_a_drained_lane_looks_into_no_slot(engine):
    await engine.enqueue(engine.admin, 1, 2)
    assert len((await engine.hold()).ids) == 2
    counts = []
    for _ in range(2):
        await engine.publish_statistics()
        counts.append(await engine.admin.fetchval(BODY_SCANS))
        assert (await engine.hold()).ids == []
    assert counts[0] == counts[1] > 0
    (late,) = await engine.enqueue(engine.admin, 3)
    assert (await engine.hold()).ids == [late]


@pytest.mark.parametrize("end", ["success", "failure"])
async def test_a_finish_reads_what_it_ends(filled, end):
    async def finish(session) -> None:
        held = await filled.hold(session, limit=BATCH)
        if end == "success":
            await filled.finish(held, session=session)
        else:
            await filled.finish(held, Failed("x"), session=session)

    blocks, scanned = await cost(filled, finish)
    assert blocks < 2 * MOST_BLOCKS
    assert few_whole_scans(scanned), scanned


async def test_an_enqueue_reads_nothing_that_waits(filled):
    blocks, scanned = await cost(filled, lambda session: filled.enqueue(session, *range(BATCH)))
    assert blocks < MOST_BLOCKS
    assert few_whole_scans(scanned), scanned


async def test_a_promotion_reads_what_is_due(filled):
    async def promote(session) -> None:
        await filled.enqueue(session, *range(BATCH), run_at=PAST)
        assert (await session.fetchrow(filled.sql["promote"], 1000))["promoted"] == BATCH

    blocks, scanned = await cost(filled, promote)
    assert blocks < 2 * MOST_BLOCKS
    assert few_whole_scans(scanned), scanned


async def test_a_job_is_found_by_its_number_alone(filled):
    (job_id,) = await filled.enqueue(filled.admin, 1)

    async def look(session) -> None:
        assert (await session.fetchrow(filled.sql["get_job_with_output"], job_id))["id"] == job_id

    blocks, scanned = await cost(filled, look)
    assert blocks < 500
    assert few_whole_scans(scanned), scanned


async def test_the_look_for_whole_scans_sees_one(engine):
    await engine.enqueue(engine.admin, *range(1000))
    _, scanned = await cost(
        engine, lambda session: session.fetchval("select count(args) from awa.ready_entries")
    )
    assert not few_whole_scans(scanned)
