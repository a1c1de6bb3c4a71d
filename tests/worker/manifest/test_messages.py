"""Someone reads this at three in the morning and must know what to change."""

from pathlib import Path

import pytest
from pydantic import ValidationError

from awa.manifest import ManifestError, Problem, Queue, load_queue, parse_queue

HERE = Path(__file__).parent


def test_all_problems_are_told_at_once_with_line_path_and_remedy(monkeypatch):
    monkeypatch.chdir(HERE)
    with pytest.raises(ManifestError) as caught:
        load_queue("broken.yaml")
    assert f"{caught.value}\n" == (HERE / "broken.txt").read_text()


def test_a_problem_is_a_value(refusal):
    with pytest.raises(ManifestError) as caught:
        load_queue("kind: Queue\napiVersion: awa.dev/v2\nmetadata: {name: a}\nspec: {}\n")
    assert caught.value.source == "manifest"
    assert Problem("apiVersion", "must be awa.dev/v1alpha1", 2) in caught.value.problems


def test_one_problem_is_counted_as_one(manifest):
    with pytest.raises(ManifestError, match=r"^Queue cannot be used, 1 problem:\n"):
        parse_queue(manifest({"spec.replicas": -1}))


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        ("spec.replicas", -1, "must be at least 0, not -1"),
        ("spec.replicas", 1001, "must be at most 1000, not 1001"),
        ("spec.replicas", "3", "must be a whole number; remove the quotes"),
        ("spec.replicas", "three", "must be a whole number, not a text"),
        ("spec.replicas", 1.5, "must be a whole number, not a fraction"),
        ("spec.replicas", True, "must be a whole number, not true or false"),
        ("spec.replicas", [3], "must be a whole number, not a list"),
        ("spec.suspend", "yes", "must be true or false, without quotes; yes, no, on and off are "
         "texts"),
        ("spec.suspend", 1, "must be true or false, not a number"),
        ("spec.queueName", 5, "must be a text; put quotes around it"),
        ("spec.queueName", {}, "must be a text, not an object"),
        ("spec.queueName", "", "must not be empty"),
        ("spec.queueName", "x" * 201, "must have at most 200 characters"),
        ("spec.queueName", "a,b", "must consist of printable characters without a comma"),
        ("spec.worker.command", "a b", "must be a list, not a text; write [first, second] or lines "
         "that start with '- '"),
        ("spec.worker.command", {}, "must be a list, not an object"),
        ("spec.worker.command", ["a"] * 65, "must have at most 64 entries"),
        ("spec.scaling", "Native", "must be an object, not a text"),
        ("spec.scaling", None, "is empty; give it a value or remove the line"),
        ("spec.worker.nodeSelector", {"": "x"}, "the name of an entry must not be empty"),
        ("spec.networkPolicy", True, "must be an object with enabled, not true or false"),
        ("spec.rollout.maxSurge", "half", "must be a whole number from 0 to 1000, or a text such "
         "as 25%"),
        ("spec.scaling.mode", "native", "must be Fixed, Native or External; did you mean Native?"),
        ("spec.scaling.mode", "Off", "must be Fixed, Native or External"),
        ("spec.scaling.mode", 3, "must be Fixed, Native or External"),
        ("kind", "queue", "must be Queue"),
        ("spec.worker.env", [{"name": "A"}, {"name": "A"}], "sets A twice"),
        ("spec.migration.permanentExitCodes", [0], None),
    ],
)  # fmt: skip
def test_each_kind_of_mistake_has_its_words(refusal, path, value, message):
    problems = refusal({path: value})
    if message is None:
        assert problems == {f"{path}[0]": "must be at least 1, not 0"}
    else:
        assert problems == {path: message}


@pytest.mark.parametrize(
    ("drop", "message"),
    [
        ("worker", "is missing: what runs the handlers"),
        ("database", "is missing: the database that holds the queue"),
    ],
)
def test_what_is_missing_is_told_with_its_purpose(manifest, drop, message):
    made = manifest()
    del made["spec"][drop]
    with pytest.raises(ManifestError) as caught:
        parse_queue(made)
    assert caught.value.problems == (Problem(f"spec.{drop}", message),)


SECRET = "hunter2hunter2"


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("spec.worker.env", [{"name": "TOKEN", "value": [SECRET]}]),
        ("spec.worker.env", [{"name": "TOKEN", "value": SECRET * 5000}]),
        ("spec.worker.env", [{"name": "TOKEN", "valueFrom": SECRET}]),
        ("spec.worker.env", SECRET),
        ("spec.worker.concurrency", SECRET),
        ("spec.suspend", SECRET),
        ("spec.scaling.mode", SECRET),
        ("spec.queueName", f"{SECRET},"),
        ("spec.database.schema", SECRET.upper()),
        ("spec.rollout.maxSurge", SECRET),
        ("spec.worker.resources", {"limits": {"cpu": SECRET}}),
        ("spec.database.connectionSecretRef", f"postgresql://app:{SECRET}@db/app"),
        ("metadata.name", SECRET.upper()),
    ],
)
def test_a_message_never_repeats_a_text_of_the_manifest(manifest, path, value):
    with pytest.raises(ManifestError) as caught:
        parse_queue(manifest({path: value}))
    for shown in (str(caught.value), repr(caught.value), repr(caught.value.problems)):
        assert SECRET not in shown.lower()
    assert caught.value.__cause__ is None
    assert caught.value.__suppress_context__


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda place: place / "nowhere.yaml", "there is no such file"),
        (lambda place: place, "is a folder; name the file in it"),
    ],
)
def test_a_file_that_cannot_be_read_is_told_in_words(tmp_path, make, message):
    path = make(tmp_path)
    with pytest.raises(ManifestError) as caught:
        load_queue(path)
    assert str(caught.value) == f"{path} cannot be used, 1 problem:\n  {path}: {message}"


def test_a_file_that_is_no_text_is_told_in_words(tmp_path):
    file = tmp_path / "queue.yaml"
    file.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ManifestError, match="is not a text in UTF-8"):
        load_queue(file)


def test_a_path_that_cannot_be_one_is_told_in_words():
    with pytest.raises(ManifestError, match="is not the name of a file"):
        load_queue("queue\0.yaml")
    with pytest.raises(ManifestError, match="cannot be read: file name too long"):
        load_queue("q" * 5000)


def test_the_error_of_pydantic_does_not_show_values_either(manifest):
    env = [{"name": "TOKEN", "value": [SECRET]}]
    with pytest.raises(ValidationError) as caught:
        Queue.model_validate(manifest({"spec.worker.env": env}))
    assert SECRET not in str(caught.value)
