import dataclasses
import enum
import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pydantic
import pytest
from hypothesis import given
from hypothesis import strategies as st

from awa.encoding import MAX_ARGS_BYTES, MAX_METADATA_BYTES
from awa.errors import SerializationError, ValidationError, ValueTooLarge
from awa.limits import check_name
from awa.options import InsertOptions, NewJob, UniqueOptions, parse_new_job


@dataclasses.dataclass
class SendEmail:
    to: str
    count: Any = 1


class PDFRenderJob(pydantic.BaseModel):
    at: datetime


class Queue(enum.StrEnum):
    MAIL = "mail"


def test_a_job_with_nothing_said_has_the_defaults() -> None:
    assert parse_new_job(SendEmail("a")) == NewJob(
        kind="send_email",
        queue="default",
        priority=2,
        args_json='{"to":"a","count":1}',
        run_at=None,
        max_attempts=25,
        payload_json=None,
        unique_key=None,
        unique_mask=None,
    )


def test_options_become_the_jobs_columns() -> None:
    at = datetime(2030, 1, 1, tzinfo=UTC)
    job = parse_new_job(
        SendEmail("a"),
        InsertOptions(
            queue="mail",
            priority=1,
            max_attempts=3,
            run_at=at,
            tags=["x", "y"],
            metadata={"team": "web"},
            unique_opts={"by_queue": True},
        ),
        kind="other",
    )
    assert (job.kind, job.queue, job.priority, job.max_attempts) == ("other", "mail", 1, 3)
    assert job.run_at == at
    assert json.loads(job.payload_json or "") == {"metadata": {"team": "web"}, "tags": ["x", "y"]}
    expected = UniqueOptions(by_queue=True)
    assert job.unique_key == expected.key("other", "mail", job.args_json)
    assert job.unique_mask == expected.mask


def test_a_model_is_dumped_and_its_kind_derived() -> None:
    job = parse_new_job(PDFRenderJob(at=datetime(2030, 1, 1, tzinfo=UTC)))
    assert (job.kind, job.args_json) == ("pdf_render_job", '{"at":"2030-01-01T00:00:00Z"}')


def test_a_dict_needs_a_kind() -> None:
    assert parse_new_job({"a": 1}, kind="k").args_json == '{"a":1}'
    with pytest.raises(ValidationError, match=r"need a kind: pass kind=…"):
        parse_new_job({"a": 1})


@pytest.mark.parametrize("args", [[1], "text", None, 3, (1, 2)])
def test_args_are_an_object(args: Any) -> None:
    with pytest.raises(
        ValidationError, match="args are a dataclass or pydantic instance or a dict"
    ):
        parse_new_job(args, kind="k")


def test_a_model_that_is_no_object_is_refused() -> None:
    class Numbers(pydantic.RootModel[list[int]]):
        pass

    with pytest.raises(ValidationError, match="not a Numbers"):
        parse_new_job(Numbers([1]))


@pytest.mark.parametrize("bad", [{1}, float("nan"), "\0", {1: 2}, datetime(2030, 1, 1, tzinfo=UTC)])
def test_args_without_a_json_form_are_refused_with_their_position(bad: Any) -> None:
    with pytest.raises(SerializationError, match=r"^args\.count"):
        parse_new_job(SendEmail("a", bad))


