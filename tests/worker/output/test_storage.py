"""Where outputs are stored: exactly, beside their jobs, in the ring and outside of it."""

import random
from datetime import timedelta

import asyncpg
import pytest

from awa._store.attempts import GIVEN_BACK, OUTPUT_BATCH_BYTES
from awa.outcome import COMPLETED, Cancelled, Failed, RetryRequested, Snoozed
from support.engine import Unique

BATCHES = (
    "select completed_count, outputs, items from awa.receipt_completion_batches"
    " order by claim_id, lower(items)"
)
TEXTS = [
    "1.0", "1", "1e400", "-0.0", '""', "[]", "{}", "false", '"null"', "0.10",
    '{"b": 1,  "a": [1.50, {"z": "\\u00e9"}], "a": 2}', '"' + "ä" * 2047 + '"',
    "[" + ",".join("1" for _ in range(2000)) + "]",
]  # fmt: skip


async def hold(engine, count: int, path: str, **options):
    """Claim fresh jobs; on the general path they have left the ring."""
    await engine.enqueue(engine.admin, *range(count), **options)
    held = await engine.hold()
    if path == "general":
        await engine.rotate()
        await engine.admin.fetchval(engine.sql["evacuate"], timedelta(0), 1000)
        assert await engine.admin.fetchval("select count(*) from awa.leases") == count
    return held


@pytest.fixture(params=["compact", "general"])
def path(request) -> str:
    """Both ways on which a completion is written."""
    return request.param


@pytest.mark.parametrize("text", TEXTS, ids=range(len(TEXTS)))
async def test_the_text_of_an_output_is_read_back_as_it_was_written(engine, path, text):
    held = await hold(engine, 1, path)
    (job_id,) = held.ids
    await engine.finish(held, outputs={job_id: text})
    assert (await engine.job(job_id))["output"] == text
    assert await engine.admin.fetchval(
        "select output::text from awa.terminal_jobs where id = $1", job_id
    ) == text  # fmt: skip


async def test_outputs_stand_beside_their_own_jobs_whatever_the_order_and_the_gaps(engine, path):
    held = await hold(engine, 40, path)
    recorded = {job_id: str(job_id) for job_id in held.ids[::3]}
    ends = list(reversed(held.ids))
    assert await engine.finish(held.part(ends[::2]), outputs=recorded) == set()
    assert await engine.finish(held.part(ends[1::2]), outputs=recorded) == set()
    for job_id in held.ids:
        assert (await engine.job(job_id))["output"] == recorded.get(job_id)
    rows = await engine.admin.fetch("select id, output::text as o from awa.terminal_jobs")
    assert {row["id"]: row["o"] for row in rows} == {i: recorded.get(i) for i in held.ids}


async def test_the_array_has_an_element_for_each_job_and_is_absent_without_outputs(engine):
    held = await hold(engine, 6, "compact")
    await engine.finish(held.part(held.ids[:3]))
    await engine.finish(held.part(held.ids[3:]), outputs={held.ids[4]: '{"n": 4}'})
    plain, with_output = await engine.admin.fetch(BATCHES)
    assert (plain["completed_count"], plain["outputs"]) == (3, None)
    assert with_output["outputs"] == [None, '{"n": 4}', None]


async def test_a_row_with_too_few_outputs_is_refused_by_the_table(engine):
    for outputs in ("'{1,2}'::json[]", "'{}'::json[]"):
        with pytest.raises(asyncpg.CheckViolationError) as refused:
            await engine.admin.execute(
                "insert into awa.receipt_completion_batches"  # noqa: S608
                " values (1, now(), now(), 1, 3, 0, '{[1,4)}', " + outputs + ")"
            )
        assert refused.value.constraint_name.endswith("receipt_outputs_aligned")
    valid = "select convalidated from pg_constraint where conname = 'receipt_outputs_aligned'"
    assert await engine.admin.fetchval(f"{valid} and conparentid = 0") is False


async def test_an_output_keeps_its_job_on_the_compact_path_whatever_else_it_has(engine):
    payload = {"tags": ["t"], "metadata": {"m": 1}}
    held = await hold(engine, 1, "compact", payload=payload, unique=Unique(("available",)))
    await engine.finish(held, Failed("first"))
    await engine.make_due()
    await engine.promote()
    again = await engine.hold()
    await engine.finish(again, outputs={again.ids[0]: "1"})
    assert await engine.admin.fetchval("select count(*) from awa.done_entries") == 0
    assert (await engine.job(again.ids[0]))["output"] == "1"


