import dataclasses
import json
import threading
from datetime import UTC, datetime
from typing import Any

import pytest

from awa.errors import OutputInvalid, OutputSealed
from awa.job import Job, JobState
from awa.running import ClaimedItem, ClaimHead, RunningJob

NOW = datetime(2030, 1, 1, 12, tzinfo=UTC)


@dataclasses.dataclass
class Resize:
    width: int


@dataclasses.dataclass
class Thumbnail:
    width: int


def running(payload: dict[str, Any] | None = None, **options: Any) -> RunningJob[Resize]:
    """Make the job of an attempt; tests name only what matters."""
    head = ClaimHead("images", 1, NOW, NOW)
    text = None if payload is None else json.dumps(payload)
    item: ClaimedItem = (7, "resize", NOW, NOW, 2, 25, text)
    return RunningJob(head, item, Resize(3), **options)


def test_a_handler_sees_the_job_as_it_was_claimed() -> None:
    job = running({"metadata": {"a": 1}, "tags": ["t"]})
    assert isinstance(job, Job)
    assert (job.id, job.kind, job.queue, job.priority) == (7, "resize", "images", 1)
    assert (job.attempt, job.max_attempts) == (3, 25), "this attempt counts"
    assert job.state is JobState.Running
    assert (job.run_at, job.created_at, job.attempted_at, job.deadline) == (NOW, NOW, NOW, NOW)
    assert job.finalized_at is None
    assert job.args == Resize(3)
    assert job.metadata == {"a": 1}
    assert job.tags == ["t"]
    assert repr(job) == "<Job 7 resize in images: running, attempt 3 of 25>"


def test_its_data_can_be_shown_as_json() -> None:
    job = running()
    job.set_output({"a": 1})
    fields = job.to_dict()
    assert json.loads(json.dumps(fields)) == fields
    assert fields["args"] == {"width": 3}
    assert fields["output"] == {"a": 1}


def test_outputs_of_failed_attempts_are_no_checkpoints() -> None:
    errors = [
        {"error": "a", "attempt": 1, "at": "2030-01-01T00:00:00Z", "output": {"page": 1}},
        {"error": "b", "attempt": 2, "at": "2030-01-01T00:00:00Z", "terminal": False},
    ]
    job = running({"errors": errors})
    assert job.errors == [{k: v for k, v in e.items() if k != "output"} for e in errors]
    assert job.error_output_as(dict) is None


def test_a_new_attempt_starts_without_an_output() -> None:
    job = running({"errors": [{"error": "a", "attempt": 1, "output": 1}]})
    assert job.output is None
    assert job.seal() is None


def test_output_is_what_was_recorded_so_far() -> None:
    job = running()
    job.set_output({"page": 1})
    assert job.output == {"page": 1}
    job.set_output((2,))
    assert job.output == [2]
    assert job.output_as(list) == [2]
    job.clear_output()
    assert job.output is None
    job.set_output(1)
    job.set_output(None)
    assert job.seal() is None


def test_the_slot_is_shared_by_everybody_who_holds_it() -> None:
    job = running()
    slot = job.output_slot()
    assert job.output_slot() is slot
    slot.set("from a task")
    assert job.output == "from a task"
    assert job.seal() == '"from a task"'


def test_the_declared_type_is_enforced() -> None:
    job = running(declared=Thumbnail)
    job.set_output(Thumbnail(1))
    with pytest.raises(OutputInvalid):
        job.set_output({"width": 1})
    assert job.output is None


@pytest.mark.parametrize("touched", [True, False])
def test_after_the_seal_nothing_is_recorded(touched: bool) -> None:
    job = running()
    if touched:
        job.set_output("kept")
    sealed = job.seal()
    assert sealed == ('"kept"' if touched else None)
    for record in (job.set_output, job.output_slot().set):
        with pytest.raises(OutputSealed):
            record("late")
    with pytest.raises(OutputSealed):
        job.set_output(None)
    job.clear_output()
    assert job.output == ("kept" if touched else None)
    assert job.seal() == sealed


def test_an_attempt_sealed_empty_seals_no_other_attempt() -> None:
    first, second = running(), running()
    assert first.seal() is None
    second.set_output(1)
    assert second.seal() == "1"
    assert first.output is None


def test_threads_that_come_first_get_the_same_slot_and_buffer() -> None:
    for _ in range(50):
        job, start = running(), threading.Barrier(4)
        slots: list[Any] = []

        def use(
            job: RunningJob[Any] = job, start: threading.Barrier = start, slots: list[Any] = slots
        ) -> None:
            start.wait(10)
            slots.append(job.output_slot())
            job.update_metadata({str(threading.get_ident()): 1})

        threads = [threading.Thread(target=use) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(10)
        assert len(slots) == 4
        assert all(slot is slots[0] for slot in slots)
        assert job.progress is not None
        assert len(job.progress["metadata"]) == 4


def test_progress_begins_with_what_the_last_attempt_left() -> None:
    job = running({"progress": {"percent": 40, "metadata": {"cursor": 9}}})
    assert job.progress == {"percent": 40, "metadata": {"cursor": 9}}
    assert job.progress_buffer is None
    job.set_progress(50, "half")
    job.update_metadata({"seen": 1})
    assert job.progress == {
        "percent": 50,
        "message": "half",
        "metadata": {"cursor": 9, "seen": 1},
    }
    assert job.progress_buffer is not None
    assert job.progress_buffer.unwritten() is not None


def test_a_cancelled_attempt_can_be_seen_by_its_handler() -> None:
    job = running()
    assert not job.is_cancelled()
    job.cancel()
    assert job.is_cancelled()


async def test_a_flush_is_the_workers_business() -> None:
    flushed = []

    class Port:
        async def flush_progress(self, job: RunningJob[Any]) -> None:
            flushed.append(job)

    job = running(port=Port())
    await job.flush_progress()
    assert flushed == [job]
    with pytest.raises(RuntimeError, match="needs a worker"):
        await running().flush_progress()


def test_two_attempts_of_a_job_are_not_the_same() -> None:
    assert running() != running()
    assert len({running(), running()}) == 2
