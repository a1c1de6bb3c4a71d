"""The objects of a Queue are the reviewed ones, and an upgrade of the operator changes none."""

import json

import pytest

from support.planning.golden import FOLDER, HASHES, hashes, objects, text_of

AGAIN = "run `python -m support.planning.golden` in tests, and read the difference"


@pytest.mark.parametrize("name", sorted(objects()))
def test_an_object_is_as_reviewed(name):
    golden = (FOLDER / f"{name}.json").read_text(encoding="utf-8")
    assert text_of(objects()[name]) == golden, AGAIN


def test_no_golden_file_is_left_over():
    names = {path.stem for path in FOLDER.glob("*.json")} - {HASHES.stem}
    assert names == set(objects())


def test_stored_hashes_are_those_of_earlier_releases():
    assert hashes() == json.loads(HASHES.read_text(encoding="utf-8")), (
        "every worker of every user would be restarted, or every migration run again; " + AGAIN
    )
