import re
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import pytest
from correctness.check import HOLDS, REFUTED, Configuration, check, configurations, find_tlc

# Seconds; an idle machine needs a tenth.
LIMIT = 900

# States that each configuration which holds must have at least: a model in which nothing happens
# any more holds as well, and has a few hundred at most.
LEAST_STATES = {"AwaJobOutput": 10_000, "ClaimProtocol": 50_000, "MigrationGate": 3_000}

pytestmark = [pytest.mark.slow, pytest.mark.timeout(LIMIT + 60)]


def of(kind: str, model: str) -> list[Configuration]:
    return [c for c in configurations(kind) if c.model.stem == model]


def named(configuration: Configuration) -> str:
    return f"{configuration.model.stem}-{configuration.name}"


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


def promises(model: str) -> list[str]:
    return sorted({name for c in of(HOLDS, model) for name in c.invariants})


def healed(model: str) -> Iterable[Configuration]:
    """Yield the refuted ones without their mistakes, each of the same bounds only once.

    What is among those that hold anyway is not explored twice.
    """
    known = {without_comments(c.text) for c in of(HOLDS, model)}
    for refuted in of(REFUTED, model):
        configuration = with_invariants(with_wrong(refuted, "none"), promises(model))
        if without_comments(configuration.text) not in known:
            known.add(without_comments(configuration.text))
            yield configuration


MODELS = sorted({c.model.stem for c in configurations(HOLDS, REFUTED)})
[A_MISTAKE] = [c for c in of(REFUTED, "ClaimProtocol") if c.name == "bound_is_xmax"]

each_model = pytest.mark.parametrize("model", MODELS)


@pytest.fixture(scope="session")
def tlc() -> Path:
    return find_tlc()


@pytest.mark.parametrize("configuration", [*configurations(HOLDS)], ids=named)
def test_tlc_finds_no_way_to_break_the_protocol(configuration, tlc):
    verdict = check(configuration, tlc, limit_seconds=LIMIT)
    assert verdict.objection(HOLDS, configuration.invariants) is None
    assert verdict.states > LEAST_STATES[configuration.model.stem]


@pytest.mark.parametrize("configuration", [*configurations(REFUTED)], ids=named)
def test_tlc_refutes_each_mistake_by_the_invariant_it_names(configuration, tlc):
    verdict = check(configuration, tlc, limit_seconds=LIMIT)
    assert verdict.objection(REFUTED, configuration.invariants) is None


@pytest.mark.parametrize("configuration", [c for model in MODELS for c in healed(model)], ids=named)
def test_the_mistake_alone_is_what_breaks_a_refuted_configuration(configuration, tlc):
    verdict = check(configuration, tlc, limit_seconds=LIMIT)
    assert verdict.objection(HOLDS, configuration.invariants) is None


@each_model
def test_every_mistake_in_the_model_has_a_configuration_of_its_name(model):
    refuted, holds = of(REFUTED, model), of(HOLDS, model)
    in_model = set(re.findall(r'Wrong [=#] "(\w+)"', holds[0].model.read_text()))
    assert {mistake_of(c): c.name for c in refuted} == {c.name: c.name for c in refuted}
    assert in_model == {mistake_of(c) for c in refuted + holds} - {"none"}


@each_model
def test_every_promise_is_broken_by_some_mistake(model):
    assert {name for c in of(REFUTED, model) for name in c.invariants} == set(promises(model))
    assert all(sorted(c.invariants) == promises(model) for c in of(HOLDS, model))


def test_a_mistake_that_leaves_the_named_invariant_whole_is_objected_to(tlc):
    unbroken = with_invariants(A_MISTAKE, ["ClaimedOnce"])
    verdict = check(unbroken, tlc, limit_seconds=LIMIT)
    assert verdict.broken is None
    objection = verdict.objection(REFUTED, unbroken.invariants)
    assert objection is not None
    assert objection.startswith("expected ClaimedOnce broken, found exit code 0")


def test_a_mistake_among_what_should_hold_is_objected_to(tlc):
    verdict = check(A_MISTAKE, tlc, limit_seconds=LIMIT)
    objection = verdict.objection(HOLDS, A_MISTAKE.invariants)
    assert objection is not None
    assert objection.startswith("expected no error, found NothingLost broken")


@each_model
def test_a_configuration_that_tlc_cannot_read_is_objected_to_as_either_kind(model, tlc):
    garbled = replace(of(HOLDS, model)[0], text="CONSTANTS\n  Operators = \n")
    verdict = check(garbled, tlc, limit_seconds=LIMIT)
    assert verdict.objection(HOLDS, garbled.invariants) is not None
    assert verdict.objection(REFUTED, garbled.invariants) is not None