async def test_a_batch_row_ends_when_its_outputs_exceed_64_kib_in_one_transaction(engine):
    held = await hold(engine, 60, "compact")
    text = '"' + "x" * 4094 + '"'
    await engine.finish(held, outputs=dict.fromkeys(held.ids, text))
    rows = await engine.admin.fetch(BATCHES.replace("completed_count", "xmin, completed_count"))
    counts = [row["completed_count"] for row in rows]
    assert counts == [17, 17, 17, 9]  # a row takes no more once it is over the limit
    assert 16 * 4096 <= OUTPUT_BATCH_BYTES < 17 * 4096
    assert len({row["xmin"] for row in rows}) == 1
    for job_id in held.ids:
        assert (await engine.job(job_id))["output"] == text


async def test_a_flush_whose_later_row_fails_writes_none_of_its_rows(engine):
    held = await hold(engine, 40, "compact")
    outputs = dict.fromkeys(held.ids, '"' + "x" * 4094 + '"')
    outputs[held.ids[-1]] = "not json"
    with pytest.raises(Exception, match="json"):
        await engine.finish(held, outputs=outputs)
    assert await engine.counts() == {"running": 40}


async def test_a_job_that_is_stale_shifts_no_output(engine, path):
    held = await hold(engine, 9, path)
    gone = [held.ids[0], held.ids[4], held.ids[8]]
    for job_id in gone:
        await engine.admin.fetchval(engine.sql["cancel"], job_id)
    outputs = {job_id: str(job_id) for job_id in held.ids}
    assert await engine.finish(held, outputs=outputs) == set(gone)
    for job_id in held.ids:
        job = await engine.job(job_id)
        assert (job["state"], job["output"]) == (
            ("cancelled", None) if job_id in gone else ("completed", str(job_id))
        )


async def test_stale_jobs_shift_nothing_over_several_rows_of_a_split_flush(engine):
    held = await hold(engine, 50, "compact")
    outputs = {job_id: f'"{job_id:04090d}"' for job_id in held.ids}
    gone = held.ids[::7]
    for job_id in gone:
        await engine.admin.fetchval(engine.sql["cancel"], job_id)
    assert await engine.finish(held, outputs=outputs) == set(gone)
    for job_id in held.ids:
        assert (await engine.job(job_id))["output"] == (None if job_id in gone else outputs[job_id])


async def test_a_completion_that_is_sent_again_stores_its_output_once(engine, path):
    held = await hold(engine, 1, path)
    (job_id,) = held.ids
    await engine.finish(held, outputs={job_id: '"first"'})
    assert await engine.finish(held, outputs={job_id: '"second"'}) == {job_id}
    assert (await engine.job(job_id))["output"] == '"first"'
    assert await engine.admin.fetchval("select count(*) from awa.terminal_jobs") == 1


async def test_an_attempt_that_lost_its_claim_stores_nothing(engine, path):
    held = await hold(engine, 1, path)
    (job_id,) = held.ids
    await engine.admin.fetchval("select awa.mark_dead_v1($1, 'x')", engine.worker)
    await engine.rescue()
    for end in (COMPLETED, Failed("late")):
        assert await engine.finish(held, end, outputs={job_id: '"late"'}) == {job_id}
    await engine.make_due()
    await engine.promote()
    other = await engine.register()
    await engine.finish(await engine.hold(worker=other), outputs={job_id: '"in time"'})
    job = await engine.job(job_id)
    assert job["output"] == '"in time"'
    assert '"late"' not in (job["payload"] or "")


async def test_a_rolled_back_completion_leaves_no_output(engine, path):
    held = await hold(engine, 1, path)
    (job_id,) = held.ids
    session = await engine.session()
    transaction = session.transaction()
    await transaction.start()
    await engine.finish(held, outputs={job_id: '"gone"'}, session=session)
    await transaction.rollback()
    assert (await engine.job(job_id))["output"] is None
    await engine.finish(held, outputs={job_id: '"kept"'})
    assert (await engine.job(job_id))["output"] == '"kept"'


ENTRIES = {
    "error": (Failed("no"), "retryable", "no"),
    "terminal": (Failed("no", terminal=True), "failed", "no"),
    "cancel": (Cancelled("why"), "cancelled", "cancelled: why"),
    "retry after": (
        RetryRequested(timedelta(seconds=30)), "retryable", "retry requested after 30s"
    ),
}  # fmt: skip


