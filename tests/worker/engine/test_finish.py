"""Ends of attempts: where each leads, what it records, and that it happens once."""

import json
from dataclasses import replace
from datetime import timedelta

import asyncpg
import pytest

from awa._store.attempts import GIVEN_BACK, SealedAttempt
from awa.errors import IsolationUnsupported
from awa.outcome import COMPLETED, Cancelled, Failed, RetryRequested, Snoozed
from support.engine import Held

ERROR = Failed("ValueError: no")


async def test_successes_of_one_claim_are_one_row_and_read_as_completed(engine):
    ids = await engine.enqueue(engine.admin, *range(5))
    held = await engine.hold()
    assert await engine.finish(held) == set()
    assert await engine.admin.fetchval("select count(*) from awa.receipt_completion_batches") == 1
    for job_id in ids:
        job = await engine.job(job_id)
        assert (job["state"], job["attempt"], job["run_lease"]) == (
            "completed", 1, held.attempts[job_id][0].claim_id
        )  # fmt: skip
        assert job["created_at"] <= job["attempted_at"] <= job["finalized_at"]


@pytest.mark.parametrize("attempt", [1, 2, 3, 6])
async def test_a_failure_waits_two_to_the_attempt_and_up_to_a_quarter_more(engine, attempt):
    (job_id,) = await engine.enqueue(engine.admin, 1)
    for number in range(1, attempt + 1):
        held = await engine.hold()
        assert held.body(job_id)[4] == number - 1
        await engine.finish(held, ERROR)
        if number < attempt:
            await engine.make_due()
            await engine.promote()
    job = await engine.job(job_id)
    waits = (job["run_at"] - job["finalized_at"]).total_seconds()
    assert 2**attempt <= waits <= 1.25 * 2**attempt
    assert (job["state"], job["attempt"]) == ("retryable", attempt)
    errors = await engine.errors(job_id)
    assert [(e["error"], e["attempt"]) for e in errors] == [
        (ERROR.error, number) for number in range(1, attempt + 1)
    ]
    assert all(set(entry) == {"error", "attempt", "at"} for entry in errors)


async def test_the_longest_backoff_is_a_day(engine):
    seconds = await engine.admin.fetch(
        "select extract(epoch from awa.backoff(n)) as s from generate_series(17, 1000, 41) n"
    )
    assert {float(row["s"]) for row in seconds} == {86_400.0}


@pytest.mark.parametrize("output", [None, '{"n": 1}'])
async def test_retry_after_waits_as_asked_and_writes_an_entry_only_with_an_output(engine, output):
    (job_id,) = await engine.enqueue(engine.admin, 1)
    held = await engine.hold()
    outputs = {} if output is None else {job_id: output}
    await engine.finish(held, RetryRequested(timedelta(seconds=90)), outputs=outputs)
    job = await engine.job(job_id)
    assert (job["state"], job["attempt"]) == ("retryable", 1)
    assert (job["run_at"] - job["finalized_at"]).total_seconds() == 90
    assert [(e["error"], e["output"]) for e in await engine.errors(job_id)] == (
        [] if output is None else [("retry requested after 90s", {"n": 1})]
    )


@pytest.mark.parametrize(
    ("outcome", "error"),
    [
        (ERROR, ERROR.error),
        (
            RetryRequested(timedelta(seconds=1.5)),
            "max_attempts exhausted (handler requested retry after 1.5s)",
        ),
    ],
)
async def test_the_last_attempt_fails_the_job_and_says_why(engine, outcome, error):
    (job_id,) = await engine.enqueue(engine.admin, 1, max_attempts=1)
    await engine.finish(await engine.hold(), outcome)
    assert await engine.state(job_id) == "failed"
    (entry,) = await engine.errors(job_id)
    assert (entry["error"], entry["attempt"], entry["terminal"]) == (error, 1, True)


async def test_a_terminal_failure_is_not_tried_again(engine):
    (job_id,) = await engine.enqueue(engine.admin, 1)
    await engine.finish(await engine.hold(), Failed("no use", terminal=True))
    job = await engine.job(job_id)
    assert (job["state"], job["attempt"]) == ("failed", 1)
    assert (await engine.errors(job_id))[0]["terminal"] is True


async def test_a_snooze_does_not_count_and_records_nothing(engine):
    (job_id,) = await engine.enqueue(engine.admin, 1, max_attempts=1)
    for _ in range(4):
        held = await engine.hold()
        assert held.body(job_id)[4] == 0
        await engine.finish(held, Snoozed(timedelta(minutes=5)), outputs={job_id: '"x"'})
        job = await engine.job(job_id)
        assert (job["state"], job["attempt"], job["payload"]) == ("scheduled", 0, None)
        await engine.make_due()
        await engine.promote()
    assert await engine.state(job_id) == "available"


async def test_a_snooze_waits_as_asked(engine):
    (job_id,) = await engine.enqueue(engine.admin, 1)
    before = await engine.admin.fetchval("select clock_timestamp()")
    await engine.finish(await engine.hold(), Snoozed(timedelta(seconds=40)))
    waits = (await engine.job(job_id))["run_at"] - before
    assert timedelta(seconds=40) <= waits < timedelta(seconds=60)


async def test_a_cancel_by_the_handler_ends_the_job_with_its_reason(engine):
    (job_id,) = await engine.enqueue(engine.admin, 1)
    await engine.finish(await engine.hold(), Cancelled("not needed"), outputs={job_id: "7"})
    job = await engine.job(job_id)
    assert (job["state"], job["attempt"]) == ("cancelled", 1)
    assert [(e["error"], e["output"]) for e in await engine.errors(job_id)] == [
        ("cancelled: not needed", 7)
    ]


