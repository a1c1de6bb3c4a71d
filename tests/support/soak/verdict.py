"""Holding what the processes noted against what the database says."""

from collections import Counter, defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import asyncpg
import orjson

from support.soak.jobs import expected_state
from support.soak.journal import read_journals

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

ENDS = {"Completed", "Cancelled", "TerminallyFailed"}


@dataclass
class Noted:
    """What producers and workers wrote down, by key."""

    committed: dict[str, str] = field(default_factory=dict)
    unknown: dict[str, str] = field(default_factory=dict)
    accepted: dict[str, list[tuple[str, str]]] = field(default_factory=lambda: defaultdict(list))
    ended: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    stale: int = 0
    runs: int = 0


def read_notes(folder: Path) -> Noted:
    """Read every journal of a soak."""
    noted = Noted()
    rolled_back = set()
    for word, key, *rest in read_journals(folder, "producer"):
        if word == "tried":
            noted.unknown[key] = rest[0]
        elif word == "committed":
            noted.committed[key] = rest[0]
        else:
            rolled_back.add(key)
    for key in rolled_back | noted.committed.keys():
        noted.unknown.pop(key, None)
    for word, key, token, *rest in read_journals(folder, "worker"):
        if word == "accepted":
            noted.accepted[key].append((token, rest[0]))
        elif word == "ended":
            noted.ended[key].add(token)
        elif word == "stale":
            noted.stale += 1
        else:
            noted.runs += 1
    return noted


async def judge(dsn: str, folder: Path) -> tuple[list[str], dict[str, Any]]:
    """Return every promise that was broken, and figures."""
    noted = read_notes(folder)
    session = await asyncpg.connect(dsn)
    try:
        rows = await session.fetch(ENDED)
        seen = await session.fetchval("select count(*) from awa.terminal_jobs")
        counts = await session.fetch("select * from awa.queue_counts_v1()")
        removed = await session.fetchval("select coalesce(sum(removed), 0) from awa.lane_totals")
    finally:
        await session.close()
    broken = [
        *_places(noted, rows), *_accepted_once(noted), *_outputs(noted, rows),
        *_counts(noted, rows, counts, int(removed)),
    ]  # fmt: skip
    if seen != len(rows):
        broken.append(f"terminal_jobs shows {seen} jobs and {len(rows)} have ended")
    figures = {
        "committed": len(noted.committed), "unknown": len(noted.unknown), "runs": noted.runs,
        "stale": noted.stale, "present": len(rows), "pruned": int(removed),
        "states": dict(Counter(row["state"] for row in rows)),
    }  # fmt: skip
    return broken, figures


def _places(noted: Noted, rows: list[Any]) -> list[str]:
    """No job has ended twice, none in a state that it was not told to end in."""
    broken = []
    known = noted.committed | noted.unknown
    for key, times in Counter(row["key"] for row in rows).items():
        if times > 1:
            broken.append(f"{key} has ended {times} times")
        if key not in known:
            broken.append(f"{key} ran although it was never committed")
    broken.extend(
        f"{row['key']} ({row['mode']}) ended {row['state']} after {row['attempt']} attempts"
        for row in rows
        if row["state"] != expected_state(row["mode"])
    )
    return broken


def _accepted_once(noted: Noted) -> list[str]:
    """At most one end of each job was accepted, and only from an attempt that had ended."""
    broken = []
    for key, ends in noted.accepted.items():
        final = [word for _, word in ends if word in ENDS]
        if len(final) > 1:
            broken.append(f"{key}: {len(final)} ends were accepted: {final}")
        broken.extend(
            f"{key}: a completion was accepted of a run that had not ended"
            for token, word in ends
            if word == "Completed" and token not in noted.ended[key]
        )
    return broken


def _outputs(noted: Noted, rows: list[Any]) -> list[str]:
    """A stored output is the one that the accepted attempt sealed."""
    broken = []
    for row in rows:
        if row["state"] != "completed":
            continue
        if row["output"] is None:
            broken.append(f"{row['key']} completed without the output that it recorded")
            continue
        token = orjson.loads(row["output"])["token"]
        accepted = {t for t, word in noted.accepted.get(row["key"], ()) if word == "Completed"}
        if accepted and token not in accepted:
            broken.append(f"{row['key']}: the stored output is of another attempt")
        if token not in noted.ended[row["key"]]:
            broken.append(f"{row['key']}: the stored output is of a run that had not ended")
    return broken


def _counts(noted: Noted, rows: list[Any], counts: list[Any], removed: int) -> list[str]:
    """Nothing waits or runs any more, and the counts add up to what was committed."""
    broken = []
    total = 0
    for row in counts:
        left = {
            name: row[name]
            for name in ("scheduled", "available", "running", "retryable", "waiting_external")
        }
        if any(left.values()):
            broken.append(f"queue {row['queue']} still has {left}")
        total += row["completed"] + row["failed"] + row["cancelled"]
    if total != len(rows) + removed:
        broken.append(f"counts say {total} ended, {len(rows)} are there and {removed} were pruned")
    if not len(noted.committed) <= total <= len(noted.committed) + len(noted.unknown):
        broken.append(
            f"{total} ended of {len(noted.committed)} committed and {len(noted.unknown)} unknown"
        )
    present = {row["key"] for row in rows}
    ended = {key for key, ends in noted.accepted.items() if {w for _, w in ends} & ENDS}
    unseen = noted.committed.keys() - present - ended
    pruned_unseen = removed - len(ended - present)
    if not len(unseen) <= pruned_unseen <= len(unseen) + len(noted.unknown):
        broken.append(
            f"{len(unseen)} committed jobs were never seen to end, and {pruned_unseen} of the "
            f"pruned are unaccounted for: {sorted(unseen)[:5]}"
        )
    return broken
