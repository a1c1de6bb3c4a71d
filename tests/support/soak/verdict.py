"""Holding what the processes noted against what the database says: one verdict per promise."""

from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import asyncpg
import orjson

from support.soak.jobs import expected_state, max_attempts
from support.soak.stories import COMMITTED, ENDS, ROLLED_BACK, UNKNOWN, Story

# Every ended job with its output. Arrays are opened once for each batch; the view, made for few
# rows, opens them once for each job.
ENDED = """
select r.args ->> 'key' as key, r.args ->> 'mode' as mode, 'completed' as state,
       r.attempt + 1 as attempt, u.output::text as output
  from awa.receipt_completion_batches e
 cross join lateral (select array_agg(q order by q) as seqs
                       from unnest(e.items) i, generate_series(lower(i), upper(i) - 1) q) s
 cross join lateral unnest(s.seqs, e.outputs) u(seq, output)
  join awa.ready_entries r on r.slot = e.slot and r.lane_id = e.lane_id and r.lane_seq = u.seq
union all
select args ->> 'key', args ->> 'mode', state::text, attempt, output::text from awa.done_entries
"""
NAMES = ("key", "mode", "state", "attempt", "output")
LEAST_SHARE = 0.9
"""Of the jobs that ended, so many must have been compared."""
CLOCK_TOLERANCE_SECONDS = 0.05
SHOWN = 20
"""Violations that are written out for each promise."""


@dataclass
class Evidence:
    """What is judged: the stories, and what the database says.

    `rows` are the ends that it shows at last, `observed` those that it showed meanwhile; `ends` are
    both, each once.
    """

    stories: dict[str, Story]
    rows: list[Any]
    counts: list[Any]
    removed: int
    seen: int
    observed: list[Any] = field(default_factory=list)
    by_key: dict[str, list[Any]] = field(default_factory=lambda: defaultdict(list))
    ends: dict[str, list[Any]] = field(default_factory=lambda: defaultdict(list))

    def __post_init__(self) -> None:
        for row in self.rows:
            self.by_key[row["key"]].append(row)
        distinct = {tuple(row[name] for name in NAMES): row for row in (*self.observed, *self.rows)}
        for row in distinct.values():
            self.ends[row["key"]].append(row)

    @property
    def all_ends(self) -> list[Any]:
        """Every end that the database has shown."""
        return [row for rows in self.ends.values() for row in rows]

    @property
    def ended(self) -> int:
        """How many jobs have ended, those included that were pruned."""
        return sum(row["completed"] + row["failed"] + row["cancelled"] for row in self.counts)


@dataclass(frozen=True)
class Violation:
    """What was seen that must not be, and of which job if it is one job's."""

    text: str
    key: str | None = None


@dataclass(frozen=True)
class Promise:
    """One promise and what speaks against it: `checked` of so many that could be looked at."""

    text: str
    checked: int
    violations: list[Violation]
    of: int | None = None


async def gather(dsn: str, stories: dict[str, Story], observed: list[Any]) -> Evidence:
    """Read what the database says."""
    session = await asyncpg.connect(dsn)
    try:
        # A server that was killed or promoted a moment ago knows nothing of its tables.
        await session.execute("analyze")
        await session.execute("set enable_nestloop = off")
        return Evidence(
            stories,
            rows=await session.fetch(ENDED),
            seen=await session.fetchval("select count(*) from awa.terminal_jobs"),
            counts=await session.fetch("select * from awa.queue_counts_v1()"),
            observed=observed,
            removed=int(
                await session.fetchval("select coalesce(sum(removed), 0) from awa.lane_totals")
            ),
        )
    finally:
        await session.close()


def judge(evidence: Evidence) -> list[Promise]:
    """Return a verdict for each promise that jobs and counts can show."""
    stories = evidence.stories.values()
    known = [story for story in stories if story.fate == COMMITTED]
    ends = evidence.all_ends
    checks = {
        "each committed job ended exactly once": (len(known), _ended_once(evidence)),
        "each job ended in the state that its handler or an administrator gave it":
            (len(ends), _states(evidence)),
        "nothing ran that was rolled back or never enqueued":
            (sum(story.fate != COMMITTED for story in stories), _ghosts(evidence)),
        "no end of a lost claim was taken": (sum(s.stale for s in stories), _late_ends(evidence)),
        "every published output is the one that its accepted attempt sealed":
            (sum(bool(row["output"]) for row in ends), _outputs(evidence)),
        "what a handler did is never written as something else":
            (sum(len(s.accepted) for s in stories), _unwritten(evidence)),
        "counts are exact": (len(evidence.counts), _counts(evidence)),
        "no job began before its time": (sum(s.due_at is not None for s in known), _early(known)),
        "a unique key is held by one unfinished job at a time":
            (sum(s.unique is not None for s in known), _unique(evidence, known)),
        "a job that was cancelled is not completed":
            (sum(s.cancelled_at is not None for s in known), _cancelled(evidence, known)),
        "no job has more attempts than it may":
            (len(ends), _attempts(evidence)),
        "what a job that completed shows never changes": (len(ends), _changes(evidence)),
    }  # fmt: skip
    promises = [Promise(text, checked, list(found)) for text, (checked, found) in checks.items()]
    return [*promises, _compared(evidence)]


