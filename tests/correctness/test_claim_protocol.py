import re
from dataclasses import replace
from pathlib import Path

import pytest
from correctness.check import HOLDS, REFUTED, Configuration, check, configurations, find_tlc

# Seconds; an idle machine needs a tenth.
LIMIT = 900

pytestmark = [pytest.mark.slow, pytest.mark.timeout(LIMIT + 60)]


def of(kind):
    return [c for c in configurations(kind) if c.model.stem == "ClaimProtocol"]


def with_wrong(configuration: Configuration, mistake: str) -> Configuration:
    text, count = re.subn(r'(?m)^  Wrong = ".*"$', f'  Wrong = "{mistake}"', configuration.text)
    assert count == 1
    return replace(configuration, text=text)


def with_invariants(configuration: Configuration, invariants: list[str]) -> Configuration:
    text, count = re.subn(
        r"(?m)^INVARIANTS? .*$", f"INVARIANTS {' '.join(invariants)}", configuration.text
    )
    assert count == 1
    return replace(configuration, text=text)


def mistake_of(configuration: Configuration) -> str:
    found = re.search(r'(?m)^  Wrong = "(.*)"$', configuration.text)
    assert found
    return found[1]


def without_comments(text: str) -> str:
    return re.sub(r"(?m)^\\\*.*\n", "", text)


PROMISES = sorted({name for configuration in of(HOLDS) for name in configuration.invariants})
KNOWN = {without_comments(configuration.text) for configuration in of(HOLDS)}
HEALED = [
    with_invariants(with_wrong(configuration, "none"), PROMISES) for configuration in of(REFUTED)
]


@pytest.fixture(scope="session")
def tlc() -> Path:
    return find_tlc()


@pytest.mark.parametrize("configuration", of(HOLDS), ids=lambda c: c.name)
def test_tlc_finds_no_way_to_break_the_protocol(configuration, tlc):
    verdict = check(configuration, tlc, limit_seconds=LIMIT)
    assert verdict.objection(HOLDS, configuration.invariants) is None
    assert verdict.states > 50_000


@pytest.mark.parametrize("configuration", of(REFUTED), ids=lambda c: c.name)
def test_tlc_refutes_each_mistake_by_the_invariant_it_names(configuration, tlc):
    verdict = check(configuration, tlc, limit_seconds=LIMIT)
    assert verdict.objection(REFUTED, configuration.invariants) is None


# What is among those that hold anyway is not explored twice.
@pytest.mark.parametrize(
    "configuration",
    [c for c in HEALED if without_comments(c.text) not in KNOWN],
    ids=lambda c: c.name,
)
def test_the_mistake_alone_is_what_breaks_a_refuted_configuration(configuration, tlc):
    verdict = check(configuration, tlc, limit_seconds=LIMIT)
    assert verdict.objection(HOLDS, configuration.invariants) is None


def test_every_mistake_in_the_model_has_a_configuration_of_its_name():
    model = of(HOLDS)[0].model.read_text()
    in_model = set(re.findall(r'Wrong [=#] "(\w+)"', model))
    assert {mistake_of(c): c.name for c in of(REFUTED)} == {c.name: c.name for c in of(REFUTED)}
    assert in_model == {mistake_of(c) for c in of(REFUTED) + of(HOLDS)} - {"none"}


def test_every_promise_is_broken_by_some_mistake():
    assert {name for c in of(REFUTED) for name in c.invariants} == set(PROMISES)
    assert all(sorted(c.invariants) == PROMISES for c in of(HOLDS))


def test_a_mistake_that_leaves_the_named_invariant_whole_is_objected_to(tlc):
    [configuration] = [c for c in of(REFUTED) if c.name == "bound_is_xmax"]
    unbroken = with_invariants(configuration, ["ClaimedOnce"])
    verdict = check(unbroken, tlc, limit_seconds=LIMIT)
    assert verdict.broken is None
    objection = verdict.objection(REFUTED, unbroken.invariants)
    assert objection is not None
    assert objection.startswith("expected ClaimedOnce broken, found exit code 0")


def test_a_mistake_among_what_should_hold_is_objected_to(tlc):
    [configuration] = [c for c in of(REFUTED) if c.name == "bound_is_xmax"]
    verdict = check(configuration, tlc, limit_seconds=LIMIT)
    objection = verdict.objection(HOLDS, configuration.invariants)
    assert objection is not None
    assert objection.startswith("expected no error, found NothingLost broken")


def test_a_configuration_that_tlc_cannot_read_is_objected_to_as_either_kind(tlc):
    garbled = replace(of(HOLDS)[0], text="CONSTANTS\n  Producers = \n")
    verdict = check(garbled, tlc, limit_seconds=LIMIT)
    assert verdict.objection(HOLDS, garbled.invariants) is not None
    assert verdict.objection(REFUTED, garbled.invariants) is not None
