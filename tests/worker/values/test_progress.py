import threading
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from awa.encoding import MAX_PROGRESS_BYTES, decode
from awa.errors import SerializationError, ValidationError, ValueTooLarge
from awa.progress import Progress


def test_nothing_reported_is_nothing() -> None:
    progress = Progress()
    assert progress.get() is None
    assert progress.unwritten() is None


@pytest.mark.parametrize(
    ("percent", "stored"), [(-5, 0), (0, 0), (41.9, 41), (100, 100), (1e300, 100), (10**400, 100)]
)
def test_percent_is_brought_into_0_to_100(percent: float, stored: int) -> None:
    progress = Progress()
    progress.set(percent)
    assert progress.get() == {"percent": stored}


@pytest.mark.parametrize("percent", [float("nan"), "5", None, True])
def test_percent_must_be_a_number(percent: Any) -> None:
    progress = Progress()
    progress.set(7)
    with pytest.raises(ValidationError):
        progress.set(percent)
    assert progress.get() == {"percent": 7}


def test_a_report_replaces_percent_and_message_and_keeps_the_metadata() -> None:
    progress = Progress({"percent": 5, "message": "old", "metadata": {"cursor": 1}})
    progress.set(10)
    assert progress.get() == {"percent": 10, "metadata": {"cursor": 1}}
    progress.set(20, "page 2")
    assert progress.get() == {"percent": 20, "message": "page 2", "metadata": {"cursor": 1}}


def test_metadata_is_merged_one_level_deep_and_keeps_the_rest() -> None:
    progress = Progress()
    progress.set(50, "half")
    progress.update_metadata({"cursor": {"a": 1}, "seen": [1]})
    progress.update_metadata({"cursor": {"b": 2}})
    assert progress.get() == {
        "percent": 50,
        "message": "half",
        "metadata": {"cursor": {"b": 2}, "seen": [1]},
    }


def test_metadata_without_a_report_counts_as_nothing_done_yet() -> None:
    progress = Progress()
    progress.update_metadata({"a": 1})
    assert progress.get() == {"percent": 0, "metadata": {"a": 1}}


@pytest.mark.parametrize("changes", [{"a": {1}}, {"a": float("nan")}, {1: 2}, {"a": "\0"}])
def test_metadata_without_a_json_form_is_refused_and_changes_nothing(changes: Any) -> None:
    progress = Progress()
    progress.update_metadata({"kept": 1})
    written = progress.unwritten()
    with pytest.raises(SerializationError, match=r"^progress\.metadata"):
        progress.update_metadata(changes)
    assert progress.unwritten() == written
    assert progress.get() == {"percent": 0, "metadata": {"kept": 1}}


def test_metadata_must_be_a_dict() -> None:
    with pytest.raises(ValidationError, match="not a list"):
        Progress().update_metadata([])  # type: ignore[arg-type]


def test_progress_is_bounded() -> None:
    progress = Progress()
    progress.update_metadata({"a": "x" * (MAX_PROGRESS_BYTES // 2)})
    with pytest.raises(ValueTooLarge):
        progress.update_metadata({"b": "x" * (MAX_PROGRESS_BYTES // 2)})


def test_later_changes_to_what_was_passed_or_read_change_nothing() -> None:
    progress, mine = Progress(), {"seen": [1]}
    progress.update_metadata(mine)
    mine["seen"].append(2)
    read = progress.get()
    assert read is not None
    read["metadata"]["seen"].append(3)
    assert progress.get() == {"percent": 0, "metadata": {"seen": [1]}}


def test_what_an_earlier_attempt_left_is_there_but_not_to_be_written_again() -> None:
    progress = Progress({"percent": 30})
    assert progress.get() == {"percent": 30}
    assert progress.unwritten() is None


def test_a_report_made_while_another_is_written_stays_due() -> None:
    progress = Progress()
    progress.set(1)
    first = progress.unwritten()
    assert first is not None
    assert decode(first.text) == {"percent": 1}
    progress.set(2)
    progress.acknowledge(first)
    second = progress.unwritten()
    assert second is not None
    assert decode(second.text) == {"percent": 2}
    progress.acknowledge(second)
    progress.acknowledge(first)
    assert progress.unwritten() is None, "an old acknowledgement takes nothing back"


@given(st.lists(st.integers(0, 100), min_size=1, max_size=20), st.data())
def test_the_last_report_is_written_whenever_writes_happen(
    reports: list[int], data: st.DataObject
) -> None:
    progress, stored = Progress(), None
    for percent in reports:
        progress.set(percent)
        if data.draw(st.booleans()) and (snapshot := progress.unwritten()):
            stored = snapshot.text
            progress.acknowledge(snapshot)
    if snapshot := progress.unwritten():
        stored = snapshot.text
    assert stored is not None
    assert decode(stored) == {"percent": reports[-1]}


def test_reports_of_many_threads_lose_no_metadata() -> None:
    progress = Progress()
    threads = [
        threading.Thread(target=progress.update_metadata, args=({f"t{n}": n},)) for n in range(20)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(10)
    value = progress.get()
    assert value is not None
    assert value["metadata"] == {f"t{n}": n for n in range(20)}
