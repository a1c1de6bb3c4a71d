import dataclasses
import inspect
import json
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pydantic
import pytest

from awa.errors import SerializationError, ValidationError
from awa.job import Job, JobRow, JobState

NOW = datetime(2030, 1, 1, 12, tzinfo=UTC)


def job(**columns: Any) -> Job[Any]:
    """Make a stored job; tests name only the columns that matter."""
    defaults: dict[str, Any] = {
        "id": 7,
        "kind": "resize",
        "queue": "images",
        "state": JobState.Completed,
        "priority": 2,
        "attempt": 1,
        "max_attempts": 25,
        "run_at": NOW,
        "created_at": NOW,
    }
    return Job(JobRow(**{**defaults, **columns}))


def with_errors(*errors: dict[str, Any]) -> Job[Any]:
    return job(payload_json=json.dumps({"errors": errors}))


STATES = {
    "Scheduled": ("scheduled", 0, False),
    "Available": ("available", 1, False),
    "Running": ("running", 2, False),
    "Completed": ("completed", 3, True),
    "Retryable": ("retryable", 4, False),
    "Failed": ("failed", 5, True),
    "Cancelled": ("cancelled", 6, True),
    "WaitingExternal": ("waiting_external", 7, False),
}


@pytest.mark.parametrize("name", STATES)
def test_a_state_has_a_name_in_python_a_text_and_a_bit(name: str) -> None:
    text, bit, terminal = STATES[name]
    state = JobState[name]
    assert (str(state), int(state), state.is_terminal) == (text, bit, terminal)
    assert repr(state) == f"JobState.{name}"
    assert f"{state}" == text
    assert JobState.parse(text) is state


def test_there_are_no_other_states() -> None:
    assert {state.name for state in JobState} == set(STATES)


def test_a_state_equals_itself_only() -> None:
    assert JobState.Available != "available"
    assert JobState.Available != 1
    with pytest.raises(ValidationError, match="a job state is one of"):
        JobState.parse("Available")


def test_a_job_that_says_nothing_more_has_empty_extras() -> None:
    plain = job()
    assert plain.args == {}
    assert plain.metadata == {}
    assert plain.tags == []
    assert plain.errors == []
    assert plain.progress is None
    assert plain.output is None
    assert plain.traceparent is None


def test_a_stored_job_decodes_its_columns() -> None:
    stored = job(
        args_json='{"width":3}',
        payload_json=json.dumps(
            {
                "metadata": {"awa:traceparent": "00-1-2-01", "team": "web"},
                "tags": ["a"],
                "errors": [{"error": "x", "attempt": 1, "at": "2030-01-01T00:00:00Z"}],
                "progress": {"percent": 5},
            }
        ),
        output_json='{"size":1.0}',
    )
    assert stored.args == {"width": 3}
    assert stored.args is stored.args, "decoded once"
    assert stored.metadata["team"] == "web"
    assert stored.traceparent == "00-1-2-01"
    assert stored.tags == ["a"]
    assert stored.errors[0]["error"] == "x"
    assert stored.progress == {"percent": 5}
    assert repr(stored.output) == "{'size': 1.0}"


def test_the_times_are_aware_datetimes() -> None:
    ended = job(attempted_at=NOW, finalized_at=NOW, deadline=NOW + timedelta(minutes=5))
    times = (
        ended.run_at,
        ended.created_at,
        ended.attempted_at,
        ended.finalized_at,
        ended.deadline,
    )
    assert all(at is not None and at.utcoffset() is not None for at in times)


def test_a_job_cannot_be_changed() -> None:
    stored = job()
    for name, value in inspect.getmembers(Job, lambda member: isinstance(member, property)):
        assert value.fset is None
        with pytest.raises(AttributeError):
            setattr(stored, name, None)
    with pytest.raises(AttributeError):
        stored.anything = 1  # type: ignore[attr-defined]


def test_jobs_are_equal_when_everything_is() -> None:
    assert job(args_json='{"a": 1}') == job(args_json='{"a":1}')
    assert job() != job(attempt=2)
    assert job() != "job"
    assert len({job(), job(), job(id=8)}) == 2


def test_the_text_of_a_job_names_it_and_shows_no_data() -> None:
    secret = job(
        args_json='{"pin":"hunter2"}',
        payload_json='{"metadata":{"k":"hunter2"}}',
        output_json='"hunter2"',
    )
    assert repr(secret) == "<Job 7 resize in images: completed, attempt 1 of 25>"
    assert "hunter2" not in f"{secret} {secret!r}"


def test_a_row_shows_no_data_either() -> None:
    row = JobRow(
        id=1,
        kind="k",
        queue="q",
        state=JobState.Running,
        priority=1,
        attempt=1,
        max_attempts=1,
        run_at=NOW,
        created_at=NOW,
        args_json="hunter2",
    )
    assert "hunter2" not in repr(row)


def test_a_job_as_dict_is_json_with_times_in_utc() -> None:
    stored = job(run_at=NOW.astimezone(timezone(timedelta(hours=2))), output_json='{"a":1}')
    fields = stored.to_dict()
    assert json.loads(json.dumps(fields)) == fields
    assert fields["run_at"] == "2030-01-01T12:00:00.000000Z"
    assert fields["state"] == "completed"
    assert fields["output"] == {"a": 1}
    assert fields["finalized_at"] is None


@dataclasses.dataclass
class Thumbnail:
    width: int
    height: int = 1


class Report(pydantic.BaseModel):
    at: datetime


def test_an_output_is_decoded_as_args_are() -> None:
    assert job(output_json='{"width":3}').output_as(Thumbnail) == Thumbnail(3)
    report = job(output_json='{"at":"2030-01-01T12:00:00Z"}').output_as(Report)
    assert report == Report(at=NOW)
    assert job(output_json='"text"').output_as(str) == "text"
    assert job().output_as(Thumbnail) is None


def test_an_output_that_does_not_fit_is_the_readers_error_and_stays_readable() -> None:
    stored = job(output_json='{"breadth":3}')
    with pytest.raises(SerializationError, match="output does not fit Thumbnail: without width"):
        stored.output_as(Thumbnail)
    with pytest.raises(SerializationError, match="output does not fit str: found dict"):
        stored.output_as(str)
    assert stored.output == {"breadth": 3}


def test_the_latest_entry_with_an_output_counts_whatever_its_attempt_number() -> None:
    failed = with_errors(
        {"error": "a", "attempt": 3, "output": {"width": 1}},
        {"error": "b", "attempt": 1, "output": {"width": 2}},
        {"error": "c", "attempt": 2},
    )
    assert failed.error_output_as(Thumbnail) == Thumbnail(2)
    assert failed.output is None


def test_no_failed_output_is_none() -> None:
    assert job().error_output_as(Thumbnail) is None
    assert with_errors({"error": "a", "attempt": 1}).error_output_as(Thumbnail) is None


@pytest.mark.parametrize(
    "call",
    [
        lambda j: j.set_output(1),
        lambda j: j.clear_output(),
        lambda j: j.output_slot(),
        lambda j: j.set_progress(1),
        lambda j: j.update_metadata({}),
        lambda j: j.is_cancelled(),
    ],
)
def test_what_belongs_to_a_running_attempt_is_refused_on_a_stored_job(call: Any) -> None:
    with pytest.raises(RuntimeError, match="belongs to a running attempt"):
        call(job())


async def test_progress_of_a_stored_job_cannot_be_flushed() -> None:
    with pytest.raises(RuntimeError, match="flush_progress belongs to a running attempt"):
        await job().flush_progress()