async def test_what_is_given_back_is_ready_at_once_and_uncounted(engine):
    (job_id,) = await engine.enqueue(engine.admin, 1)
    first = await engine.hold()
    await engine.finish(first, GIVEN_BACK)
    job = await engine.job(job_id)
    assert (job["state"], job["attempt"], job["payload"]) == ("available", 0, None)
    again = await engine.hold()
    assert again.body(job_id)[4] == 0
    assert again.attempts[job_id] != first.attempts[job_id]


async def test_progress_survives_a_failure_and_goes_with_a_success(engine):
    (job_id,) = await engine.enqueue(engine.admin, 1, payload={"tags": ["t"]})
    await engine.finish(await engine.hold(), ERROR, progress='{"percent": 40}')
    await engine.make_due()
    await engine.promote()
    held = await engine.hold()
    assert json.loads(held.body(job_id)[6])["progress"] == {"percent": 40}
    await engine.finish(held)
    payload = json.loads((await engine.job(job_id))["payload"])
    assert set(payload) == {"tags", "errors"}


@pytest.mark.parametrize(
    "outcome", [COMPLETED, ERROR, Cancelled("x"), Snoozed(timedelta(0)), GIVEN_BACK]
)
async def test_a_flush_that_is_sent_again_changes_nothing_and_is_stale(engine, outcome):
    ids = await engine.enqueue(engine.admin, 1, 2, 3)
    held = await engine.hold()
    assert await engine.finish(held, outcome) == set()
    before = [await engine.job(job_id) for job_id in ids], await engine.counts()
    assert await engine.finish(held, outcome) == set(ids)
    assert await engine.finish(held, COMPLETED) == set(ids)
    assert ([await engine.job(job_id) for job_id in ids], await engine.counts()) == before


async def test_a_flush_that_is_partly_stale_writes_the_rest(engine):
    one, two, three = await engine.enqueue(engine.admin, 1, 2, 3)
    held = await engine.hold()
    await engine.admin.fetchval("select awa.cancel_v1($1)", two)
    sealed = [
        SealedAttempt(*held.attempts[one], COMPLETED),
        SealedAttempt(*held.attempts[two], COMPLETED),
        SealedAttempt(*held.attempts[three], ERROR),
    ]
    assert await engine.flush(sealed, held) == {two}
    states = [await engine.state(job_id) for job_id in (one, two, three)]
    assert states == ["completed", "cancelled", "retryable"]


async def test_every_kind_of_end_fits_in_one_flush_of_several_claims(engine):
    outcomes = [COMPLETED, ERROR, COMPLETED, Cancelled("x"), Snoozed(timedelta(hours=1)),
                GIVEN_BACK, Failed("y", terminal=True), COMPLETED]  # fmt: skip
    ids, attempts = [], {}
    for number in range(len(outcomes)):
        ids += await engine.enqueue(engine.admin, number)
        if number % 3 == 2 or number == len(outcomes) - 1:
            attempts |= (await engine.hold()).attempts
    held = Held(attempts)
    sealed = [SealedAttempt(*attempts[at], end) for at, end in zip(ids, outcomes, strict=True)]
    assert await engine.flush(sealed, held) == set()
    assert [await engine.state(job_id) for job_id in ids] == [
        "completed", "retryable", "completed", "cancelled", "scheduled", "available", "failed",
        "completed",
    ]  # fmt: skip


async def test_a_claim_with_another_token_or_worker_ends_nothing(engine):
    (job_id,) = await engine.enqueue(engine.admin, 1)
    held = await engine.hold()
    claim, seq = held.attempts[job_id]
    others = [
        replace(claim, token=claim.token + 1),
        replace(claim, worker_id=await engine.register()),
    ]
    for other in others:
        for outcome in (COMPLETED, ERROR):
            foreign = Held({job_id: (other, seq)})
            assert await engine.finish(foreign, outcome) == {job_id}
            assert await engine.state(job_id) == "running"
    assert await engine.finish(held) == set()


@pytest.mark.parametrize("isolation", ["repeatable_read", "serializable"])
async def test_finish_and_claim_refuse_a_transaction_with_an_old_snapshot(engine, isolation):
    await engine.enqueue(engine.admin, 1, 2)
    held = await engine.hold(limit=1)
    for call in (engine.finish, lambda _, session: engine.hold(session)):
        session = await engine.session()
        with pytest.raises(IsolationUnsupported):
            async with session.transaction(isolation=isolation):
                await call(held, session=session)
    assert await engine.counts() == {"available": 1, "running": 1}


async def test_a_claim_refuses_a_transaction_that_has_written(engine):
    session = await engine.session()
    await session.execute("begin; select pg_current_xact_id()")
    with pytest.raises(IsolationUnsupported, match="a transaction of its own"):
        await engine.hold(session)


async def test_a_finish_that_is_rolled_back_has_not_happened(engine):
    (job_id,) = await engine.enqueue(engine.admin, 1)
    held = await engine.hold()
    session = await engine.session()
    transaction = session.transaction()
    await transaction.start()
    assert await engine.finish(held, session=session) == set()
    await transaction.rollback()
    assert await engine.state(job_id) == "running"
    assert await engine.finish(held) == set()


async def test_an_end_with_a_missing_body_raises_instead_of_losing_the_job(engine):
    await engine.enqueue(engine.admin, 1)
    held = await engine.hold()
    await engine.admin.execute("delete from awa.ready_entries")
    with pytest.raises(asyncpg.PostgresError):
        async with engine.admin.transaction():
            await engine.admin.fetch(
                engine.sql["finish"], engine.worker, [0],
                [claim.claim_id for claim, _ in held.attempts.values()],
                [claim.token for claim, _ in held.attempts.values()],
                [], [], [], [1], [1], ["fail"], [None], ["x"], [None], [None],
            )  # fmt: skip
