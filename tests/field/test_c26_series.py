"""C26: the set of series is that of what is worked, whatever jobs say and whoever ends.

Processes of one supervisor and their ends (line 3) are in tests/worker/process/test_metrics.py.
"""

import secrets
from datetime import timedelta
from typing import Any

import pytest

import awa
from awa._runtime.totals import Totals
from awa.metrics import (
    MAX_LABEL_VALUES,
    MAX_UNKNOWN_PAIRS,
    Family,
    WorkerMetrics,
    exposition,
    families,
)
from support.fleet.tasks import QUEUE, quick
from support.sizes import sized
from support.waiting import eventually

RESTARTS = 20
JOBS_OF_EACH = sized(100, 500)
MADE_UP_KINDS = 1000
MADE_UP_QUEUES = sized(200, 1000)
SOON = timedelta(seconds=60)
TOLD_BY_A_LEADER = {"prune", "transactions", "unknown_kinds"}


async def tell(job: awa.Job[Any]) -> None:
    """End in every way, with words that no other job says."""
    word = secrets.token_hex(4)
    if job.args["n"] % 3 == 0:
        raise awa.TerminalError(f"word{word}")
    job.update_metadata({word: word})
    job.set_output({word: word})


def series(all_families: list[Family]) -> set[Any]:
    """Return names and labels; how duties and calls ended comes up one after the other."""
    late = ("awa_duty_runs", "awa_claim_calls", "awa_service_up")
    return {key for family in all_families if family.name not in late for key in family.samples}


async def leader_has_told(metrics: WorkerMetrics) -> None:
    """Wait until the duties whose findings are series have been done."""
    await eventually(lambda: {duty for duty, _ in metrics.duties} >= TOLD_BY_A_LEADER, SOON)


@pytest.mark.slow
async def test_twenty_restarts_and_thousands_of_words_add_no_series(fleet):
    totals, first = Totals(), None
    for process in range(RESTARTS):
        async with awa.AsyncClient(fleet.dsn, 4) as client:
            client.registry.add(tell, dict, kind="tell")
            await client.start(settings=quick(max_workers=50), name=f"pod-{secrets.token_hex(4)}")
            words = [secrets.token_hex(4) for _ in range(JOBS_OF_EACH)]
            await client.insert_many(
                [{"n": n} for n in range(JOBS_OF_EACH)], kind="tell", queue=QUEUE,
                opts=[{"tags": [f"word{word}"]} for word in words],
            )  # fmt: skip
            await fleet.quiet(60)
            assert client.worker is not None
            if first is None:
                await leader_has_told(client.worker.metrics)
            totals.report(process, families(client.worker.metrics))
            found = series(totals.families())
            first = first or found
            assert found == first
            assert await client.shutdown()
        totals.retire(process)
    text = exposition(totals.families()).decode()
    assert f'outcome="completed",awa_job_queue="{QUEUE}"' in text
    for word in ("word", "pod-"):
        assert word not in text


async def test_names_that_a_broken_producer_makes_up_count_as_other(fleet, connect):
    session = await connect(fleet.dsn)
    await session.execute(
        "select awa.enqueue_v1($1, 2::smallint, array_agg('made up ' || n),"
        " array_agg('{}'::jsonb)) from generate_series(1, $2) n",
        QUEUE, MADE_UP_KINDS,
    )  # fmt: skip
    await session.execute("select awa.grow_lane_pool(1023)")
    await session.execute(
        "select awa.enqueue_v1('made up ' || n, 2::smallint, array['task'], array['{}'::jsonb])"
        " from generate_series(1, $1) n",
        MADE_UP_QUEUES,
    )
    worker = await fleet.embedded("w", kind="task", max_workers=50)
    metrics = worker.worker.metrics

    def told() -> dict[Any, float]:
        (family,) = (f for f in families(metrics) if f.name == "awa_job_unknown_kind")
        return family.samples

    await eventually(lambda: sum(told().values()) == MADE_UP_KINDS, SOON, what="all to be told")
    others = (("awa_job_kind", "other"), ("awa_job_queue", "other"))
    assert told()[("awa_job_unknown_kind", others)] >= MADE_UP_KINDS - 2 * MAX_UNKNOWN_PAIRS
    assert len(told()) <= MAX_UNKNOWN_PAIRS + 1
    # Others come up when the first have gone; names are given once for the life of a process.
    seen = set(told())
    await session.execute(
        "with first as (select job_id from awa.deferred_jobs order by kind limit 500)"
        " delete from awa.deferred_jobs where job_id in (select job_id from first)"
    )
    await eventually(lambda: sum(told().values()) == MADE_UP_KINDS - 500, SOON)
    assert len(seen | set(told())) <= MAX_UNKNOWN_PAIRS + 1
    assert metrics.label("real") == "real"
    assert (
        "made up"
        not in exposition(
            [f for f in families(metrics) if f.name != "awa_job_unknown_kind"]
        ).decode()
    )


def test_made_up_names_of_processes_that_come_and_go_stay_under_the_cap():
    totals = Totals()
    for process in range(20):
        metrics = WorkerMetrics()
        pairs = [metrics.unknown_labels(f"kind{process}-{n}", "q") for n in range(1000)]
        assert len(set(pairs)) == MAX_UNKNOWN_PAIRS + 1
        samples = {
            (
                "awa_job_unknown_kind",
                tuple(zip(("awa_job_kind", "awa_job_queue"), pair, strict=True)),
            ): 1.0
            for pair in pairs
        }
        totals.report(process, [Family("awa_job_unknown_kind", "gauge", "", samples)])
        (family,) = totals.families()
        assert sum(family.samples.values()) == MAX_UNKNOWN_PAIRS + 1
        assert len(family.samples) <= MAX_LABEL_VALUES + 1
        totals.retire(process)
        assert totals.families()[0].samples == dict.fromkeys(family.samples, 0.0)
