"""One VERSION file; everything that states a version states that one."""

import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
VERSION = (ROOT / "VERSION").read_text().strip()


@pytest.mark.parametrize("distribution", ["awa-migrations", "awa-worker", "awa-operator"])
def test_every_distribution_has_the_version_of_the_file(distribution: str) -> None:
    assert version(distribution) == VERSION


def test_the_command_prints_the_version_of_the_file() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "awa", "--version"], capture_output=True, text=True, check=True
    )
    assert done.stdout == f"awa {VERSION}\n"
