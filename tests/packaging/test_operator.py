"""The operator's distribution says that it contains no operator yet."""

import subprocess
import sys
from importlib.metadata import version


def test_starting_it_fails_with_an_explanation() -> None:
    started = subprocess.run(
        [sys.executable, "-m", "awa_operator"], capture_output=True, text=True, check=False
    )
    assert started.returncode == 2
    assert started.stdout == ""
    assert started.stderr.startswith(f"awa-operator {version('awa-operator')} contains no operator")
