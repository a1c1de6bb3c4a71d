import json
from datetime import UTC, datetime, timedelta, timezone
from random import Random
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from blake3 import blake3
from hypothesis import given
from hypothesis import strategies as st

from awa.encoding import encode
from awa.errors import ValidationError
from awa.job import JobState
from awa.options import UniqueOptions
from awa.unique import (
    DEFAULT_STATES,
    canonical_json,
    mask_bits,
    mask_of,
    period_bucket,
    states_in,
    unique_key,
)
from support.json_values import objects, objects_without_floats, shuffled, typed

# Frozen: another implementation, and the next release, must come to the same keys.
GOLDEN = [
    ({"kind": "send_email"}, b"send_email", "bee8bfbcd9d48e51f79059a523039018"),
    ({"kind": "k", "queue": "mail"}, b"k\0mail", "9d8ef7f6b3d1f12059d185f37ce22d63"),
    (
        {"kind": "k", "args_json": '{"b": 1, "a": [1.0, null]}'},
        b'k\0{"a":[1.0,null],"b":1}',
        "a1d0f5638840bbc215611a6fee4cd4b1",
    ),
    ({"kind": "k", "bucket": 1}, b"k\0\x01\0\0\0\0\0\0\0", "7272b659217af35994ada58654544a34"),
    (
        {"kind": "k", "bucket": -2},
        b"k\0\xfe\xff\xff\xff\xff\xff\xff\xff",
        "eacddda2bf847f5b92998222f3eed438",
    ),
    (
        {"kind": "k", "queue": "q", "args_json": '{"n":"é"}', "bucket": 480000},
        b'k\0q\0{"n":"\xc3\xa9"}\0\x00\x53\x07\0\0\0\0\0',
        "a81796d12f98e7788e27c0be524928e1",
    ),
]


@pytest.mark.parametrize(("parts", "preimage", "key"), GOLDEN)
def test_the_key_is_sixteen_bytes_of_blake3_over_the_parts(
    parts: dict[str, Any], preimage: bytes, key: str
) -> None:
    assert unique_key(**parts).hex() == blake3(preimage).hexdigest()[:32]
    assert unique_key(**parts).hex() == key


FLOATS = {
    1.0: "1.0",
    -0.0: "-0.0",
    0.1: "0.1",
    1e15: "1000000000000000.0",
    9999999999999998.0: "9999999999999998.0",
    1e16: "1e16",
    1.5e16: "1.5e16",
    1.2345678901234568e17: "1.2345678901234568e17",
    1e100: "1e100",
    1.7976931348623157e308: "1.7976931348623157e308",
    0.001: "0.001",
    0.0001: "0.0001",
    1e-5: "0.00001",
    1.5e-5: "0.000015",
    -2.25e-5: "-0.0000225",
    1e-6: "1e-6",
    1.25e-7: "1.25e-7",
    5e-324: "5e-324",
}


@pytest.mark.parametrize(("number", "text"), FLOATS.items())
def test_floats_have_one_documented_form(number: float, text: str) -> None:
    assert canonical_json(encode({"n": number}, "args")) == f'{{"n":{text}}}'.encode()


def text_of(value: Any) -> str:
    return json.dumps(value, ensure_ascii=True)


