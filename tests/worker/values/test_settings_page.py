import subprocess
import sys
from pathlib import Path

TOOL = Path(__file__).parents[3] / "tools" / "settings_page.py"


def test_the_reference_of_settings_is_what_the_code_says() -> None:
    check = subprocess.run(
        [sys.executable, TOOL, "--check"], capture_output=True, text=True, check=False, timeout=60
    )
    assert check.returncode == 0, check.stdout + check.stderr
