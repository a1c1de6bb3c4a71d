"""Models and planner can be imported without the rest of Awa, a driver or a cluster client."""

import ast
import sys
from pathlib import Path

import awa.manifest
import awa.scaling

FOLDERS = [Path(str(part.__file__)).parent for part in (awa.manifest, awa.scaling)]


def imported(file: Path) -> set[str]:
    names: set[str] = set()
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            names.add(node.module or "")
    return names


def test_manifest_and_scaling_import_nothing_else():
    allowed = ("awa.manifest", "awa.scaling", "pydantic", "pydantic_core", "yaml")
    for folder in FOLDERS:
        for file in folder.rglob("*.py"):
            for name in imported(file):
                is_standard = name.partition(".")[0] in sys.stdlib_module_names
                assert is_standard or name.startswith(allowed), f"{file.name} imports {name}"


def test_scaling_imports_the_standard_library_only():
    for file in FOLDERS[1].rglob("*.py"):
        for name in imported(file):
            is_standard = name.partition(".")[0] in sys.stdlib_module_names
            assert is_standard or name.startswith("awa.scaling"), f"{file.name} imports {name}"