@given(objects_without_floats)
def test_canonical_json_is_compact_sorted_and_unescaped(args: dict[str, Any]) -> None:
    expected = json.dumps(args, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    assert canonical_json(text_of(args)) == expected.encode()


@given(objects, st.randoms(use_true_random=False))
def test_the_order_of_keys_never_matters(args: dict[str, Any], random: Random) -> None:
    other = shuffled(args, random)
    assert canonical_json(text_of(args)) == canonical_json(text_of(other))


@given(objects, objects)
def test_keys_are_equal_exactly_when_args_are(left: dict[str, Any], right: dict[str, Any]) -> None:
    same = canonical_json(text_of(left)) == canonical_json(text_of(right))
    assert same == (typed(left) == typed(right))


def test_one_one_point_zero_true_and_text_are_four_values() -> None:
    spellings = ["1", "1.0", "true", '"1"', '"\\u00e9"', '"e\\u0301"']
    keys = {unique_key("k", args_json=f'{{"a":{spelling}}}') for spelling in spellings}
    assert len(keys) == len(spellings)


def test_an_absent_field_is_not_an_empty_one() -> None:
    assert unique_key("k", args_json="{}") != unique_key("k", args_json='{"field":1}')
    assert unique_key("k", args_json="{}") != unique_key("k")


def test_many_random_args_give_no_false_conflict() -> None:
    keys = {unique_key("k", args_json=f'{{"n":{n}}}') for n in range(100_000)}
    assert len(keys) == 100_000


def test_parts_count_only_as_the_options_say() -> None:
    def key(queue: str = "q", args: str = '{"a":1}', **options: Any) -> bytes:
        return UniqueOptions(**options).key("k", queue, args)

    assert key() == key(queue="other")
    assert key() != key(args='{"a":2}')
    assert key(by_queue=True) != key(by_queue=True, queue="other")
    assert key(by_args=False) == key(by_args=False, args='{"a":2}')
    assert key(by_period=1) != key(by_period=2)
    assert key(by_period=1) != key()


def test_the_default_mask_holds_the_key_while_waiting_running_and_completed() -> None:
    assert UniqueOptions().mask == mask_of(DEFAULT_STATES) == 0b0001_1111
    assert mask_bits(0b0001_1111) == "11111000", "bit 0 first"


@given(st.sets(st.sampled_from(list(JobState)), min_size=1))
def test_states_names_and_masks_say_the_same(states: set[JobState]) -> None:
    mask = UniqueOptions(states=states).mask
    assert mask == UniqueOptions(states=[str(state) for state in states]).mask
    assert mask == UniqueOptions(states=mask).mask
    assert set(states_in(mask)) == states
    assert mask == int(mask_bits(mask)[::-1], 2)


@pytest.mark.parametrize("states", [(), 0, 256, -1])
def test_a_mask_without_any_state_is_refused(states: Any) -> None:
    with pytest.raises(ValidationError, match="unique states"):
        UniqueOptions(states=states)


def test_an_unknown_state_is_refused() -> None:
    with pytest.raises(ValidationError, match="a job state is one of scheduled, available"):
        UniqueOptions(states=["pending"])


@pytest.mark.parametrize("bucket", [1.5, "1", True, 2**63, timedelta(hours=1)])
def test_a_period_is_given_by_its_number(bucket: Any) -> None:
    with pytest.raises(ValidationError, match="by_period"):
        UniqueOptions(by_period=bucket)


def test_options_come_as_a_mapping_too() -> None:
    assert UniqueOptions.parse({"by_queue": True, "states": 3}) == UniqueOptions(
        by_queue=True, states=3
    )
    with pytest.raises(ValidationError, match="unique_opts has no option 'by_quue'"):
        UniqueOptions.parse({"by_quue": True})


def test_buckets_change_exactly_at_the_boundary() -> None:
    hour, start = timedelta(hours=1), datetime(2030, 1, 1, 12, tzinfo=UTC)
    first = period_bucket(start, hour)
    assert period_bucket(start + hour - timedelta(microseconds=1), hour) == first
    assert period_bucket(start + hour, hour) == first + 1
    assert period_bucket(start - timedelta(microseconds=1), hour) == first - 1
    assert first == int(start.timestamp()) // 3600


@given(
    st.datetimes(timezones=st.sampled_from([UTC, ZoneInfo("Asia/Kolkata"), timezone.min])),
    st.timedeltas(timedelta(microseconds=1), timedelta(days=400)),
)
def test_the_zone_of_an_instant_does_not_change_its_bucket(at: datetime, period: timedelta) -> None:
    bucket = period_bucket(at, period)
    epoch = datetime(1970, 1, 1, tzinfo=UTC)
    assert bucket * period <= at - epoch < (bucket + 1) * period


def test_a_naive_time_has_no_bucket() -> None:
    with pytest.raises(ValidationError, match=r"datetime\.now\(UTC\)"):
        period_bucket(datetime(2030, 1, 1), timedelta(hours=1))  # noqa: DTZ001 - what is refused
    with pytest.raises(ValidationError, match="period"):
        period_bucket(datetime(2030, 1, 1, tzinfo=UTC), timedelta(0))
