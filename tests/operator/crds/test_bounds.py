"""The API server takes and refuses the same values as the models do: each bound from both sides."""

import pytest

from worker.manifest.test_bounds import (
    BOOLEANS,
    ENUMERATIONS,
    INTEGERS,
    NEEDS,
    NO_POLICIES,
    POLICIES,
    TEXTS,
)

# The API server drops an empty entry of an object or list before it looks.
DROPPED = ("worker.command", [None])


@pytest.mark.parametrize("path", INTEGERS)
async def test_the_last_integers_within_bounds_are_taken(attempt, path):
    for value in INTEGERS[path]:
        assert await attempt({**NEEDS.get(path, {}), f"spec.{path}": value}) == ""


@pytest.mark.parametrize("path", INTEGERS)
async def test_the_first_integers_outside_bounds_are_refused(attempt, path):
    least, most = INTEGERS[path]
    for value in (least - 1, most + 1):
        said = await attempt({**NEEDS.get(path, {}), f"spec.{path}": value})
        # A bound that depends on another field may be told at that one.
        assert f"spec.{path.rpartition('.')[0]}" in said, value


@pytest.mark.parametrize("path", INTEGERS)
@pytest.mark.parametrize("value", [True, "1", 1.5, [], {}])
async def test_only_whole_numbers_are_integers(attempt, path, value):
    assert f"spec.{path}: Invalid value" in await attempt({f"spec.{path}": value})


@pytest.mark.parametrize("path", BOOLEANS)
async def test_only_true_and_false_are_booleans(attempt, path):
    for value in (True, False):
        assert await attempt({f"spec.{path}": value}) == ""
    for value in (1, 0, "true", "yes", []):
        assert f"spec.{path}: Invalid value" in await attempt({f"spec.{path}": value})


@pytest.mark.parametrize("path", ENUMERATIONS)
async def test_only_the_words_of_an_enumeration_are_taken(attempt, path):
    for value in ENUMERATIONS[path]:
        assert await attempt({f"spec.{path}": value}) == ""
        for wrong in (value.lower(), "Sometimes"):
            assert f"spec.{path}: Unsupported value" in await attempt({f"spec.{path}": wrong})


@pytest.mark.parametrize("path", TEXTS)
async def test_values_of_the_right_shape_are_taken(attempt, path):
    for value in TEXTS[path][0]:
        assert await attempt({f"spec.{path}": value}) == "", value


@pytest.mark.parametrize("path", TEXTS)
async def test_values_of_another_shape_are_refused(attempt, path):
    for value in TEXTS[path][1]:
        if (path, value) != DROPPED:
            assert f"spec.{path}" in await attempt({f"spec.{path}": value}), value


@pytest.mark.parametrize("direction", ["scaleUp", "scaleDown"])
async def test_policies_have_bounds(attempt, direction):
    path = f"spec.scaling.behavior.{direction}.policies"
    for policies in POLICIES:
        assert await attempt({path: policies}) == ""
    for policies in NO_POLICIES:
        assert path in await attempt({path: policies}), policies


@pytest.mark.parametrize("field", ["database", "worker"])
async def test_what_is_needed_is_asked_for(attempt, field):
    assert f"spec.{field}" in await attempt({f"spec.{field}": {}})


@pytest.mark.parametrize(
    ("path", "names", "taken"),
    [
        ("worker.podLabels", 1, True),
        ("worker.podLabels", 317, True),
        ("worker.podLabels", 318, False),
        ("worker.podAnnotations", 0, False),
        ("worker.nodeSelector", 0, False),
        ("worker.resources.limits", 253, True),
        ("worker.resources.limits", 254, False),
        ("migration.resources.requests", 0, False),
    ],
)
async def test_names_of_entries_have_a_length(attempt, path, names, taken):
    said = await attempt({f"spec.{path}": {"a" * names: "1"}})
    assert (said == "") is taken
    assert taken or f"spec.{path}: Invalid value" in said


@pytest.mark.parametrize("field", ["podLabels", "podAnnotations", "nodeSelector"])
async def test_maps_have_at_most_64_entries(attempt, field):
    def entries(count: int) -> dict[str, str]:
        return {f"k{n}": "v" for n in range(count)}

    assert await attempt({f"spec.worker.{field}": entries(64)}) == ""
    assert f"spec.worker.{field}: Too many" in await attempt({f"spec.worker.{field}": entries(65)})
