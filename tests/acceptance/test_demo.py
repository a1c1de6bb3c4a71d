"""The demo: from nothing to the table of outputs, twice, and looked at with its own commands."""

import hashlib
import json
import re
import shlex
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from acceptance.commands import LIMIT, awa
from support.run import Run

ROOT = Path(__file__).resolve().parents[2]
JOBS, DAMAGED = 300, 12


@pytest.fixture(scope="session")
def finished(test_run: Run) -> Path:
    """A folder in which the demo of the README has run, once in a test run."""

    def make() -> str:
        place = test_run.new_path("demo")
        place.mkdir()
        planned = subprocess.run(
            ["make", "--dry-run", "--no-print-directory", "demo"],
            cwd=ROOT, text=True, capture_output=True, check=True,
        )  # fmt: skip
        # The last command of the target; those before set up what is set up already.
        (words,) = [shlex.split(line) for line in planned.stdout.splitlines()[-1:]]
        program, *rest = words
        done = subprocess.run(
            [str(ROOT / program), *rest, "--dir", str(place / ".awa")],
            cwd=ROOT, text=True, capture_output=True, timeout=LIMIT.total_seconds() * 2,
            check=False,
        )  # fmt: skip
        (place / "output").write_text(done.stdout)
        assert (done.returncode, done.stderr) == (0, ""), done.stdout + done.stderr
        return str(place)

    return Path(test_run.once("demo", make))


@pytest.fixture
def output(finished: Path) -> str:
    """What the demo has printed."""
    return (finished / "output").read_text()


def lines_of(output: str, head: str) -> list[list[str]]:
    """Return the lines of a table, as words."""
    lines = output.splitlines()
    start = next(at for at, line in enumerate(lines) if re.match(head, line))
    end = lines.index("", start)
    return [line.split() for line in lines[start + 1 : end]]


def test_every_good_image_is_in_the_table_with_what_is_true_of_it(finished, output):
    rows = lines_of(output, r"FILE +FORMAT +WIDTH +HEIGHT +BYTES +DIGEST")
    assert len(rows) == JOBS - DAMAGED
    assert {row[1] for row in rows} == {"PNG", "JPEG", "GIF", "WEBP", "BMP", "TIFF"}
    for name, _, _, _, size, digest in rows:
        data = (finished / ".awa" / "demo" / "images" / name).read_bytes()
        assert (int(size.replace(",", "")), digest) == (
            len(data), hashlib.sha256(data).hexdigest()[:12],
        )  # fmt: skip


def test_every_damaged_image_is_there_with_its_error(output):
    rows = lines_of(output, r" +JOB +FILE +DAMAGE +ERROR")
    assert len(rows) == DAMAGED
    assert all("damaged image:" in " ".join(row) for row in rows)
    assert f"{JOBS - DAMAGED} completed, {DAMAGED} failed of {JOBS} jobs" in output


def test_progress_and_figures_are_printed(output):
    assert f"running jobs: {JOBS} of {JOBS}" in output
    assert re.search(r"COMMIT → START P50 +P99 +START → END P50 +P99", output)
    for name in ("the first, which wakes a worker", "one by one", "all at once"):
        (line,) = [line for line in output.splitlines() if line.startswith(name)]
        assert re.search(r"\d (ms|s) ", line + " ")
    assert re.search(r"all at once +\d+ +\d+ ", output)


def test_the_commands_that_it_prints_show_the_jobs(finished, output):
    said = output.partition("Look at them yourself:\n")[2].strip().splitlines()
    commands = [shlex.split(line, comments=True) for line in said]
    assert [command[1:3] for command in commands] == [
        ["queue", "list"], ["job", "show"], ["job", "list"], ["job", "show"], ["up", "-f"],
    ]  # fmt: skip

    def look(number: int) -> str:
        command = [str(ROOT / commands[number][0]), *commands[number][1:]]
        return subprocess.run(command, cwd=ROOT, text=True, capture_output=True, check=True).stdout

    assert "thumbnails" in look(0)
    assert '"digest"' in look(1)
    assert look(2).count("TerminalError: damaged image") >= DAMAGED
    assert "damaged image" in look(3)
    assert (ROOT / commands[4][3]).is_file()


def test_a_second_run_works_and_counts_for_itself(start, run, workplace, nothing_left):
    for expected in (24, 48):
        demo = start("demo", "--jobs", "24")
        assert demo.code() == 0
        assert "18 completed, 6 failed of 24 jobs" in demo.said
        nothing_left()
        (counts,) = json.loads(run("queue", "list", "--json").stdout)
        assert counts["completed"] + counts["failed"] == expected


def test_a_terminal_shows_a_progress_bar(start):
    demo = start("demo", "--jobs", "12", terminal=True)
    assert demo.code() == 0
    assert "making images" in demo.said
    assert re.search(r"running jobs .*━.*12/12", demo.said)
    assert "6 completed" in demo.said


def test_it_can_be_left_running(start, run, nothing_left):
    demo = start("demo", "--jobs", "8", "--keep-running").until_said("The workers go on")
    assert "Look at them yourself" in demo.said
    image = demo.folder / ".awa" / "demo" / "images" / "image-0006.png"
    said = run("enqueue", "thumbnail", json.dumps({"path": str(image)}), "--queue", "thumbnails",
               "--json")  # fmt: skip
    job = json.loads(said.stdout)["id"]
    demo.until(
        lambda: '"completed"' in run("job", "show", str(job), "--json").stdout, "another job runs"
    )
    demo.signal_group(signal.SIGINT)
    assert demo.code() == 0
    nothing_left()


def test_without_the_example_it_says_where_to_run_it(workplace, environ):
    for package in ("worker/awa", "migrations/awa_migrations"):
        subprocess.run(["cp", "-r", ROOT / package, workplace], check=True)
    done = subprocess.run(
        awa("demo"), cwd=workplace, env={**environ, "PYTHONPATH": str(workplace)}, text=True,
        capture_output=True, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (78, "")
    assert "go to its folder and run `make demo`" in done.stderr
    assert not (workplace / ".awa").exists()


@pytest.mark.parametrize("jobs", ["0", "10001", "many"])
def test_a_number_of_jobs_that_makes_no_sense_is_refused(
    run: Callable[..., "subprocess.CompletedProcess[str]"], jobs
):
    assert run("demo", "--jobs", jobs).returncode == 2
