"""The rules of the lease: what a replica may conclude, with clocks of our own."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from awa_operator.lease import LeaseRecord, Step, Tenure, Terms

TERMS = Terms()
TODAY = datetime(2026, 1, 1, tzinfo=UTC)


def record(holder: str = "other", version: int = 1, second: int = 0) -> LeaseRecord:
    return LeaseRecord(
        holder=holder,
        renewed=TODAY + timedelta(seconds=second),
        resource_version=str(version),
    )


def leading(now: float = 0.0) -> Tenure:
    tenure = Tenure("me", TERMS)
    tenure.observe(None, now, is_answer=True)
    tenure.confirm(replace(tenure.claim(TODAY), resource_version="1"), now, now)
    return tenure


def test_it_looks_before_it_does_anything():
    assert Tenure("me", TERMS).decide(0) == (Step.LOOK, 0.0)


def test_a_lease_that_is_not_there_is_taken():
    tenure = Tenure("me", TERMS)
    tenure.observe(None, 0, is_answer=True)
    assert tenure.decide(0)[0] is Step.ACQUIRE
    assert tenure.claim(TODAY).resource_version is None


def test_a_lease_that_was_released_is_taken_at_once():
    tenure = Tenure("me", TERMS)
    tenure.observe(record(holder=""), 0, is_answer=True)
    assert tenure.decide(0)[0] is Step.ACQUIRE


def test_a_lease_of_another_is_waited_for_from_when_it_was_seen_to_change():
    tenure = Tenure("me", TERMS)
    tenure.observe(record(), 100, is_answer=True)
    assert tenure.decide(110) == (Step.WAIT, 5.0)
    assert tenure.decide(115)[0] is Step.ACQUIRE


def test_a_renewal_of_another_starts_the_wait_anew():
    tenure = Tenure("me", TERMS)
    tenure.observe(record(), 100, is_answer=True)
    tenure.observe(record(version=2, second=10), 110)
    assert tenure.decide(115) == (Step.WAIT, 10.0)


def test_seeing_the_same_again_is_no_sign_of_life():
    tenure = Tenure("me", TERMS)
    tenure.observe(record(), 100, is_answer=True)
    tenure.observe(record(version=2), 114)
    assert tenure.decide(115)[0] is Step.ACQUIRE


def test_the_wall_clock_of_the_holder_does_not_matter():
    tenure = Tenure("me", TERMS)
    far = replace(record(), renewed=TODAY + timedelta(days=400))
    tenure.observe(far, 0, is_answer=True)
    assert tenure.decide(15)[0] is Step.ACQUIRE


def test_a_leader_renews_in_time_and_leads_a_little_less_long_than_others_wait():
    tenure = leading()
    assert tenure.decide(9.9)[0] is Step.WAIT
    assert tenure.decide(10)[0] is Step.RENEW
    assert tenure.leads(12.9)
    assert not tenure.leads(13)


def test_a_failed_renewal_is_tried_again_soon_and_does_not_end_the_lead():
    tenure = leading()
    tenure.failed(10)
    assert tenure.decide(10.5) == (Step.WAIT, 0.5)
    assert tenure.leads(10.5)
    assert tenure.decide(11)[0] is Step.RENEW


def test_a_leader_that_was_stopped_for_longer_than_its_lease_does_not_lead():
    tenure = leading()
    assert not tenure.leads(20)
    assert tenure.remaining(20) == 0


def test_a_renewal_counts_from_when_it_was_sent_not_from_when_it_was_answered():
    tenure = leading()
    renewed = replace(tenure.claim(TODAY + timedelta(seconds=10)), resource_version="2")
    tenure.confirm(renewed, 10, 16)
    assert tenure.leads(16)
    assert not tenure.leads(23)


def test_a_slow_watch_that_tells_of_the_past_ends_no_lead():
    tenure = leading()
    renewed = replace(tenure.claim(TODAY), resource_version="9")
    tenure.confirm(renewed, 5, 5)
    tenure.observe(record(holder="", version=3), 6)
    assert tenure.leads(6)


def test_a_lease_that_another_took_ends_the_lead_at_once():
    tenure = leading()
    tenure.observe(record(version=5, second=11), 11)
    assert not tenure.leads(11)


def test_a_restart_under_the_same_name_goes_on_without_waiting():
    tenure = Tenure("me", TERMS)
    tenure.observe(record(holder="me"), 0, is_answer=True)
    assert not tenure.leads(0)
    assert tenure.decide(0)[0] is Step.RENEW
    assert tenure.claim(TODAY).transitions == 0


def test_taking_it_from_another_counts_a_transition():
    tenure = Tenure("me", TERMS)
    tenure.observe(replace(record(), transitions=4), 0, is_answer=True)
    assert tenure.claim(TODAY).transitions == 5


def test_after_a_conflict_it_looks_again():
    tenure = leading()
    tenure.unsure()
    assert tenure.decide(1)[0] is Step.LOOK


@given(renew=st.floats(1, 60), retry=st.floats(0.1, 5), spare=st.floats(0.1, 30))
def test_terms_leave_a_leader_time_to_renew_and_less_than_others_wait(renew, retry, spare):
    terms = Terms(*(timedelta(seconds=one) for one in (renew + retry + spare, renew, retry)))
    assert terms.renew_every + terms.retry_every <= terms.own_duration < terms.duration


class TwoReplicas(RuleBasedStateMachine):
    """However time passes and requests fail, at most one of two replicas leads.

    The store is one variable with a version, as the API server keeps it. An answer may come late or
    never, although the write was made.
    """

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0
        self.version = 0
        self.stored: LeaseRecord | None = None
        self.replicas = [Tenure("one", TERMS), Tenure("two", TERMS)]

    @rule(seconds=st.floats(0, 20))
    def time_passes(self, seconds):
        self.now += seconds

    @rule(who=st.integers(0, 1))
    def watch_tells(self, who):
        self.replicas[who].observe(self.stored, self.now)

    @rule(who=st.integers(0, 1), late=st.floats(0, 12), answered=st.booleans())
    def step(self, who, late, answered):
        tenure = self.replicas[who]
        step = tenure.decide(self.now)[0]
        if step is Step.LOOK:
            tenure.observe(self.stored, self.now, is_answer=True)
        elif step is not Step.WAIT:
            self._write(tenure, late, answered)

    def _write(self, tenure: Tenure, late: float, answered: bool) -> None:
        sent, claim = self.now, tenure.claim(TODAY + timedelta(seconds=self.now))
        known = self.stored.resource_version if self.stored is not None else None
        if claim.resource_version != known:
            tenure.unsure()
            return
        self.version += 1
        self.stored = replace(claim, resource_version=str(self.version))
        self.now += late
        if answered:
            tenure.confirm(self.stored, sent, self.now)
        else:
            tenure.failed(self.now)

    @invariant()
    def at_most_one_leads(self):
        assert sum(tenure.leads(self.now) for tenure in self.replicas) <= 1


TestTwoReplicas = TwoReplicas.TestCase
