"""Which key is next: a model of the rules against arbitrary histories, with a clock of our own."""

from datetime import timedelta

from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from awa_operator.work_queue import Backoff, Schedule

KEYS = st.sampled_from("abcd")
SECONDS = st.floats(0, 100, allow_nan=False)


def test_a_key_that_is_added_twice_runs_once():
    schedule: Schedule[str] = Schedule()
    schedule.add("a", 0)
    schedule.add("a", 1)
    assert schedule.take(2) == "a"
    assert schedule.take(2) is None


def test_a_key_that_is_added_while_it_runs_runs_again_after_it_and_not_beside_it():
    schedule: Schedule[str] = Schedule()
    schedule.add("a", 0)
    schedule.take(0)
    schedule.add("a", 1)
    assert schedule.take(1) is None
    schedule.end("a", 2, failed=False)
    assert schedule.take(2) == "a"


def test_keys_run_in_the_order_in_which_they_were_added():
    schedule: Schedule[str] = Schedule()
    for key in "cab":
        schedule.add(key, 0)
    assert [schedule.take(1) for _ in range(3)] == ["c", "a", "b"]


def test_a_key_becomes_ready_when_it_is_due_and_not_before():
    schedule: Schedule[str] = Schedule()
    schedule.add_at("a", 10)
    assert schedule.take(9.9) is None
    assert schedule.wait(9.0) == 1.0
    assert schedule.take(10) == "a"


def test_an_earlier_due_time_wins_over_a_later_one_whichever_was_asked_for_first():
    first: Schedule[str] = Schedule()
    first.add_at("a", 10)
    first.add_at("a", 5)
    assert first.take(5) == "a"
    second: Schedule[str] = Schedule()
    second.add_at("a", 5)
    second.add_at("a", 10)
    assert second.take(5) == "a"
    second.end("a", 6, failed=False)
    assert second.take(10) is None


def test_what_is_added_now_is_no_longer_due_later():
    schedule: Schedule[str] = Schedule()
    schedule.add_at("a", 10)
    schedule.add("a", 1)
    assert schedule.take(1) == "a"
    schedule.end("a", 2, failed=False)
    assert schedule.wait(3) is None


def test_a_due_time_that_is_set_while_a_key_runs_counts_after_it():
    schedule: Schedule[str] = Schedule()
    schedule.add("a", 0)
    schedule.take(0)
    schedule.add_at("a", 5)
    schedule.end("a", 1, failed=False)
    assert schedule.take(4) is None
    assert schedule.take(5) == "a"


def test_failures_are_counted_in_a_row():
    schedule: Schedule[str] = Schedule()
    counts = []
    for failed in (True, True, False, True):
        schedule.add("a", 0)
        schedule.take(0)
        counts.append(schedule.end("a", 1, failed=failed))
    assert counts == [1, 2, 0, 1]


def test_what_is_forgotten_does_not_come_back():
    schedule: Schedule[str] = Schedule()
    schedule.add("a", 0)
    schedule.add_at("b", 5)
    schedule.forget("a")
    schedule.forget("b")
    assert schedule.take(10) is None
    assert schedule.entries == {}


@given(failures=st.integers(1, 10_000), chance=st.floats(0, 1))
def test_waits_are_never_longer_than_the_longest_nor_shorter_than_half_of_the_first(
    failures, chance
):
    backoff = Backoff(timedelta(seconds=0.2), timedelta(seconds=30))
    assert 0.1 <= backoff.wait_seconds(failures, chance) <= 30


def test_waits_double_with_each_failure():
    backoff = Backoff(timedelta(seconds=1), timedelta(seconds=100))
    assert [backoff.wait_seconds(count, 1.0) for count in (1, 2, 3, 4)] == [1, 2, 4, 8]


class ScheduleModel(RuleBasedStateMachine):
    """Every key that was asked for runs, never beside itself, in its time."""

    def __init__(self) -> None:
        super().__init__()
        self.schedule: Schedule[str] = Schedule()
        self.now = 0.0
        self.wanted: set[str] = set()
        self.due: dict[str, float] = {}
        self.running: set[str] = set()

    @rule(key=KEYS)
    def add(self, key):
        self.schedule.add(key, self.now)
        self.wanted.add(key)
        self.due.pop(key, None)

    @rule(key=KEYS, after=SECONDS)
    def add_later(self, key, after):
        self.schedule.add_at(key, self.now + after)
        if key not in self.wanted:
            self.due[key] = min(self.due.get(key, float("inf")), self.now + after)

    @rule(after=SECONDS)
    def pass_time(self, after):
        self.now += after

    @rule()
    def take(self):
        self._collect()
        key = self.schedule.take(self.now)
        able = self.wanted - self.running
        assert (key is None) == (not able)
        if key is not None:
            assert key in able
            self.wanted.discard(key)
            self.running.add(key)

    @precondition(lambda self: self.running)
    @rule(failed=st.booleans(), data=st.data())
    def end(self, failed, data):
        key = data.draw(st.sampled_from(sorted(self.running)))
        self.schedule.end(key, self.now, failed=failed)
        self.running.discard(key)

    @invariant()
    def it_knows_when_to_look_again(self):
        self._collect()
        wait = self.schedule.wait(self.now)
        if self.wanted - self.running:
            assert wait == 0
        elif self.due:
            assert wait is not None
            assert wait >= 0
            assert abs(self.now + wait - min(self.due.values())) < 1e-6

    def _collect(self) -> None:
        for key, due in list(self.due.items()):
            if due <= self.now:
                del self.due[key]
                self.wanted.add(key)


TestScheduleModel = ScheduleModel.TestCase
