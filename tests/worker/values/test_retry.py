from datetime import timedelta

from hypothesis import given
from hypothesis import strategies as st

from awa.retry import BACKOFF_CAP, backoff

chances = st.floats(0, 1, exclude_max=True)


@given(st.integers(1, 16), chances)
def test_backoff_doubles_and_adds_up_to_a_quarter(attempt: int, chance: float) -> None:
    base = timedelta(seconds=2**attempt)
    assert base <= backoff(attempt, chance) <= base * 1.25


@given(st.integers(17, 10**6), chances)
def test_backoff_never_exceeds_a_day(attempt: int, chance: float) -> None:
    assert backoff(attempt, chance) == BACKOFF_CAP == timedelta(days=1)


def test_backoff_of_the_first_attempts() -> None:
    assert [backoff(n, 0.0).total_seconds() for n in (1, 2, 3, 10)] == [2, 4, 8, 1024]
    assert backoff(2, 0.5) == timedelta(seconds=4.5)


@given(st.integers(1, 30), chances)
def test_a_later_attempt_never_waits_less(attempt: int, chance: float) -> None:
    assert backoff(attempt + 1, 0.0) >= backoff(attempt, chance) or attempt >= 16
