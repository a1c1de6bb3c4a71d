"""The page about pitfalls names every pitfall, and for each of them tests that are there."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
TESTS = ROOT / "tests" / "operator"
PAGE = (ROOT / "docs" / "pitfalls.md").read_text(encoding="utf-8")
LINK = re.compile(r"\]\(\.\./([^)]+)\)(?: \(`(\w+)`\))?")
ROWS = {int(found[1]): found[0] for found in re.finditer(r"^\| P(\d\d) \|.*$", PAGE, re.M)}


def files_of(number: int) -> set[Path]:
    """Return the test files of a pitfall: by their name, or by that of a test in them."""
    mark = f"test_p{number:02d}_"
    files = TESTS.rglob("test_*.py")
    return {
        path
        for path in files
        if path.name.startswith(mark) or f"def {mark}" in path.read_text(encoding="utf-8")
    }


@pytest.mark.parametrize("number", range(1, 49))
def test_a_pitfall_is_on_the_page_with_tests_of_it(number: int):
    linked = {ROOT / path: name for path, name in LINK.findall(ROWS[number])}
    own = files_of(number)
    assert own & linked.keys(), "a promise without a test"
    for path in linked.keys() - own:
        assert f"def {linked[path]}(" in path.read_text(encoding="utf-8")


def test_the_page_has_no_other_rows():
    assert sorted(ROWS) == list(range(1, 49))
