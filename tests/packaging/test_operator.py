"""The operator's program says what is wrong with its settings before it does anything."""

import subprocess
import sys


def test_a_setting_that_cannot_be_used_ends_it_with_the_name_of_the_setting() -> None:
    started = subprocess.run(
        [sys.executable, "-m", "awa_operator"],
        env={"AWA_OPERATOR_HEALTH_PORT": "x"}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert started.returncode == 78
    assert started.stdout == ""
    assert started.stderr.startswith("awa-operator: AWA_OPERATOR_HEALTH_PORT")
