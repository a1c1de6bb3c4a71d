"""Set-up does nothing when nothing changed, and says what it lacks; the README's commands exist."""

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
INPUTS = (
    "VERSION", "requirements.lock", "migrations/pyproject.toml", "worker/pyproject.toml",
    "operator/pyproject.toml", "tools/setup",
)  # fmt: skip
PROGRAMS = ("bash", "cat", "cksum", "dirname", "env", "flock", "mkdir")


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A copy of what set-up looks at, without an environment."""
    checkout = tmp_path / "checkout"
    for name in INPUTS:
        (checkout / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, checkout / name)
    return checkout


@pytest.fixture
def bare_environment(tmp_path: Path) -> dict[str, str]:
    """A machine with a shell and no Python at all."""
    programs = tmp_path / "bin"
    programs.mkdir()
    for name in PROGRAMS:
        found = shutil.which(name)
        assert found, name
        (programs / name).symlink_to(found)
    return {"PATH": str(programs), "HOME": str(tmp_path)}


def set_up(checkout: Path, environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [checkout / "tools" / "setup"],
        env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip


def test_without_a_new_enough_python_it_says_so(
    checkout: Path, bare_environment: dict[str, str]
) -> None:
    ended = set_up(checkout, bare_environment)
    assert ended.returncode == 1
    assert "no Python 3.12 or newer found" in ended.stderr
    assert not (checkout / ".venv").exists()


def test_an_older_python_is_not_taken(checkout: Path, bare_environment: dict[str, str]) -> None:
    older = Path(bare_environment["PATH"]) / "python3"
    older.write_text("#!/usr/bin/env bash\nexit 1\n")
    older.chmod(0o755)
    assert "no Python 3.12" in set_up(checkout, bare_environment).stderr


def test_when_nothing_changed_it_does_nothing(
    checkout: Path, bare_environment: dict[str, str]
) -> None:
    content = b"".join((checkout / name).read_bytes() for name in INPUTS)
    stamp = subprocess.run(["cksum"], input=content, capture_output=True, check=True).stdout
    (checkout / ".venv").mkdir()
    (checkout / ".venv" / ".awa-setup").write_bytes(stamp)
    ended = set_up(checkout, bare_environment)
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "", "")
    (checkout / "VERSION").write_text("9.9.9\n")
    assert set_up(checkout, bare_environment).returncode == 1


@pytest.mark.parametrize("document", ["README.md", "CONTRIBUTING.md"])
def test_the_make_commands_of_a_document_exist(document: str) -> None:
    targets = re.findall(r"^\s*make ([\w-]+)", (ROOT / document).read_text(), re.MULTILINE)
    assert "test" in targets
    for target in targets:
        planned = ["make", "--dry-run", "--no-print-directory", target]
        subprocess.run(planned, cwd=ROOT, check=True, capture_output=True)


def test_continuous_integration_runs_the_test_command_of_the_readme() -> None:
    script = ROOT / ".ci" / "run"
    assert os.access(script, os.X_OK)
    assert script.read_text().splitlines()[-1] == "exec make --no-print-directory test"
