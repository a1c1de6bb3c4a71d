import re
import subprocess
import sys
from pathlib import Path

from awa.cli.exits import ExitCode

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "reference" / "cli.md").read_text()
COMMANDS = {
    "up", "demo", "migrate", "worker", "enqueue", "job list", "job show", "job cancel",
    "job retry", "queue list", "queue pause", "queue resume",
}  # fmt: skip


def test_the_page_is_what_the_commands_say():
    done = subprocess.run(
        [sys.executable, ROOT / "tools" / "cli_page.py", "--check"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")


def test_every_command_has_a_section():
    assert set(re.findall(r"^## awa (.*)$", PAGE, re.MULTILINE)) == COMMANDS


def test_every_exit_code_is_told():
    told = re.findall(r"^\| (\d+) \| \S", PAGE, re.MULTILINE)
    assert [int(code) for code in told] == [int(code) for code in ExitCode]
