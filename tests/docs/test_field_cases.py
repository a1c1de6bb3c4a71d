"""The map of field cases names tests that exist, and leaves none of them out."""

import ast
import re
from pathlib import Path

TESTS = Path(__file__).parents[1]
MAP = TESTS.parent / "docs" / "field-cases.md"
NAMED = re.compile(r"`([\w./…-]+?)(?:::(\w+))?`")


def names_in(path: str) -> set[str]:
    tree = ast.parse((TESTS / path).read_text())
    functions = (ast.FunctionDef, ast.AsyncFunctionDef)
    return {
        one.name for one in tree.body if isinstance(one, functions) and one.name.startswith("test_")
    }


def named() -> list[tuple[str, str]]:
    """Return file and test of each name in the map; a file alone has no test."""
    found, file = [], ""
    for path, test in NAMED.findall(MAP.read_text()):
        if path != "…":
            if not path.endswith(".py"):
                continue
            file = path
        found.append((file, test))
    return found


def test_what_the_map_names_is_there():
    missing = [(file, test) for file, test in named() if test and test not in names_in(file)]
    assert missing == []
    assert all((TESTS / file).is_file() for file, _ in named())


def test_every_field_case_that_has_a_test_is_in_the_map():
    there = {
        (f"field/{path.name}", test)
        for path in (TESTS / "field").glob("test_*.py")
        for test in names_in(f"field/{path.name}")
    }
    assert there - set(named()) == set()
