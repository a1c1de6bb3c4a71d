import dataclasses
import threading
from collections.abc import Callable
from typing import Any, TypedDict

import pydantic
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from awa.errors import (
    OutputError,
    OutputInvalid,
    OutputSealed,
    OutputTooLarge,
    SerializationError,
    TerminalError,
)
from awa.output import MAX_OUTPUT_BYTES, OutputSlot, encode_output

LIMIT_SECONDS = 10


@dataclasses.dataclass
class Thumbnail:
    width: int


class Report(pydantic.BaseModel):
    pages: int


class Summary(TypedDict):
    pages: int


def test_a_new_slot_is_empty() -> None:
    slot = OutputSlot()
    assert slot.get() is None
    assert slot.seal() is None


def test_an_output_replaces_the_earlier_one() -> None:
    slot = OutputSlot()
    slot.set({"a": 1})
    slot.set({"b": 1.0})
    assert slot.get() == {"b": 1.0}
    assert slot.seal() == '{"b":1.0}'


def test_none_clears_the_slot() -> None:
    slot = OutputSlot()
    slot.set(1)
    slot.set(None)
    assert slot.seal() is None


def test_clear_empties_the_slot() -> None:
    slot = OutputSlot()
    slot.set(1)
    slot.clear()
    assert slot.get() is None


@pytest.mark.parametrize("falsy", [0, False, "", [], {}, 0.0])
def test_a_falsy_output_is_an_output(falsy: Any) -> None:
    slot = OutputSlot()
    slot.set(falsy)
    assert slot.get() == falsy
    assert slot.seal() is not None


def test_what_is_read_back_is_a_copy() -> None:
    value = {"pages": [1]}
    slot = OutputSlot()
    slot.set(value)
    value["pages"].append(2)
    slot.get()["pages"].append(3)
    assert slot.get() == {"pages": [1]}


@pytest.mark.parametrize("bad", [{1}, float("nan"), "\0", {1: 2}, 2**64, object(), b"x"])
def test_an_output_without_a_json_form_is_refused_and_clears_the_slot(bad: object) -> None:
    slot = OutputSlot()
    slot.set("earlier")
    with pytest.raises(OutputInvalid, match=r"^output: "):
        slot.set(bad)
    assert slot.get() is None
    slot.set("later")
    assert slot.seal() == '"later"', "the attempt is not poisoned"


def test_exactly_four_kibibytes_of_text_are_accepted() -> None:
    assert MAX_OUTPUT_BYTES == 4096
    slot = OutputSlot()
    slot.set("x" * 4094)
    assert len(slot.seal() or "") == 4096


def test_a_byte_more_is_refused_with_both_sizes_and_clears_the_slot() -> None:
    slot = OutputSlot()
    slot.set("earlier")
    with pytest.raises(OutputTooLarge) as caught:
        slot.set("x" * 4095)
    assert (caught.value.size_bytes, caught.value.limit_bytes) == (4097, 4096)
    assert slot.get() is None


def test_the_limit_counts_bytes_of_utf8() -> None:
    with pytest.raises(OutputTooLarge):
        OutputSlot().set("é" * 2048)


def test_an_error_of_the_value_itself_clears_the_slot_too() -> None:
    class Moody:
        @property  # type: ignore[misc]
        def __class__(self) -> type:
            raise RuntimeError("not today")

    slot = OutputSlot()
    slot.set("earlier")
    with pytest.raises(RuntimeError, match="not today"):
        slot.set([Moody()])
    assert slot.get() is None


def test_after_the_seal_every_set_reports_sealed_and_clear_does_nothing() -> None:
    slot = OutputSlot()
    slot.set("kept")
    assert slot.seal() == '"kept"'
    for value in ("late", None, {1}, "x" * 5000):
        with pytest.raises(OutputSealed):
            slot.set(value)
    slot.clear()
    assert slot.get() == "kept"
    assert slot.seal() == '"kept"', "sealing again gives the same value"
    assert slot.is_sealed


def test_output_errors_are_terminal_and_not_the_converters_own() -> None:
    with pytest.raises(TerminalError) as caught:
        OutputSlot().set({1})
    assert isinstance(caught.value, OutputError)
    assert not isinstance(caught.value, SerializationError)
    assert caught.value.__cause__ is None


def test_a_declared_class_refuses_instances_of_others() -> None:
    slot = OutputSlot(Thumbnail)
    slot.set(Thumbnail(3))
    with pytest.raises(OutputInvalid, match="a dict was recorded and the kind declares Thumbnail"):
        slot.set({"width": 3})
    assert slot.get() is None
    with pytest.raises(OutputInvalid, match="a Report was recorded"):
        slot.set(Report(pages=1))
    slot.set(None)
    assert slot.seal() is None


def test_a_subclass_of_the_declared_class_is_accepted() -> None:
    class Longer(Report):
        words: int

    assert encode_output(Longer(pages=1, words=2), Report) == '{"pages":1,"words":2}'


