"""One set of metrics, whichever processes there have been."""

import os
import re
import signal
from datetime import timedelta
from functools import partial
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from awa._runtime.totals import Totals
from awa.metrics import Family, WorkerMetrics, exposition, families
from support.waiting import eventually

LONG = timedelta(seconds=30)
HOLDERS = "awa_database_oldest_transaction_seconds"
SAMPLE = re.compile(r"^(\w+(?:\{[^}]*\})?) (\S+)$", re.MULTILINE)


def parsed(text):
    return {name: float(value) for name, value in SAMPLE.findall(text)}


async def values(command):
    status, text = await command.get("/metrics")
    assert status == 200
    return parsed(text)


async def finished(command, count):
    """Wait until so many completions are counted and return all values."""
    name = (
        'awa_job_finished_total{awa_job_kind="quick",awa_job_outcome="completed",'
        'awa_job_queue="default"}'
    )

    async def found():
        now = await values(command)
        return now if now.get(name) == count else None

    return await eventually(found, LONG, what=f"{count} completions")


async def is_told(command, family):
    return any(name.startswith(family) for name in await values(command))


async def both_answer(command):
    now = await values(command)
    return now if now["awa_worker_places"] == 20 and now["awa_maintenance_leader"] == 1 else None


async def test_processes_are_summed_and_restarts_change_no_series_and_lower_no_sum(
    commands, client
):
    command = commands.start("work", "--processes", "2")
    await command.works(2)
    # What the leader of maintenance has found, once known, stays a series.
    await eventually(partial(is_told, command, HOLDERS), LONG, what="the leader tells")
    series = None
    seen = dict[str, float]()
    for round_number in range(1, 4):
        await client.insert_many([{"key": str(n)} for n in range(20)], kind="quick")
        await finished(command, 20 * round_number)
        # One of them has just started, and the leader may have been the one that was killed.
        now = await eventually(partial(both_answer, command), LONG, what="both to answer")
        for name, value in now.items():
            if "_total" in name or "_bucket" in name or "_count" in name:
                assert value >= seen.get(name, 0.0), name
        seen = now
        # Outcomes of duties come up one after the other in the first seconds.
        names = {name for name in now if "duty" not in name and "claim_calls" not in name}
        if series is not None:
            assert names == series
        series = names
        assert now["awa_worker_places"] == 20
        assert now["awa_worker_processes"] == 2
        assert now["awa_maintenance_leader"] == 1
        assert now['awa_service_up{service="claimer"}'] == 1
        victim = command.children()[0]
        os.kill(victim, signal.SIGKILL)
        await command.works(2 + round_number)
        pids = {str(line["process"]) for line in command.lines()}
        assert not any(pid in name for name in now for pid in pids)
    assert (await values(command))['awa_worker_process_ends_total{reason="crashed"}'] == 3


async def test_the_text_is_what_a_scraper_reads(commands, client):
    command = commands.start()
    await client.insert({"key": "a"}, kind="quick")
    await finished(command, 1)
    _, text = await command.get("/metrics")
    families_seen = re.findall(r"^# TYPE (\S+) (\S+)$", text, re.MULTILINE)
    assert ("awa_job_finished_total", "counter") in families_seen
    assert ("awa_job_duration_seconds", "histogram") in families_seen
    assert len({name for name, _ in families_seen}) == len(families_seen)
    buckets = parsed(text)
    duration = 'awa_job_duration_seconds_{}{{awa_job_kind="quick",awa_job_queue="default"{}}}'
    assert buckets[duration.format("bucket", ',le="+Inf"')] == 1
    assert buckets[duration.format("count", "")] == 1


def counter(value):
    return Family("jobs", "counter", "Jobs.", {("jobs_total", (("queue", "q"),)): value})


def gauge(name, value):
    return Family(name, "gauge", "Text.", {(name, ()): value})


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(1, 9), st.booleans()), max_size=40))
def test_a_sum_never_falls_and_counts_everything_once(
    steps: list[tuple[int, int, bool]],
) -> None:
    totals, everything, before = Totals(), 0, 0.0
    counted: dict[int, int] = {}
    for process, more, dies in steps:
        counted[process] = counted.get(process, 0) + more
        everything += more
        totals.report(process, [counter(float(counted[process]))])
        if dies:
            totals.retire(process)
            del counted[process]
        (family,) = totals.families()
        (value,) = family.samples.values()
        assert value == everything >= before
        before = value


def test_gauges_follow_their_rule_and_are_zero_when_nobody_reports():
    totals = Totals()
    names = ("awa_worker_places", "awa_service_up", "awa_maintenance_leader")
    totals.report("a", [gauge(name, 1.0) for name in names])
    totals.report("b", [gauge(name, 0.0) for name in names])
    assert [next(iter(f.samples.values())) for f in totals.families()] == [1.0, 0.0, 1.0]
    totals.retire("b")
    assert [next(iter(f.samples.values())) for f in totals.families()] == [1.0, 1.0, 1.0]
    totals.retire("a")
    assert [next(iter(f.samples.values())) for f in totals.families()] == [0.0, 0.0, 0.0]


def test_what_travels_between_processes_is_what_was_counted():
    metrics = WorkerMetrics()
    metrics.waited("mail", 0.3)
    metrics.claimed["mail"] += 2
    found = families(metrics)
    assert [Family.from_json(family.to_json()) for family in found] == found
    assert b'awa_job_claimed_total{awa_job_queue="mail"} 2.0' in exposition(found)


async def test_every_metric_that_is_served_is_described(commands, client):
    page = Path(__file__).parents[3] / "docs" / "reference" / "metrics.md"
    described = set(re.findall(r"^\| `(\w+)` \|", page.read_text(), re.MULTILINE))
    command = commands.start()
    await command.works()
    await client.insert({"key": "a"}, kind="quick")
    await finished(command, 1)
    _, text = await command.get("/metrics")
    served = set(re.findall(r"^# TYPE (\w+)", text, re.MULTILINE))
    assert len(served) > 15
    assert served <= described
