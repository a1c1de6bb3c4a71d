"""Values know nothing of the outside: no database, no network, no event loop, no environment."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import awa

FOLDER = Path(awa.__file__).parent
VALUES = {
    "decoding",
    "encoding",
    "errors",
    "job",
    "kind",
    "knobs",
    "limits",
    "options",
    "outcome",
    "output",
    "progress",
    "queue_settings",
    "registry",
    "retry",
    "running",
    "settings",
    "unique",
}
OUTSIDE = {
    "asyncio",
    "concurrent",
    "http",
    "io",
    "logging",
    "multiprocessing",
    "os",
    "pathlib",
    "selectors",
    "signal",
    "socket",
    "ssl",
    "subprocess",
    "sys",
    "urllib",
}
LIBRARIES = {"blake3", "orjson", "pydantic", "pydantic_core"}


def imports_of(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports are absolute"
            yield node.module or ""


@pytest.mark.parametrize("module", sorted(VALUES))
def test_a_value_module_imports_values_and_pure_libraries_only(module: str) -> None:
    for name in imports_of(FOLDER / f"{module}.py"):
        root, _, rest = name.partition(".")
        if name == "urllib.parse":  # taking an address apart opens no connection
            continue
        if root == "awa":
            assert rest in VALUES
        else:
            assert root not in OUTSIDE
            assert root in LIBRARIES or root in STANDARD


STANDARD = {
    "collections",
    "copy",
    "dataclasses",
    "datetime",
    "enum",
    "functools",
    "inspect",
    "linecache",
    "math",
    "re",
    "threading",
    "types",
    "typing",
}


@pytest.mark.parametrize("module", sorted(VALUES))
def test_importing_a_value_module_starts_nothing(module: str) -> None:
    tree = ast.parse((FOLDER / f"{module}.py").read_text())
    for statement in tree.body:
        assert not isinstance(statement, ast.With | ast.For | ast.While | ast.Try)
        if isinstance(statement, ast.Expr):
            constant = isinstance(statement.value, ast.Constant)
            assert constant or ast.unparse(statement) == "_SEALED.seal()"