def test_a_union_is_enforced_because_isinstance_can_tell() -> None:
    assert encode_output(1, int | str) == "1"
    with pytest.raises(OutputInvalid):
        encode_output(1.5, int | str)


@pytest.mark.parametrize("declared", [list[int], Summary, Any, dict[str, int]])
def test_a_type_that_isinstance_cannot_check_is_not_enforced(declared: Any) -> None:
    assert encode_output("anything", declared) == '"anything"'


class Gate:
    """A value whose encoding waits until it is let through."""

    def __init__(self, payload: Any = "slow") -> None:
        gate = self
        self.reached = threading.Event()
        self.opened = threading.Event()

        class Slow(pydantic.BaseModel):
            payload: Any

            @pydantic.field_serializer("payload")
            def wait(self, value: Any) -> Any:
                gate.reached.set()
                if not gate.opened.wait(LIMIT_SECONDS):
                    raise TimeoutError
                return value

        self.value = Slow(payload=payload)


def in_thread(call: Callable[[], None]) -> Callable[[], BaseException | None]:
    """Start `call` in a thread; the result joins it and returns what it raised."""
    raised: list[BaseException] = []

    def run() -> None:
        try:
            call()
        except BaseException as error:  # noqa: BLE001 - handed to the test
            raised.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()

    def join() -> BaseException | None:
        thread.join(LIMIT_SECONDS)
        assert not thread.is_alive()
        return raised[0] if raised else None

    return join


def test_a_slow_value_holds_up_nobody_and_wins_because_it_finishes_last() -> None:
    slot, gate = OutputSlot(), Gate()
    join = in_thread(lambda: slot.set(gate.value))
    assert gate.reached.wait(LIMIT_SECONDS)
    slot.set("fast")
    assert slot.get() == "fast"
    gate.opened.set()
    assert join() is None
    assert slot.get() == {"payload": "slow"}


def test_a_slow_value_that_fails_last_clears_what_was_recorded_meanwhile() -> None:
    slot, gate = OutputSlot(), Gate("x" * 5000)
    join = in_thread(lambda: slot.set(gate.value))
    assert gate.reached.wait(LIMIT_SECONDS)
    slot.set("fast")
    gate.opened.set()
    assert isinstance(join(), OutputTooLarge)
    assert slot.get() is None


def test_a_value_still_being_encoded_at_the_seal_comes_too_late() -> None:
    slot, gate = OutputSlot(), Gate()
    join = in_thread(lambda: slot.set(gate.value))
    assert gate.reached.wait(LIMIT_SECONDS)
    slot.set("in time")
    assert slot.seal() == '"in time"'
    gate.opened.set()
    assert isinstance(join(), OutputSealed)
    assert slot.get() == "in time"


def test_of_many_threads_one_whole_value_is_left_and_the_seal_is_final() -> None:
    slot, start = OutputSlot(), threading.Barrier(9)

    def record(name: int) -> None:
        start.wait(LIMIT_SECONDS)
        try:
            for step in range(10**6):
                slot.set({"thread": name, "step": step, "same": step})
        except OutputSealed:
            return

    joins = [in_thread(lambda name=name: record(name)) for name in range(8)]  # type: ignore[misc]
    start.wait(LIMIT_SECONDS)
    while slot.get() is None:
        pass
    sealed = slot.seal()
    assert [join() for join in joins] == [None] * 8
    assert slot.seal() == sealed
    value = slot.get()
    assert value["step"] == value["same"]


class SlotModel(RuleBasedStateMachine):
    """A slot against its rules, written down as a value and a flag."""

    def __init__(self) -> None:
        super().__init__()
        self.slot = OutputSlot(dict | str | int)
        self.value: Any = None
        self.sealed = False

    def attempt(self, value: Any, refusal: type[OutputError] | None) -> None:
        expected = OutputSealed if self.sealed else refusal
        if expected is None:
            self.slot.set(value)
            self.value = value
            return
        with pytest.raises(expected):
            self.slot.set(value)
        if not self.sealed:
            self.value = None

    @rule(value=st.none() | st.integers(0, 9) | st.text("ab", max_size=3))
    def set_valid(self, value: Any) -> None:
        self.attempt(value, None)

    @rule(value=st.sampled_from([{1: 1}, {"a": {1}}, "\0", 1.5, [1]]))
    def set_invalid(self, value: Any) -> None:
        self.attempt(value, OutputInvalid)

    @rule(size=st.integers(4095, 6000))
    def set_too_large(self, size: int) -> None:
        self.attempt("x" * size, OutputTooLarge)

    @rule()
    def clear(self) -> None:
        self.slot.clear()
        if not self.sealed:
            self.value = None

    @rule()
    def seal(self) -> None:
        text = self.slot.seal()
        self.sealed = True
        assert (text is None) == (self.value is None)

    @invariant()
    def reads_back(self) -> None:
        assert self.slot.get() == self.value


TestSlotModel = SlotModel.TestCase


@given(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0")))
def test_every_output_within_the_limit_reads_back_equal(text: str) -> None:
    slot = OutputSlot()
    slot.set({"text": text})
    assert slot.get() == {"text": text}
