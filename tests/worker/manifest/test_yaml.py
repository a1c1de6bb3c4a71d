"""What is YAML and what is not, for a manifest."""

import pytest

from awa.manifest import ManifestError, load_queue, load_queues
from awa.manifest.document import MAX_CHARACTERS, MAX_DEPTH, MAX_VALUES, read_documents

QUEUE = """\
apiVersion: awa.dev/v1alpha1
kind: Queue
metadata:
  name: {name}
spec:
  database: {{connectionSecretRef: {{name: app-db}}}}
  worker: {{image: app}}
  migration: {{mode: External}}
"""


def refused(text):
    with pytest.raises(ManifestError) as caught:
        load_queue(text)
    return str(caught.value)


def test_a_key_that_stands_twice_is_refused():
    text = QUEUE.format(name="email") + "  suspend: true\n  suspend: false\n"
    assert refused(text).endswith("manifest:10: has the key 'suspend' twice, first on line 9")


def test_aliases_are_read():
    text = QUEUE.format(name="email").replace("image: app", "image: &app app, command: [*app]")
    assert load_queue(text).spec.worker.command == ("app",)


def test_a_document_that_grows_through_aliases_is_refused():
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 9)]
    assert f"expands to more than {MAX_VALUES} values" in refused("\n".join(lines))


def test_aliases_cannot_grow_across_documents_either():
    one = "a: &a [" + ", ".join(["x"] * 1000) + "]\nb: [" + ", ".join(["*a"] * 15) + "]\n"
    assert "expands to more than" in refused("---\n".join([one, one]))


def test_a_value_that_contains_itself_is_refused():
    assert "contains itself through an alias" in refused("a: &a\n  b: *a\n")


def test_an_alias_without_an_anchor_is_refused():
    assert "found undefined alias" in refused("a:\n  b: *nobody\n")


@pytest.mark.parametrize(
    "value", ["!!python/object/apply:os.system [ls]", "!!int '5'", "!secret x", "!!map {}"]
)
def test_tags_are_refused(value):
    assert "manifest:2: has a tag (a word that starts with '!')" in refused(
        f"kind: x\na: {value}\n"
    )


def test_merge_keys_are_refused():
    assert "uses the merge key '<<'" in refused("a: &a {x: y}\nb:\n  <<: *a\n")


def test_a_quoted_merge_key_is_a_text():
    [document] = read_documents('a: {"<<": x}')
    assert document.value == {"a": {"<<": "x"}}


@pytest.mark.parametrize("key", ["1", "true", "~", "1.5"])
def test_keys_that_are_no_texts_are_refused(key):
    assert f"has a key that is not a text; write '{key}' in quotes" in refused(f"a: b\n{key}: x\n")


def test_an_object_as_a_key_is_refused():
    assert "has a key that is not a text" in refused("a: b\n? {x: y}\n: z\n")


def test_a_tab_is_refused_in_words():
    assert "is indented with a tab; YAML wants spaces" in refused("spec:\n\tworker: x\n")


def test_a_missing_quote_is_told_with_its_line():
    assert "manifest:2: is not valid YAML" in refused("a: b\nc: d: e\n")


def test_control_characters_are_refused():
    assert "contains a character that YAML does not allow" in refused("a: \x00\nb: c\n")


def test_depth_has_a_limit():
    text = "a:\n  " + "[" * (MAX_DEPTH + 1) + "]" * (MAX_DEPTH + 1) + "\n"
    assert f"is nested deeper than {MAX_DEPTH} levels" in refused(text)
    deep = "[" * 100_000
    assert "is nested deeper" in refused(f"a:\n  {deep}\n")


