"""When a failed attempt is tried again."""

from datetime import timedelta

BACKOFF_CAP = timedelta(hours=24)
"""The longest backoff."""
JITTER = 0.25
"""The largest part of the base delay that chance adds."""

_CAPPED_FROM = 17  # 2**17 s is more than a day


def backoff(attempt: int, random: float) -> timedelta:
    """Return the delay after the failed attempt number `attempt`, counted from 1.

    The smaller of 24 hours and 2**attempt seconds, lengthened by up to a quarter; `random` is a
    number from 0 up to 1, as `random.random()` gives, and says by how much.
    """
    if attempt >= _CAPPED_FROM:
        return BACKOFF_CAP
    return min(BACKOFF_CAP, timedelta(seconds=2 ** max(attempt, 0) * (1 + JITTER * random)))
