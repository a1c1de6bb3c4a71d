"""P32: while a database cannot be read the replica count is held; only a fallback raises it."""

from datetime import UTC, datetime, timedelta

from awa.scaling import History, Reason, ScalingSpec, Signals, Unknown, decide
from support.watched import served, watching

SECOND = timedelta(seconds=1)


def spec(**changes) -> ScalingSpec:
    wanted = {
        "concurrency": 10, "target_jobs_per_replica": 10, "min_replicas": 0, "max_replicas": 20,
        "cooldown": timedelta(0), "poll_interval": timedelta(milliseconds=300),
        "failure_threshold": 3,
    }  # fmt: skip
    return ScalingSpec(**{**wanted, **changes})


async def counts_during_an_outage(make_database, migrated_template, make_proxy, current, **changes):
    """Return the counts decided at every poll of an outage, in which the work goes away unseen."""
    database = make_database(migrated_template)
    proxy = make_proxy(database.server)
    dsn, rules = database.dsn_through(proxy), spec(**changes)
    history, found, reasons = History(), [], []
    async with watching() as watched:
        watched.serve("a", served(dsn))
        assert await watched.reads("a") == Signals()
        proxy.refuse()
        await watched.reads("a", lambda signals: isinstance(signals, Unknown))
        for _ in range(5):
            signals = watched.signals("a")
            assert isinstance(signals, Unknown)
            decision = decide(rules, history, signals, current, current, datetime.now(UTC))
            history, current = decision.history, decision.desired
            found.append(current)
            reasons.append(decision.reason)
            failures = watched.view("a").failures
            await watched.sees("a", lambda view, seen=failures: view.failures > seen)
        proxy.forward()
        await watched.reads("a", limit=3 * SECOND)
    return found, reasons


async def test_seven_stay_seven_with_and_without_a_fallback(
    make_database, migrated_template, make_proxy
):
    for fallback in (None, 3):
        found, reasons = await counts_during_an_outage(
            make_database, migrated_template, make_proxy, 7, fallback_replicas=fallback
        )
        assert found == [7] * 5
        assert set(reasons) == {Reason.METRICS_UNAVAILABLE}


async def test_none_become_the_fallback_after_the_threshold(
    make_database, migrated_template, make_proxy
):
    found, reasons = await counts_during_an_outage(
        make_database, migrated_template, make_proxy, 0, fallback_replicas=1
    )
    assert found == [0, 0, 1, 1, 1]
    assert reasons[2] is Reason.FALLBACK
