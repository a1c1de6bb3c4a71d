"""The page about the resource says what the models say."""

import subprocess
import sys
from pathlib import Path

import pytest

from awa.manifest import cel_rules, load_queue
from awa.manifest.__main__ import main
from awa.manifest.reference import render_reference
from awa.manifest.tree import walk

PAGE = Path(__file__).parents[3] / "docs" / "reference" / "queue.md"


def test_the_page_is_up_to_date():
    command = [sys.executable, "-m", "awa.manifest", "--check", str(PAGE)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@pytest.mark.parametrize("content", ["something else", None])
def test_a_page_that_differs_fails_the_check_and_is_left_alone(tmp_path, capsys, content):
    page = tmp_path / "queue.md"
    if content:
        page.write_text(content)
    assert main(["--check", str(page)]) == 1
    assert f"run: python -m awa.manifest {page}" in capsys.readouterr().err
    assert (page.read_text() if page.exists() else None) == content


def test_the_page_is_written(tmp_path):
    page = tmp_path / "queue.md"
    assert main([str(page)]) == 0
    assert page.read_text() == render_reference()
    assert main(["--check", str(page)]) == 0


def test_the_page_names_every_field_and_every_rule():
    page = render_reference()
    for path, field in walk():
        if path.startswith(("spec.", "status.")):
            assert f"`{field.name}`" in page
            assert field.help in page.replace("\\|", "|")
    for rule in cel_rules():
        assert rule.message in page


def test_every_field_of_spec_and_status_is_described():
    silent = [path for path, field in walk() if not field.help and not path.startswith("metadata")]
    assert silent == []


def test_the_example_of_the_page_is_a_manifest():
    example = render_reference().partition("```yaml\n")[2].partition("```")[0]
    assert load_queue(example).queue_name == "email"


def test_links_of_the_page_lead_somewhere():
    page = render_reference()
    anchors = {
        "".join(letter for letter in line.lower() if letter.isalpha())
        for line in page.splitlines()
        if line.startswith("### ")
    }
    links = {part.partition(")")[0] for part in page.split("](#")[1:]}
    assert links
    assert links <= anchors
