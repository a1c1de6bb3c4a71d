"""What the README and the first guide tell a newcomer to type works as it stands there."""

import json
import re
import shlex
import subprocess
from pathlib import Path

from acceptance.commands import LIMIT, awa
from support.waiting import eventually_sync

ROOT = Path(__file__).resolve().parents[2]
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def blocks(page: str, language: str) -> list[str]:
    text = (ROOT / page).read_text(encoding="utf-8")
    return [found[2] for found in BLOCK.finditer(text) if found[1] == language]


def said_by(folder: Path, *words: str) -> str:
    done = subprocess.run(
        awa(*words), cwd=folder, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_commands_of_the_readme_are_those_of_the_makefile():
    commands = [
        line.split("#")[0].split() for line in blocks("README.md", "console")[0].splitlines()
    ]
    assert commands == [["make", "demo"], ["make", "test"]]
    recipe = subprocess.run(
        ["make", "--dry-run", "--no-print-directory", "demo"],
        cwd=ROOT, capture_output=True, text=True, check=True,
    ).stdout  # fmt: skip
    assert recipe.splitlines()[-1].strip() == ".venv/bin/awa demo"


def test_the_example_of_the_readme_registers_its_handler(workplace):
    (source,) = blocks("README.md", "python")
    names: dict[str, object] = {"__name__": "emails"}
    exec(compile(source, "README.md", "exec"), names)  # noqa: S102 - a page of ours
    assert names["client"].registry.kinds == ("send_email",)


def test_the_demo_ends_with_every_image_accounted_for_twice_over(workplace, nothing_left):
    for run in (1, 2):
        done = subprocess.run(
            awa("demo", "--jobs", "60", "--dir", str(workplace / ".awa")),
            cwd=ROOT, capture_output=True, text=True, timeout=300, check=False,
        )  # fmt: skip
        assert done.returncode == 0, (run, done.stdout, done.stderr)
        found = re.search(r"(\d+) completed, (\d+) failed of (\d+) jobs", done.stdout)
        assert found is not None, done.stdout
        completed, failed, jobs = map(int, found.groups())
        assert (completed + failed, jobs) == (60, 60)
        assert failed > 0
        assert done.stdout.count("damaged image: ") == failed
        nothing_left()


def test_the_first_guide_works_as_it_is_written(start, workplace):
    folder = workplace / "words"
    folder.mkdir(mode=0o755)
    (handlers,) = blocks("docs/guides/first-job.md", "python")
    (manifest,) = blocks("docs/guides/first-job.md", "yaml")
    (folder / "handlers.py").write_text(handlers)
    (folder / "queue.yaml").write_text(manifest)
    run, looks = blocks("docs/guides/first-job.md", "console")
    assert run.split() == ["awa", "up"]
    start("up", folder=folder).until_said("look, in another terminal")
    enqueue, *others = [shlex.split(line)[1:] for line in looks.splitlines()]
    said_by(folder, *enqueue)

    def completed() -> list[dict[str, object]]:
        jobs: list[dict[str, object]] = json.loads(
            said_by(folder, "job", "list", "--state", "completed", "--json")
        )
        return jobs

    (job,) = eventually_sync(completed, LIMIT, what="the job to complete")
    for words in others:
        said_by(folder, *words)
    shown = json.loads(said_by(folder, "job", "show", str(job["id"]), "--json"))
    assert shown["output"] == {"words": 6, "longest": "not"}
