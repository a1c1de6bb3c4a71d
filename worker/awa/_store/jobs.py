"""Enqueue, claim and finish: each one round trip."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import asyncpg

from awa._store.attempts import Claim, Flush
from awa._store.faults import DRIVER_ERRORS, conflict_position, translate, translated
from awa.errors import AwaError, UniqueConflict
from awa.options import NewJob
from awa.running import ClaimHead

_COPY_COLUMNS = (
    "lane_seq", "job_id", "created_at", "lane_id", "slot", "attempt", "max_attempts", "kind",
    "args", "payload",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class ClaimRequest:
    """What a worker asks for: parallel tuples for its queues, and the kinds that it knows."""

    queues: tuple[str, ...]
    limits: tuple[int, ...]
    deadlines: tuple[float, ...]
    agings: tuple[float, ...]
    kinds: tuple[str, ...] | None


@dataclass(frozen=True, slots=True)
class Beyond:
    """What a claim call has seen beside what it brought.

    `in_flight` says that more may be on its way although none is visible; `passed` counts the jobs
    that were taken or passed over, also those that went back at once.
    """

    in_flight: bool
    passed: int


def lanes_of(jobs: Iterable[NewJob]) -> dict[tuple[str, int], list[int]]:
    """Return the positions of jobs by their lane."""
    lanes: dict[tuple[str, int], list[int]] = {}
    for position, job in enumerate(jobs):
        lanes.setdefault((job.queue, job.priority), []).append(position)
    return lanes


def enqueue_arguments(lane: tuple[str, int], jobs: Sequence[NewJob], *, skip: bool) -> list[Any]:
    """Return the arguments of the enqueue function; columns of defaults are sent as NULL."""
    kinds, _, _, args, due, tries, payloads, keys, masks = zip(*jobs, strict=True)
    return [
        lane[0],
        lane[1],
        [kinds[0]] if len(set(kinds)) == 1 else list(kinds),
        list(args),
        list(due) if any(due) else None,
        None if set(tries) == {25} else list(tries),
        list(payloads) if any(payloads) else None,
        list(keys) if any(keys) else None,
        list(masks) if any(keys) else None,
        skip,
    ]


async def enqueue(
    session: Any,
    sql: dict[str, str],
    jobs: Sequence[NewJob],
    *,
    skip: bool = False,
    numbers: Sequence[int] | None = None,
) -> list[int | None]:
    """Enqueue jobs on a session, in its transaction if it has one, and return identities in order.

    Without a transaction of the caller's, jobs of several lanes are written in one of their own.
    `numbers` are the positions that errors name, when `jobs` are a part of a larger batch.
    """
    lanes = lanes_of(jobs)
    positions: list[int] = []
    try:
        if len(lanes) == 1:
            ((lane, positions),) = lanes.items()
            found: list[int | None] = await session.fetchval(
                sql["enqueue"], *enqueue_arguments(lane, jobs, skip=skip)
            )
            return found
        ids: list[int | None] = [None] * len(jobs)
        async with session.transaction():
            for lane, positions in lanes.items():
                part = [jobs[position] for position in positions]
                made = await session.fetchval(
                    sql["enqueue"], *enqueue_arguments(lane, part, skip=skip)
                )
                for position, job_id in zip(positions, made, strict=True):
                    ids[position] = job_id
        return ids
    except DRIVER_ERRORS as error:
        raise _refused(error, jobs, positions, numbers) from error


def _refused(
    error: BaseException,
    jobs: Sequence[NewJob],
    positions: Sequence[int],
    numbers: Sequence[int] | None,
) -> AwaError:
    """Return our error for one of `enqueue`, which names the job of a batch that was at fault."""
    at = conflict_position(error)
    if at is None or (len(jobs) == 1 and numbers is None):
        return translate(error)
    numbers = numbers or range(len(jobs))
    position = positions[at]
    key = jobs[position].unique_key
    first = next(other for other, job in enumerate(jobs) if job.unique_key == key)
    if first == position:
        said, also = translate(error), ""
    else:  # the holder is of this batch, and does not come into being
        said, also = UniqueConflict(), f"has the unique key of position {numbers[first]}; "
    said.add_note(f"job at position {numbers[position]}: {also}nothing was enqueued")
    return said


async def enqueue_copy(
    session: Any, sql: dict[str, str], schema: str, jobs: Sequence[NewJob]
) -> int:
    """Enqueue by COPY in one transaction and return how many. Jobs with a time or a key go by call.

    A role without the right to insert into the ring goes by call altogether.
    """
    called = [
        position
        for position, job in enumerate(jobs)
        if job.run_at is not None or job.unique_key is not None
    ]
    plain = [job for job in jobs if job.run_at is None and job.unique_key is None]
    try:
        async with session.transaction():
            if called:  # first, so that a conflict costs no COPY
                await enqueue(session, sql, [jobs[at] for at in called], numbers=called)
            for lane, positions in lanes_of(plain).items():
                await _copy_lane(session, sql, schema, lane, [plain[at] for at in positions])
    except asyncpg.InsufficientPrivilegeError:
        await enqueue(session, sql, jobs)
    except DRIVER_ERRORS as error:
        raise translate(error) from error
    return len(jobs)


async def _copy_lane(
    session: Any, sql: dict[str, str], schema: str, lane: tuple[str, int], jobs: list[NewJob]
) -> None:
    place = await session.fetchrow(sql["reserve"], *lane, len(jobs))
    lane_id, slot, created_at = place["lane_id"], place["slot"], place["created_at"]
    await session.copy_records_to_table(
        "ready_entries",
        schema_name=schema,
        columns=_COPY_COLUMNS,
        records=[
            (
                seq,
                seq * 1024 + lane_id,
                created_at,
                lane_id,
                slot,
                0,
                job[5],
                job[0],
                job[3],
                job[6],
            )
            for seq, job in zip(place["seqs"], jobs, strict=True)
        ],
    )


async def claim(
    session: "asyncpg.Connection[Any]",
    sql: dict[str, str],
    worker: int,
    token: int,
    request: ClaimRequest,
) -> tuple[list[Claim], Beyond]:
    """Claim bodies; return them and what else the call has seen."""
    with translated():
        rows = await session.fetch(
            sql["claim"], worker, token, request.queues, request.limits, request.deadlines,
            request.agings, request.kinds,
        )  # fmt: skip
    return [_claim(row, worker, token) for row in rows[:-1]], Beyond(
        rows[-1]["in_flight"], rows[-1]["passed"]
    )


def _claim(row: Any, worker: int, token: int) -> Claim:
    (queue, priority, slot, claim_id, _, claimed_at, deadline_at, seqs, ids, kinds, args, created,
     due, attempts, tries, payloads, *_) = row  # fmt: skip
    runs: list[datetime] = created
    if any(due):
        runs = [at or made for at, made in zip(due, created, strict=True)]
    return Claim(
        claim_id,
        worker,
        slot,
        token,
        ClaimHead(queue, priority, claimed_at, deadline_at),
        seqs,
        list(zip(ids, kinds, created, runs, attempts, tries, payloads, strict=True)),
        args,
        kinds[0] if len(set(kinds)) == 1 else None,
    )


async def finish(
    session: "asyncpg.Connection[Any]",
    sql: dict[str, str],
    flush: Flush,
    *,
    store_outputs: bool,
) -> set[tuple[int, int]]:
    """Write one flush; return the (claim id, place) pairs that were stale.

    Sent again after a lost answer it changes nothing and answers everything as stale.
    """
    with translated():
        if flush.has_outputs and store_outputs:
            rows = await session.fetch(
                sql["finish_with_outputs"], flush.worker_id, *flush.with_outputs()
            )
        else:
            rows = await session.fetch(sql["finish"], flush.worker_id, *flush.without_outputs())
    return {
        (flush.claims[row["claim_at"] - 1].claim_id, seq)
        for row in rows
        for part in row["stale"]
        for seq in range(part.lower, part.upper)
    }


async def already_written(
    session: "asyncpg.Connection[Any]",
    sql: dict[str, str],
    flush: Flush,
    stale: set[tuple[int, int]],
) -> set[tuple[int, int]]:
    """Return which stale places of a flush that was sent twice its first sending had written.

    Only an attempt's own worker writes these outcomes under its claim, so they tell the first
    sending apart from a rescue.
    """
    with translated():
        rows = await session.fetch(
            sql["closed_as"],
            [claim.slot for claim in flush.claims],
            [claim.claim_id for claim in flush.claims],
            [claim.token for claim in flush.claims],
            flush.worker_id,
        )
    written: set[tuple[int, int]] = set()
    for row in rows:
        for part in row["items"]:
            for seq in range(part.lower, part.upper):
                written.add((row["claim_id"], seq))
    return written & stale
