"""The lock is complete, portable, and known to be stale when it is."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def test_the_lock_names_no_address() -> None:
    assert "://" not in (ROOT / "requirements.lock").read_text()


def test_every_locked_version_has_a_hash() -> None:
    text = (ROOT / "requirements.lock").read_text().replace("\\\n", " ")
    pins = [line for line in text.splitlines() if line and not line.startswith("#")]
    assert len(pins) > 50
    assert [pin for pin in pins if not re.match(r"[\w.-]+==\S+ .*--hash=sha256:", pin)] == []


def test_the_lock_leaves_the_members_to_the_workspace() -> None:
    assert re.findall(r"^awa-.*", (ROOT / "requirements.lock").read_text(), re.MULTILINE) == []


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    """A copy of what the lock depends on."""
    for name in ("requirements.lock", "pyproject.toml"):
        shutil.copy(ROOT / name, tmp_path)
    for member in ("migrations", "worker", "operator"):
        (tmp_path / member).mkdir()
        shutil.copy(ROOT / member / "pyproject.toml", tmp_path / member)
    (tmp_path / "tools").mkdir()
    for name in ("lock", "requirements.py"):
        shutil.copy(ROOT / "tools" / name, tmp_path / "tools")
    (tmp_path / ".venv").symlink_to(ROOT / ".venv")
    return tmp_path


def check(workspace: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [workspace / "tools" / "lock", "--check"], capture_output=True, text=True, check=False
    )


def test_a_lock_that_answers_the_question_is_fresh(workspace: Path) -> None:
    assert check(workspace).returncode == 0


def test_a_new_dependency_makes_the_lock_stale(workspace: Path) -> None:
    project = workspace / "worker" / "pyproject.toml"
    project.write_text(project.read_text().replace("dependencies = [", 'dependencies = ["x>=1",'))
    stale = check(workspace)
    assert stale.returncode == 1
    assert "make lock" in stale.stderr
