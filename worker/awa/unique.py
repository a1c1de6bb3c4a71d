"""What makes two jobs the same job: the unique key, its state mask and period buckets.

The key is the first 16 bytes of BLAKE3 over the kind and, each after a zero byte, the queue, the
canonical JSON of the args, and the bucket number as 8 bytes little-endian, as the options say.

Canonical JSON is compact, in UTF-8 without escapes that are not needed, with keys sorted by code
point at every level. Equality is exact: `1`, `1.0`, `true` and `"1"` are four values, and texts
that differ in Unicode normal form are two. A float is written in the shortest way that reads back
the same, as `1.0`, `0.00001`, `1e-6` or `1e16`. So the order of keys never matters and types always
do.
"""

from datetime import UTC, datetime, timedelta
from typing import Any

import orjson
from blake3 import blake3

from awa.errors import ValidationError
from awa.job import JobState

KEY_BYTES = 16
"""Length of a unique key."""
DEFAULT_STATES = (
    JobState.Scheduled,
    JobState.Available,
    JobState.Running,
    JobState.Completed,
    JobState.Retryable,
)
"""The states in which a job holds its unique key unless told otherwise."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_INT64 = range(-(2**63), 2**63)


def unique_key(
    kind: str, *, queue: str | None = None, args_json: str | None = None, bucket: int | None = None
) -> bytes:
    """Return the key of a job; what is None does not count."""
    digest = blake3(kind.encode())
    if queue is not None:
        digest.update(b"\0" + queue.encode())
    if args_json is not None:
        digest.update(b"\0" + canonical_json(args_json))
    if bucket is not None:
        digest.update(b"\0" + bucket.to_bytes(8, "little", signed=True))
    return digest.digest(length=KEY_BYTES)


def canonical_json(text: str) -> bytes:
    """Return the one form of a JSON text that every equal value has."""
    value = orjson.loads(text)
    if _has_float(value):
        return _written(value).encode()
    return orjson.dumps(value, option=orjson.OPT_SORT_KEYS)


def mask_of(states: Any) -> int:
    """Return the mask of some states: bit n stands for the state whose value is n."""
    mask = 0
    for state in states:
        mask |= 1 << int(state if isinstance(state, JobState) else JobState.parse(state))
    return mask


def states_in(mask: int) -> tuple[JobState, ...]:
    """Return the states whose bits are set in `mask`."""
    return tuple(state for state in JobState if mask >> int(state) & 1)


def mask_bits(mask: int) -> str:
    """Return the mask as eight characters 0 or 1, bit 0 first, as `bit(8)` columns have it."""
    return f"{mask:08b}"[::-1]


def period_bucket(at: datetime, period: timedelta) -> int:
    """Return the number of the period that `at` lies in, counted from 1970 in UTC.

    `UniqueOptions(by_period=period_bucket(now, timedelta(hours=1)))` makes a job unique within the
    hour. Raises `ValidationError` for a datetime without a zone and for a period of no length.
    """
    if at.tzinfo is None or at.utcoffset() is None:
        raise ValidationError(
            "period_bucket takes a datetime with a zone, for example datetime.now(UTC)"
        )
    if period <= timedelta(0):
        raise ValidationError("period_bucket takes a period longer than nothing")
    return (at - _EPOCH) // period


def check_bucket(bucket: object) -> None:
    """Raise `ValidationError` unless `bucket` is a whole number of 64 bits."""
    if isinstance(bucket, bool) or not isinstance(bucket, int) or bucket not in _INT64:
        raise ValidationError(
            "by_period is the number of a period, a 64-bit int; get it from "
            "period_bucket(at, timedelta(hours=1))"
        )


def _has_float(value: Any) -> bool:
    kind = type(value)
    if kind is dict:
        return any(map(_has_float, value.values()))
    if kind is list:
        return any(map(_has_float, value))
    return kind is float


def _written(value: Any) -> str:
    kind = type(value)
    if kind is dict:
        members = (f"{_quoted(key)}:{_written(value[key])}" for key in sorted(value))
        return f"{{{','.join(members)}}}"
    if kind is list:
        return f"[{','.join(map(_written, value))}]"
    return _float_text(value) if kind is float else _quoted(value)


def _quoted(value: Any) -> str:
    return orjson.dumps(value).decode()


def _float_text(value: float) -> str:
    """Write a float as `0.00001` to `9999999999999998.0`, and with an exponent outside of that.

    `repr` finds the same shortest digits; only where it changes to an exponent is different.
    """
    text = repr(value)
    mantissa, _, exponent = text.partition("e")
    if not exponent:
        return text
    power = int(exponent)
    if power == -5:
        sign, digits = ("-", mantissa[1:]) if mantissa.startswith("-") else ("", mantissa)
        return f"{sign}0.0000{digits.replace('.', '')}"
    return f"{mantissa}e{power}"