@pytest.mark.parametrize("way", ENTRIES)
async def test_a_failed_attempt_s_output_is_in_its_error_entry_and_nowhere_else(engine, path, way):
    outcome, state, error = ENTRIES[way]
    held = await hold(engine, 1, path)
    (job_id,) = held.ids
    await engine.finish(held, outcome, outputs={job_id: '{"b": 1.0, "a": 2}'})
    (entry,) = await engine.errors(job_id)
    assert (entry["error"], entry["attempt"], entry["output"]) == (error, 1, {"a": 2, "b": 1.0})
    assert await engine.state(job_id) == state
    assert (await engine.job(job_id))["output"] is None


@pytest.mark.parametrize("end", [Snoozed(timedelta(hours=1)), GIVEN_BACK])
async def test_a_snooze_and_a_hand_back_discard_the_output(engine, path, end):
    held = await hold(engine, 1, path)
    (job_id,) = held.ids
    await engine.finish(held, end, outputs={job_id: '"x"'})
    job = await engine.job(job_id)
    assert (job["output"], job["payload"]) == (None, None)


async def test_only_the_latest_entry_that_recorded_an_output_keeps_one(engine):
    (job_id,) = await engine.enqueue(engine.admin, 1)
    for attempt, output in enumerate(["1", "2", None, "4", None], start=1):
        held = await engine.hold()
        outputs = {} if output is None else {job_id: output}
        await engine.finish(held, Failed(f"e{attempt}"), outputs=outputs)
        await engine.make_due()
        await engine.promote()
    worker = await engine.register()
    held = await engine.hold(worker=worker)
    await engine.beat(worker, [held], started=held)
    await engine.admin.fetchval("select awa.mark_dead_v1($1, 'x')", worker)
    await engine.rescue()
    errors = await engine.errors(job_id)
    assert [entry.get("output") for entry in errors] == [None, None, None, 4, None, None]
    assert [entry["attempt"] for entry in errors] == [1, 2, 3, 4, 5, 6]


async def test_a_later_success_keeps_the_failed_output_in_its_entry(engine):
    (job_id,) = await engine.enqueue(engine.admin, 1)
    await engine.finish(await engine.hold(), Failed("no"), outputs={job_id: '"failed"'})
    await engine.make_due()
    await engine.promote()
    await engine.finish(await engine.hold(), outputs={job_id: '"done"'})
    assert (await engine.job(job_id))["output"] == '"done"'
    assert [entry["output"] for entry in await engine.errors(job_id)] == ["failed"]


async def test_an_admin_cancel_publishes_nothing_of_the_attempt(engine, path):
    held = await hold(engine, 1, path)
    (job_id,) = held.ids
    await engine.admin.fetchval(engine.sql["cancel"], job_id)
    assert await engine.finish(held, outputs={job_id: '"x"'}) == {job_id}
    job = await engine.job(job_id)
    assert (job["state"], job["output"], job["payload"]) == ("cancelled", None, None)


async def test_lists_load_no_output(engine, path):
    held = await hold(engine, 3, path)
    await engine.finish(held, outputs=dict.fromkeys(held.ids, "1"))
    rows = await engine.admin.fetch(engine.sql["list_jobs"], "completed", None, None, 10)
    assert [row["output"] for row in rows] == [None] * 3


async def test_one_output_reads_no_other_batch(engine):
    """A list of jobs touches no page of the outputs' TOAST table, a single job one batch's."""
    held = await hold(engine, 51, "compact")
    chance = random.Random(1)  # noqa: S311 - text that cannot be compressed away
    big = {job_id: f'"{chance.randbytes(2000).hex()}"' for job_id in held.ids}
    await engine.finish(held, outputs=big)
    reading = (
        "select coalesce(sum(toast_blks_read + toast_blks_hit), 0)"
        " from pg_statio_user_tables where relname like 'receipt_completion_batches_%'"
    )

    async def read(query: str, *arguments: object) -> int:
        session = await engine.session()
        await engine.publish_statistics()
        before = await engine.admin.fetchval(reading)
        await session.fetch(engine.sql[query], *arguments)
        await session.execute("select pg_stat_force_next_flush()")
        return int(await engine.admin.fetchval(reading) - before)

    assert await read("list_jobs", "completed", None, None, 100) == 0
    assert await read("get_job", held.ids[0]) == 0
    assert await read("get_job_with_output", held.ids[0]) > 0


async def test_outputs_go_with_their_slot(engine):
    held = await hold(engine, 2, "compact")
    await engine.finish(held, outputs={held.ids[0]: '"x"'})
    await engine.rotate()
    row = await engine.admin.fetchrow(engine.sql["prune"], timedelta(0), 10**15)
    assert row["outcome"] == "pruned"
    assert await engine.job(held.ids[0]) is None
    assert await engine.admin.fetchval("select count(*) from awa.receipt_completion_batches") == 0