def test_args_are_bounded() -> None:
    room = MAX_ARGS_BYTES - len('{"a":""}')
    parse_new_job({"a": "x" * room}, kind="k")
    with pytest.raises(ValueTooLarge, match="args takes 1048577 bytes of JSON text"):
        parse_new_job({"a": "x" * (room + 1)}, kind="k")


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "priority 0": ({"priority": 0}, "priority is 0; it takes 1 to 4"),
    "priority 5": ({"priority": 5}, "priority is 5; it takes 1 to 4"),
    "priority of another type": ({"priority": "1"}, "priority is an int, not a str"),
    "priority true": ({"priority": True}, "priority is an int, not a bool"),
    "no attempts": ({"max_attempts": 0}, "max_attempts is 0; it takes 1 to 1000"),
    "too many attempts": ({"max_attempts": 1001}, "max_attempts is 1001; it takes 1 to 1000"),
    "empty queue": ({"queue": ""}, "queue has 0 characters; it takes 1 to 200"),
    "long queue": ({"queue": "q" * 201}, "queue has 201 characters"),
    "NUL in the queue": ({"queue": "a\0"}, "queue contains a character that is not printable"),
    "newline in the queue": ({"queue": "a\n"}, "queue contains a character"),
    "queue of another type": ({"queue": None}, "queue is a str, not a NoneType"),
    "21 tags": ({"tags": ["t"] * 21}, "there are 21 tags; a job takes up to 20"),
    "long tag": ({"tags": ["a", "t" * 201]}, r"tags\[1\] has 201 characters"),
    "tag of another type": ({"tags": [1]}, r"tags\[0\] is a str, not an? int"),
    "one str as tags": ({"tags": "urgent"}, "tags are a list of str"),
    "metadata of another type": ({"metadata": [1]}, "metadata is a dict, not a list"),
    "naive time": ({"run_at": datetime(2030, 1, 1)}, "run_at has no time zone"),  # noqa: DTZ001
    "naive text": ({"run_at": "2030-01-01T09:00:00"}, "run_at has no time zone"),
    "text that is no time": ({"run_at": "tomorrow"}, "run_at is not a time; write it as"),
    "time of another type": ({"run_at": 5}, "run_at is a datetime with a zone, not a"),
    "time before the first year": (
        {"run_at": datetime(1, 1, 1, tzinfo=timezone(timedelta(hours=5)))},
        "run_at is outside the years",
    ),
    "unknown unique option": ({"unique_opts": {"by_arg": True}}, "has no option 'by_arg'"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_options_outside_their_limits_are_refused(case: str) -> None:
    options, message = REFUSED[case]
    with pytest.raises(ValidationError, match=message):
        InsertOptions(**options)


ACCEPTED: list[Callable[[], Any]] = [
    lambda: InsertOptions(queue="q" * 200, priority=4, max_attempts=1000, tags=["t" * 200] * 20),
    lambda: InsertOptions(queue="Ünïcode queue/1", priority=1, max_attempts=1),
    lambda: InsertOptions(queue=Queue.MAIL, tags=(), metadata={}),
]


@pytest.mark.parametrize("make", ACCEPTED)
def test_limits_are_inclusive(make: Callable[[], Any]) -> None:
    make()


def test_a_naive_time_is_refused_with_the_way_out() -> None:
    with pytest.raises(ValidationError, match=r"use datetime\.now\(UTC\) \+ …, or name the zone"):
        InsertOptions(run_at=datetime(2030, 1, 1))  # noqa: DTZ001 - what is refused


@pytest.mark.parametrize("hours", [-11, 0, 5.5, 13])
def test_the_same_instant_in_any_zone_is_the_same_time(hours: float) -> None:
    at = datetime(2030, 1, 1, tzinfo=UTC)
    local = at.astimezone(timezone(timedelta(hours=hours)))
    assert InsertOptions(run_at=local).due == at
    assert InsertOptions(run_at=local.isoformat()).due == at
    assert InsertOptions(run_at="2030-01-01T00:00:00Z").due == at


@pytest.mark.parametrize("bad", [{"a": {1}}, {"a": float("inf")}, {1: 2}])
def test_metadata_without_a_json_form_is_refused(bad: Any) -> None:
    with pytest.raises(SerializationError, match=r"^metadata"):
        InsertOptions(metadata=bad)


def test_metadata_is_bounded() -> None:
    with pytest.raises(ValueTooLarge, match="metadata takes"):
        InsertOptions(metadata={"a": "x" * MAX_METADATA_BYTES})


def test_options_do_not_change_with_what_they_were_made_from() -> None:
    metadata, tags = {"a": [1]}, ["x"]
    options = InsertOptions(metadata=metadata, tags=tags)
    metadata["a"].append(2)
    tags.append("y")
    assert json.loads(options.payload_json or "") == {"metadata": {"a": [1]}, "tags": ["x"]}


@pytest.mark.parametrize("kind", ["", "k" * 201, "a\0", 5, ["k"]])
def test_a_kind_is_a_name(kind: Any) -> None:
    with pytest.raises(ValidationError, match="kind"):
        parse_new_job({}, kind=kind)


def test_a_kind_of_a_str_subclass_is_its_text() -> None:
    kind = parse_new_job({}, kind=Queue.MAIL).kind
    assert type(kind) is str
    assert kind == "mail"


@given(st.text(min_size=1, max_size=20))
def test_every_printable_name_is_a_name_and_no_other(name: str) -> None:
    try:
        check_name("queue", name)
    except ValidationError as error:
        refused, message = True, str(error)
    else:
        refused, message = False, ""
    assert refused is not name.isprintable()
    assert not refused or name not in message or len(name) < 3


def test_jobs_turn_into_columns() -> None:
    jobs = [parse_new_job({"n": n}, kind="k") for n in range(3)]
    columns = dict(zip(NewJob._fields, zip(*jobs, strict=True), strict=True))
    assert columns["args_json"] == ('{"n":0}', '{"n":1}', '{"n":2}')


def test_the_text_of_a_new_job_and_of_options_shows_no_data() -> None:
    options = InsertOptions(metadata={"pin": "hunter2"})
    job = parse_new_job({"pin": "hunter2"}, options, kind="k")
    assert "hunter2" not in f"{job!r} {job} {options!r}"
