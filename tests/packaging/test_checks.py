"""The checks of our own notice what they are for."""

import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

type Check = Callable[[str], list[str]]


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A repository with nothing but the checks."""
    subprocess.run(["git", "init", "--quiet", tmp_path], check=True)
    (tmp_path / "tools").mkdir()
    for path in (ROOT / "tools").glob("*.py"):
        shutil.copy(path, tmp_path / "tools")
    return tmp_path


@pytest.fixture
def check(repository: Path) -> Check:
    """Run a check and return its findings; its exit code agrees with them."""

    def run(name: str) -> list[str]:
        done = subprocess.run(
            [sys.executable, repository / "tools" / name],
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert done.stderr == ""
        assert done.returncode == bool(done.stdout)
        return done.stdout.splitlines()

    return run


def function(lines: int) -> str:
    return "def f():\n    '''A docstring,\n    not counted.'''\n" + "    x = 1\n" * lines


def sql_function(lines: int) -> str:
    body = "  perform 1;\n\n" * lines
    return f"create or replace function {{schema}}.f() as $body$\n{body}$body$ language plpgsql;\n"


@pytest.mark.parametrize(
    ("name", "fits", "too_long"),
    [
        ("awa/m.py", "x = 1\n" * 600, "x = 1\n" * 601),
        ("tests/test_m.py", "x = 1\n" * 800, "x = 1\n" * 801),
        ("awa/f.py", function(60), function(61)),
        ("sql/f.sql", sql_function(150), sql_function(151)),
        ("q.sql", "-- name: q\n" + "s\n\n" * 80, "-- name: q\n" + "s\n" * 81),
    ],
)
def test_what_is_too_long_is_found(
    repository: Path, check: Check, name: str, fits: str, too_long: str
) -> None:
    path = repository / name
    path.parent.mkdir(exist_ok=True)
    path.write_text(fits)
    assert check("check_sizes.py") == []
    path.write_text(too_long)
    (finding,) = check("check_sizes.py")
    assert finding.startswith(f"{name}: ")


@pytest.mark.parametrize(
    "line",
    [
        "see /work" + "/x",
        "see /root" + "/x",
        "https://pypi" + ".org/simple",
        "-----BEGIN RSA " + "PRIVATE KEY-----",
        "<" * 7 + " HEAD",
        "blank at the end ",
    ],
)
def test_content_that_does_not_belong_here_is_found(
    repository: Path, check: Check, line: str
) -> None:
    assert check("check_content.py") == []
    (repository / "notes.md").write_text(f"fine\n{line}\n")
    (finding,) = check("check_content.py")
    assert finding.startswith("notes.md:2: ")


def test_a_large_file_is_found(repository: Path, check: Check) -> None:
    (repository / "large.bin").write_bytes(b"\0" * (512 * 1024 + 1))
    (finding,) = check("check_content.py")
    assert finding.startswith("large.bin: ")


def test_ignored_files_are_not_looked_at(repository: Path, check: Check) -> None:
    (repository / ".gitignore").write_text("mine\n")
    (repository / "mine").write_text("/work" + "/x\n")
    assert check("check_content.py") == []