def _compared(evidence: Evidence) -> Promise:
    share = len(evidence.ends) / max(1, evidence.ended)
    few = [Violation(f"{share:.1%} were seen")] if share < LEAST_SHARE else []
    text = "what jobs ended with was seen before it was pruned, of nearly all"
    return Promise(text, len(evidence.ends), few, evidence.ended)


def _changes(evidence: Evidence) -> Iterator[Violation]:
    for key, rows in evidence.ends.items():
        if len(rows) > 1 and any(row["state"] == "completed" for row in rows[:-1]):
            yield Violation(f"{key} was seen completed, and then: {rows[1:]}", key)


def _ended_once(evidence: Evidence) -> Iterator[Violation]:
    for key, rows in evidence.by_key.items():
        if len(rows) > 1:
            yield Violation(f"{key} has ended {len(rows)} times", key)
    for story in evidence.stories.values():
        final = [word for _, _, word in story.accepted if word in ENDS]
        if len(final) > 1 + story.retries:
            yield Violation(f"{len(final)} ends of {story.key} were accepted: {final}", story.key)
    lost, gone = _unseen(evidence)
    for key in sorted(lost):
        # It cannot have ended, whoever else was pruned unseen.
        if not evidence.stories[key].runs and evidence.stories[key].cancel_tried_at is None:
            yield Violation(f"{key} was committed, never ran and is not there", key)
    unknown = sum(s.fate == UNKNOWN for s in evidence.stories.values())
    if not len(lost) <= gone <= len(lost) + unknown:
        yield Violation(
            f"{len(lost)} committed jobs were never seen to end, and {gone} of the pruned are "
            f"unaccounted for: {sorted(lost)[:5]}", next(iter(sorted(lost)), None),
        )  # fmt: skip


def _unseen(evidence: Evidence) -> tuple[set[str], int]:
    """Return committed jobs that nobody saw end, and how many pruned ones nobody saw end."""
    ended = {key for key, story in evidence.stories.items() if story.ended}
    ended |= evidence.ends.keys()
    lost = {
        key
        for key, story in evidence.stories.items()
        if story.fate == COMMITTED and key not in ended and key not in evidence.by_key
    }
    return lost, evidence.removed - len(ended - evidence.by_key.keys())


def _states(evidence: Evidence) -> Iterator[Violation]:
    for row in evidence.all_ends:
        story = evidence.stories.get(row["key"])
        allowed = {expected_state(row["mode"])}
        if story is not None and story.cancel_tried_at is not None:
            allowed.add("cancelled")
        if row["state"] not in allowed:
            yield Violation(
                f"{row['key']} ({row['mode']}) ended {row['state']}, attempt {row['attempt']}",
                row["key"],
            )


def _ghosts(evidence: Evidence) -> Iterator[Violation]:
    for story in evidence.stories.values():
        if story.mode == "?" or (story.fate == ROLLED_BACK and story.runs):
            yield Violation(f"{story.key} ran although it was {story.fate}", story.key)
    for key in evidence.ends:
        known = evidence.stories.get(key)
        if known is None or known.fate == ROLLED_BACK:
            yield Violation(f"{key} has ended although it was never committed", key)


def _late_ends(evidence: Evidence) -> Iterator[Violation]:
    """A run that is accepted is of the last claim: the next is made only when one was lost."""
    for story in evidence.stories.values():
        if story.retries:
            continue
        tokens = {token for _, token, word in story.accepted if word == "Completed"}
        tokens |= {_token(row) for row in evidence.ends.get(story.key, ())} - {""}
        for run in filter(None, map(story.run, tokens)):
            if run.ended_at is None:
                yield Violation(f"an end of {story.key} was taken from a run that had not ended",
                                story.key)  # fmt: skip
            if any(other.claimed_at > run.claimed_at for other in story.runs):
                yield Violation(
                    f"an end of {story.key} was taken although it was claimed anew", story.key
                )


