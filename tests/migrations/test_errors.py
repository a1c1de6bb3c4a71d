"""The error tree is complete: documented, raised somewhere, classified for Jobs."""

import inspect
import re
from pathlib import Path

import pytest

import awa_migrations
from awa_migrations import ExitCode, MigrationsError, errors

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "operations" / "migrations.md").read_text(encoding="utf-8")
FAMILIES = {"MigrationsError", "UsageError", "PermanentError", "SchemaError", "TryAgainError"}
CLASSES = [
    found
    for _, found in inspect.getmembers(errors, inspect.isclass)
    if issubclass(found, MigrationsError)
]


@pytest.mark.parametrize("error", CLASSES, ids=lambda error: error.__name__)
def test_every_error_is_public_drawn_and_documented(error: type[MigrationsError]) -> None:
    assert error.__name__ in awa_migrations.__all__
    assert error.__doc__
    assert re.search(rf"\b{error.__name__}\b", errors.__doc__ or "")
    assert f"`{error.__name__}`" in PAGE


@pytest.mark.parametrize("error", CLASSES, ids=lambda error: error.__name__)
def test_every_error_but_the_families_is_raised_somewhere(error: type[MigrationsError]) -> None:
    package = Path(inspect.getfile(awa_migrations)).parent
    sources = [path for path in package.glob("*.py") if path.name != "errors.py"]
    made = re.compile(rf"(?:raise|return|lambda.*:|=) ?{error.__name__}\b")
    is_raised = any(made.search(path.read_text(encoding="utf-8")) for path in sources)

    assert is_raised or error.__name__ in FAMILIES


@pytest.mark.parametrize("code", list(ExitCode))
def test_every_exit_code_is_documented(code: ExitCode) -> None:
    assert re.search(rf"^\| {int(code)} \|", PAGE, re.MULTILINE)
