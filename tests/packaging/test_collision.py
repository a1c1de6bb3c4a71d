"""Awa refuses to start beside the distribution that installs another package named `awa`."""

import os
import subprocess
import sys
from pathlib import Path

import pytest


@pytest.fixture
def beside_awa_pg(tmp_path: Path) -> Path:
    """A folder for the module path in which awa-pg is installed, as far as metadata tells."""
    info = tmp_path / "awa_pg-0.5.1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: awa-pg\nVersion: 0.5.1\n")
    return tmp_path


def run_awa(*arguments: str, path: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "awa", *arguments],
        env={**os.environ, "PYTHONPATH": str(path)}, capture_output=True, text=True, check=False,
    )  # fmt: skip


def test_the_command_refuses_to_start_and_says_what_to_do(beside_awa_pg: Path) -> None:
    refused = run_awa("--version", path=beside_awa_pg)
    assert refused.returncode == 2
    assert refused.stdout == ""
    assert refused.stderr.startswith("awa-pg 0.5.1 and awa-worker both provide")
    assert "Uninstall both" in refused.stderr


def test_the_command_starts_without_it(tmp_path: Path) -> None:
    assert run_awa("--version", path=tmp_path).returncode == 0
