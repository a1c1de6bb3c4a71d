"""Places: nothing is claimed that cannot start, and nobody's share goes unused."""

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from awa._runtime.permits import Permits, TokenBucket
from awa.queue_settings import QueueSettings, RateLimit
from awa.settings import WorkerSettings


def permits(*queues: QueueSettings, shared: int | None = None) -> Permits:
    return Permits(WorkerSettings(queues=queues, global_max_workers=shared))


async def test_a_queue_offers_what_is_free_and_no_more_than_a_batch():
    made = permits(QueueSettings(name="a", max_workers=20, claim_batch_size=8))
    assert made.offer("a") == 8
    made.take("a", 15)
    assert made.offer("a") == 5
    made.take("a", 5)
    assert made.offer("a") == 0
    made.give("a", 3)
    assert (made.offer("a"), made.in_use, made.freed.is_set()) == (3, 17, True)


async def test_a_queue_never_uses_the_places_of_another():
    made = permits(QueueSettings(name="a", max_workers=2), QueueSettings(name="b", max_workers=3))
    made.take("a", 2)
    assert (made.offer("a"), made.offer("b"), made.capacity) == (0, 3, 5)


async def test_shared_places_are_divided_by_weight_while_everybody_wants_more():
    made = permits(
        QueueSettings(name="light", weight=1), QueueSettings(name="heavy", weight=3), shared=8
    )
    assert (made.offer("light"), made.offer("heavy")) == (2, 6)


async def test_a_queue_without_work_lends_its_share():
    made = permits(
        QueueSettings(name="idle", weight=3), QueueSettings(name="busy", weight=1), shared=8
    )
    made.queues["idle"].wants_more = False
    assert made.offer("busy") == 8
    made.take("busy", 8)
    # It gets its share back place by place, as jobs of the borrower end.
    made.queues["idle"].wants_more = True
    assert made.offer("idle") == 0
    made.give("busy", 3)
    assert (made.offer("idle"), made.offer("busy")) == (3, 0)


async def test_reserved_places_stay_free_for_their_queue():
    made = permits(
        QueueSettings(name="mine", min_workers=2), QueueSettings(name="others"), shared=6
    )
    made.queues["mine"].wants_more = False
    assert made.offer("others") == 4
    made.take("others", 4)
    assert (made.offer("mine"), made.offer("others")) == (2, 0)


@given(
    weights=st.lists(st.integers(1, 9), min_size=1, max_size=5),
    shared=st.integers(1, 60),
    turns=st.lists(st.tuples(st.integers(0, 4), st.booleans(), st.integers(0, 20)), max_size=60),
)
async def test_places_in_use_never_exceed_what_there_is(weights, shared, turns):
    names = [f"q{number}" for number in range(len(weights))]
    made = permits(
        *(QueueSettings(name=n, weight=w) for n, w in zip(names, weights, strict=True)),
        shared=shared,
    )
    for number, takes, count in turns:
        name = names[number % len(names)]
        if takes:
            made.take(name, min(count, made.offer(name)))
        else:
            made.give(name, min(count, made.queues[name].in_use))
        assert 0 <= made.in_use <= shared


def test_a_rate_limit_lets_a_burst_start_and_then_its_rate():
    now = [100.0]
    bucket = TokenBucket(RateLimit(10, 3), lambda: now[0])
    assert bucket.available() == 3
    bucket.take(3)
    assert bucket.available() == 0
    assert bucket.seconds_until_next() == pytest.approx(0.1)
    now[0] += 0.25
    assert bucket.available() == 2
    now[0] += timedelta(hours=1).total_seconds()
    assert bucket.available() == 3


async def test_a_rate_limit_bounds_what_a_queue_offers():
    made = permits(QueueSettings(name="a", max_workers=50, rate_limit=RateLimit(1, 2)))
    assert made.offer("a") == 2
    made.take("a", 2)
    assert made.offer("a") == 0
    wait = made.seconds_until_offer()
    assert wait is not None
    assert 0 < wait <= 1