def test_size_has_a_limit():
    assert "a manifest has at most" in refused("#\n" + "x" * MAX_CHARACTERS)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("yes", "yes"),
        ("on", "on"),
        ("no", "no"),
        ("true", True),
        ("False", False),
        ("null", None),
        ("None", "None"),
        ("~", None),
        ("", None),
        ("010", 10),
        ("0o10", 8),
        ("0x1F", 31),
        ("-5", -5),
        ("+5", 5),
        ("1:30", "1:30"),
        ("1_000", "1_000"),
        ("2026-01-01", "2026-01-01"),
        ("1.5", 1.5),
        ("1e3", 1000.0),
        (".5", 0.5),
        (".inf", ".inf"),
        ("=", "="),
        ("25%", "25%"),
        ("100m", "100m"),
        ("'5'", "5"),
        ('"true"', "true"),
    ],
)
def test_scalars_mean_what_they_mean_today(text, value):
    [document] = read_documents(f"a: {text}\n")
    assert document.value == {"a": value}
    assert type(document.value["a"]) is type(value)


def test_a_number_of_ten_thousand_digits_is_refused():
    assert "too many digits" in refused(f"a: b\nc: {'9' * 10_000}\n")


def test_every_value_knows_its_line():
    [document] = read_documents("a:\n  b: [x,\n    y]\n  c:\n    - d: 1\n")
    assert document.line_of(("a", "b", 1)) == 3
    assert document.line_of(("a", "c", 0, "d")) == 5
    assert document.line_of(("a", "c", 0, "nowhere", 3)) == 5
    assert document.line_of(("nowhere",)) == 1


@pytest.mark.parametrize("text", ["\n", "# nothing\n", "---\n---\n", "null\n"])
def test_an_empty_file_is_refused(text):
    assert "is empty; there is no Queue; it starts with apiVersion:" in refused(text)


def test_a_text_that_is_no_object_is_refused():
    assert "manifest:1: is not an object with fields" in refused("- a\n- b\n")


def test_a_file_of_another_kind_is_refused():
    text = "apiVersion: v1\nkind: Secret\n"
    assert "there is no Queue" in refused(text)
    assert "this is Secret of v1" in refused(text)


def test_a_queue_of_another_group_is_not_ours():
    text = "apiVersion: rabbitmq.com/v1beta1\nkind: Queue\n"
    assert "this is Queue of rabbitmq.com/v1beta1" in refused(text)


@pytest.mark.parametrize("line", ["apiVersion: awa.dev/v1alpha1\n", "kind: Queue\n"])
def test_a_forgotten_first_line_is_named(line):
    text = QUEUE.format(name="email").replace(line, "")
    assert f"{line.partition(':')[0]}: is missing" in refused(text)


def test_another_version_of_ours_is_refused_as_such():
    text = QUEUE.format(name="email").replace("v1alpha1", "v9")
    assert refused(text).endswith("manifest:1: apiVersion: must be awa.dev/v1alpha1")


def test_documents_of_other_kinds_are_passed_over():
    other = "apiVersion: v1\nkind: Secret\nmetadata: {name: x}\ndata: {<<: y}\n"
    other = other.replace("{<<: y}", "{url: eA==}")
    text = "---\n".join([other, QUEUE.format(name="email"), "", other])
    assert load_queue(text).metadata.name == "email"


def test_several_queues_are_read_in_order():
    text = "---\n".join(QUEUE.format(name=name) for name in ("b", "a"))
    assert [queue.metadata.name for queue in load_queues(text)] == ["b", "a"]
    assert load_queue(text, name="a").metadata.name == "a"


def test_one_of_several_queues_must_be_named():
    text = "---\n".join(QUEUE.format(name=name) for name in ("b", "a"))
    assert refused(text).endswith("has several Queues (b, a); name one of them")
    with pytest.raises(ManifestError, match="has no Queue c; it has b, a"):
        load_queue(text, name="c")


def test_two_queues_of_one_name_are_refused():
    text = "---\n".join(QUEUE.format(name="a") for _ in range(2))
    assert refused(text).endswith("manifest:13: metadata.name: is that of a Queue above")


def test_problems_of_all_documents_are_told_together():
    text = "---\n".join(QUEUE.format(name=name) + "  suspend: 1\n" for name in ("a", "b"))
    assert refused(text).splitlines() == [
        "manifest cannot be used, 2 problems:",
        "  manifest:9: spec.suspend: must be true or false, not a number",
        "  manifest:19: spec.suspend: must be true or false, not a number",
    ]
