"""No name of ours hides another, and the public names are a decision."""

import operator
import subprocess
import sys
import sysconfig
from pathlib import Path

import awa

ROOT = Path(__file__).resolve().parents[2]
STANDARD_LIBRARY = Path(sysconfig.get_path("stdlib"))


def test_the_operator_folder_is_no_package():
    assert not (ROOT / "operator" / "__init__.py").exists()


def test_the_standard_operator_module_is_found():
    assert Path(operator.__file__).parent == STANDARD_LIBRARY


def test_the_standard_operator_module_is_found_with_the_root_on_the_path():
    asked = subprocess.run(
        [sys.executable, "-c", "import operator, collections; print(operator.__file__)"],
        cwd=ROOT, env={"PYTHONPATH": str(ROOT)}, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert Path(asked.stdout.strip()).parent == STANDARD_LIBRARY


def test_no_module_of_ours_is_named_like_a_top_level_standard_one():
    ours = {path.stem for path in (ROOT / "tests" / "support").glob("*.py")}
    ours |= {path.stem for path in (ROOT / "tools").glob("*.py")}
    assert ours & sys.stdlib_module_names == set()


def test_test_folders_are_no_packages_except_the_helpers():
    tests = ROOT / "tests"
    packages = {path.parent.relative_to(tests).parts[0] for path in tests.rglob("__init__.py")}
    assert packages == {"cluster", "support"}


def test_the_public_names_are_those_of_the_list():
    listed = (ROOT / "tests" / "packaging" / "public_names.txt").read_text().split()
    assert sorted(awa.__all__) == sorted(listed)
    assert [name for name in awa.__all__ if not hasattr(awa, name)] == []
