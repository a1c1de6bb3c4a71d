"""The page of errors is complete and true."""

import inspect
import re
from pathlib import Path

import pytest

import awa
from awa import errors
from awa.errors import AwaError

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "reference" / "errors.md").read_text(encoding="utf-8")
ROWS = {
    cells[0].strip("` "): [cell.strip("` ") for cell in cells]
    for cells in (
        line.strip("|").split("|") for line in PAGE.splitlines() if line.startswith("| `")
    )
}
CLASSES = {
    name: cls
    for name, cls in inspect.getmembers(errors, inspect.isclass)
    if issubclass(cls, AwaError)
}
# Raised by applications, or the family of others; the last belongs to calls that are still to come.
NOT_RAISED_BY_ITSELF = {"TerminalError", "OutputError", "CallbackNotFound"}


def test_the_page_has_a_row_for_every_error_and_for_nothing_else() -> None:
    assert set(ROWS) == set(CLASSES)


@pytest.mark.parametrize("name", CLASSES)
def test_a_row_says_what_the_class_is(name: str) -> None:
    cls, said = CLASSES[name], ROWS[name][1]
    parents = {base.__name__ for base in cls.__bases__} - {"AwaError", "Exception"}
    assert said == ", ".join(sorted(parents))
    assert name in awa.__all__
    assert cls.__doc__
    assert ROWS[name][2]


@pytest.mark.parametrize("name", sorted(set(CLASSES) - NOT_RAISED_BY_ITSELF))
def test_every_error_is_raised_somewhere(name: str) -> None:
    package = Path(inspect.getfile(awa)).parent
    made = re.compile(rf"\b{name}\(|raise {name}\b")
    sources = [path for path in package.rglob("*.py") if path.name != "errors.py"]
    assert any(made.search(path.read_text(encoding="utf-8")) for path in sources)