def _token(row: Any) -> str:
    if row["output"] is None or row["state"] != "completed":
        return ""
    return str(orjson.loads(row["output"])["token"])


def _outputs(evidence: Evidence) -> Iterator[Violation]:
    for row in evidence.all_ends:
        story = evidence.stories.get(row["key"])
        if row["state"] != "completed" or story is None:
            continue
        token = _token(row)
        accepted = {t for _, t, word in story.accepted if word == "Completed"}
        run = story.run(token)
        if not token:
            yield Violation(
                f"{row['key']} completed without the output that it recorded", row["key"]
            )
        elif (accepted and token not in accepted) or run is None or run.ended_at is None:
            yield Violation(f"the output of {row['key']} is not of its accepted run", row["key"])
        if set(story.seen) - {token}:
            yield Violation(f"the output of {row['key']} has changed", row["key"])
    for story in evidence.stories.values():
        accepted = {t for _, t, word in story.accepted if word == "Completed"}
        if story.seen and accepted and not set(story.seen) <= accepted:
            yield Violation(f"another output of {story.key} was read than was accepted", story.key)


def _unwritten(evidence: Evidence) -> Iterator[Violation]:
    for story in evidence.stories.values():
        if story.unwritten:
            yield Violation(
                f"an end of {story.key} was given up, or replaced by a failure", story.key
            )


def _counts(evidence: Evidence) -> Iterator[Violation]:
    total = evidence.ended
    for row in evidence.counts:
        left = {
            name: row[name]
            for name in ("scheduled", "available", "running", "retryable", "waiting_external")
        }
        if any(left.values()):
            yield Violation(f"queue {row['queue']} still has {left}")
    rows, removed = len(evidence.rows), evidence.removed
    fates = Counter(story.fate for story in evidence.stories.values())
    if evidence.seen != rows:
        yield Violation(f"terminal_jobs shows {evidence.seen} jobs and {rows} have ended")
    if total != rows + removed:
        yield Violation(f"counts say {total} ended, {rows} are there and {removed} were pruned")
    if not fates[COMMITTED] <= total <= fates[COMMITTED] + fates[UNKNOWN]:
        yield Violation(
            f"{total} ended of {fates[COMMITTED]} committed and {fates[UNKNOWN]} unknown"
        )


def _early(known: list[Story]) -> Iterator[Violation]:
    for story in known:
        if story.due_at is None or story.retries:
            continue
        early = [
            s.began_at for s in story.runs if s.began_at < story.due_at - CLOCK_TOLERANCE_SECONDS
        ]
        if early:
            yield Violation(f"{story.key} began {story.due_at - early[0]:.2f} s early", story.key)


def _unique(evidence: Evidence, known: list[Story]) -> Iterator[Violation]:
    """Two jobs of one key: the second was committed after the first had come to its end.

    A job surely holds its key from the note of its commit until the handler's end in the run that
    was accepted, or until somebody began to cancel it.
    """
    held: dict[str, list[tuple[float, float, str]]] = defaultdict(list)
    for story in known:
        tokens = [token for _, token, word in story.accepted if word == "Completed"]
        tokens += map(_token, evidence.ends.get(story.key, ()))
        run = next(filter(None, map(story.run, tokens)), None)
        if story.unique is None or story.retries or run is None or run.ended_at is None:
            continue
        end = run.ended_at
        if story.cancel_tried_at is not None:
            end = min(end, story.cancel_tried_at)
        if end > story.committed_at:
            held[story.unique].append((story.committed_at, end, story.key))
    for times in held.values():
        times.sort()
        for (_, end, first), (begin, _, second) in pairwise(times):
            if begin < end:
                yield Violation(f"{second} was enqueued while {first} held its key", second)


def _cancelled(evidence: Evidence, known: list[Story]) -> Iterator[Violation]:
    for story in known:
        if story.cancelled_at is None or story.retries:
            continue
        states = {row["state"] for row in evidence.ends.get(story.key, ())}
        if states - {"cancelled"}:
            yield Violation(f"{story.key} was cancelled and ended as {states}", story.key)
        if any(word == "Completed" for _, _, word in story.accepted):
            yield Violation(f"{story.key} was cancelled and completed", story.key)


def _attempts(evidence: Evidence) -> Iterator[Violation]:
    for row in evidence.all_ends:
        if row["attempt"] > max_attempts(row["mode"]):
            yield Violation(f"{row['key']} has {row['attempt']} attempts", row["key"])
