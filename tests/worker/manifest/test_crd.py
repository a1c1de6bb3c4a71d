"""The resource definition says what the models say, in the form that the API server wants."""

import copy
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from awa.manifest import cel_rules, load_queue, parse_queue
from awa.manifest.__main__ import main
from awa.manifest.crd import crd, missing_fields, render_crd
from awa.manifest.status import QueueStatus, short_image
from awa.manifest.tree import walk

ROOT = Path(__file__).parents[3]
COPIES = {
    "crds/queue.yaml": [],
    "charts/awa-crds/templates/queue.yaml": ["--keep"],
}
EXAMPLES = sorted((ROOT / "crds" / "examples").glob("*.yaml"))
# What a structural schema may contain, apart from extensions.
STRUCTURAL = {
    "description", "type", "format", "enum", "pattern", "minLength", "maxLength", "minimum",
    "maximum", "maxItems", "maxProperties", "properties", "required", "items",
    "additionalProperties", "default",
}  # fmt: skip


@pytest.fixture
def schema() -> dict[str, Any]:
    (version,) = crd()["spec"]["versions"]
    described: dict[str, Any] = version["schema"]["openAPIV3Schema"]
    return described


def within(schema: dict[str, Any], path: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield a schema and all within it, each with its path as the models write it."""
    yield path, schema
    for name, inner in schema.get("properties", {}).items():
        yield from within(inner, f"{path}.{name}".removeprefix("."))
    if isinstance(schema.get("items"), dict):
        yield from within(schema["items"], f"{path}[]")
    if isinstance(schema.get("additionalProperties"), dict):
        yield from within(schema["additionalProperties"], f"{path}{{}}")


def filled_in(value: Any, schema: dict[str, Any]) -> Any:
    """Fill in defaults as the API server does."""
    if isinstance(value, dict):
        value = copy.deepcopy(value)
        for name, inner in schema.get("properties", {}).items():
            if name not in value and "default" in inner:
                value[name] = copy.deepcopy(inner["default"])
            if name in value:
                value[name] = filled_in(value[name], inner)
    elif isinstance(value, list):
        value = [filled_in(item, schema.get("items", {})) for item in value]
    return value


@pytest.mark.parametrize("copy_of", COPIES)
def test_the_copies_are_up_to_date(copy_of, capsys):
    assert main(["--check", "--crd", str(ROOT / copy_of), *COPIES[copy_of]]) == 0
    assert capsys.readouterr() == ("", "")


def test_a_stale_copy_fails_the_check_and_says_what_to_run(tmp_path, capsys):
    stale = tmp_path / "queue.yaml"
    stale.write_text(render_crd())
    assert main(["--check", "--crd", "--keep", str(stale)]) == 1
    assert f"run: python -m awa.manifest --crd {stale} --keep" in capsys.readouterr().err
    assert stale.read_text() == render_crd()


def test_the_definition_is_printed_without_a_file(capsys):
    assert main(["--crd"]) == 0
    assert capsys.readouterr().out == render_crd()


def test_only_the_copy_of_the_chart_is_kept_when_helm_uninstalls():
    plain, chart = (yaml.safe_load((ROOT / copy_of).read_text()) for copy_of in COPIES)
    assert chart["metadata"].pop("annotations") == {"helm.sh/resource-policy": "keep"}
    assert plain == chart == crd()


def test_the_resource_is_found_by_names_that_nobody_else_uses():
    names = crd()["spec"]["names"]
    assert (names["shortNames"], names["categories"]) == (["jobq"], ["awa"])
    assert crd()["metadata"]["name"] == "queues.awa.dev"


def test_the_schema_is_structural_and_has_no_choice_of_types(schema):
    for path, inner in within(schema, ""):
        unknown = {key for key in inner if not key.startswith("x-kubernetes-")} - STRUCTURAL
        assert unknown == set(), path
        if "type" not in inner:
            assert inner["x-kubernetes-int-or-string"] is True, path
        assert not ("properties" in inner and "additionalProperties" in inner), path


def test_every_text_list_and_map_has_a_maximum(schema):
    open_ended = [
        path
        for path, inner in within(schema, "")
        if path.startswith(("spec", "status")) and not is_bounded(inner)
    ]
    assert open_ended == []


def is_bounded(schema: dict[str, Any]) -> bool:
    if schema.get("x-kubernetes-preserve-unknown-fields") or "enum" in schema:
        return True
    match schema.get("type", "string"):
        case "string":
            return "maxLength" in schema or schema.get("format") == "date-time"
        case "array":
            return "maxItems" in schema
        case "object":
            return "properties" in schema or "maxProperties" in schema
        case "integer":
            return "minimum" in schema
        case _:
            return True


def test_it_has_every_field_of_the_models_and_no_other(schema):
    served = {path for path, _ in within(schema, "") if path.startswith(("spec", "status"))}
    served = {path for path in served if not path.endswith(("[]", "{}"))}
    assert served == {path for path, _ in walk() if path.startswith(("spec", "status"))}


def test_every_field_is_explained(schema):
    silent = [
        path
        for path, inner in within(schema, "")
        if path.startswith(("spec", "status"))
        and not path.endswith(("[]", "{}"))
        and not inner.get("description")
    ]
    assert silent == []


def test_every_rule_stands_where_it_belongs_and_names_its_field(schema):
    by_path = {
        path: inner.get("x-kubernetes-validations", []) for path, inner in within(schema, "")
    }
    for rule in cel_rules():
        (found,) = [made for made in by_path[rule.path] if made["rule"] == rule.cel]
        assert found["fieldPath"] == rule.field_path
        assert rule.message.endswith(f" {found['message']}")
        kind = "FieldValueForbidden" if rule.is_transition else "FieldValueInvalid"
        assert found["reason"] == kind


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_defaults_are_those_of_the_models(schema, example):
    queue = load_queue(example)
    written = queue.to_manifest()
    stored = filled_in(written, schema)
    assert stored != written
    assert parse_queue(stored).spec == queue.spec


def test_the_default_of_an_object_is_complete(schema):
    """The API server checks the rules of a default without filling in anything."""
    objects = 0
    for path, inner in within(schema, ""):
        if inner.get("type") == "object" and "default" in inner:
            assert filled_in(inner["default"], inner) == inner["default"], path
            objects += 1
    assert objects > 8


def test_a_migration_has_to_be_given_and_the_refusal_says_what(schema):
    spec = schema["properties"]["spec"]
    assert "default" not in spec["properties"]["migration"]
    (rule,) = [
        one for one in spec["x-kubernetes-validations"] if one["rule"] == "has(self.migration)"
    ]
    assert rule["fieldPath"] == ".migration"
    assert rule["message"].startswith("command is needed in mode Job, for example [awa, migrate]")


def test_what_depends_on_another_field_is_not_written_into_the_resource(schema):
    spec = filled_in(load_queue(ROOT / "crds/examples/smallest.yaml").to_manifest(), schema)["spec"]
    assert "queueName" not in spec
    assert "replicas" not in spec
    assert "image" not in spec["migration"]
    assert "targetJobsPerReplica" not in spec["scaling"]
    assert "terminationGracePeriodSeconds" not in spec["worker"]
    assert set(spec["database"]) == {"connectionSecretRef", "schema"}


def test_a_queue_that_nobody_has_looked_at_is_not_taken_for_ready(schema):
    status = schema["properties"]["status"]
    defaults = [path for path, inner in within(status, "status") if "default" in inner]
    assert defaults == ["status"]
    (condition,) = parse_queue(unseen(schema)).status.conditions
    assert (condition.type, condition.status, condition.reason) == ("Ready", "Unknown", "Pending")
    assert condition.observed_generation == 0


def unseen(schema: dict[str, Any]) -> dict[str, Any]:
    """Return the smallest Queue as the API server returns it before anybody wrote a status."""
    written = load_queue(ROOT / "crds/examples/smallest.yaml").to_manifest()
    return filled_in(written, schema)


def test_columns_and_scale_lead_to_fields(schema):
    (version,) = crd()["spec"]["versions"]
    paths = {path for path, _ in within(schema, "")} | {"metadata.creationTimestamp"}
    asked = [column["jsonPath"] for column in version["additionalPrinterColumns"]]
    asked += version["subresources"]["scale"].values()
    for path in asked:
        assert re.sub(r"\[\?.*?\]", "[]", path).removeprefix(".") in paths


def test_a_served_schema_of_this_release_lacks_nothing(schema):
    assert missing_fields(schema) == []


def test_fields_that_an_older_definition_lacks_are_named(schema):
    spec = schema["properties"]["spec"]["properties"]
    del spec["worker"]["properties"]["env"]["items"]["properties"]["valueFrom"]
    del spec["podDisruptionBudget"]["properties"]["enabled"]
    lacks = missing_fields(schema)
    assert "spec.podDisruptionBudget.enabled" in lacks
    assert "spec.worker.env[].valueFrom" in lacks
    assert all(
        path.startswith(("spec.podDisruptionBudget.", "spec.worker.env[].")) for path in lacks
    )


def test_a_definition_without_a_status_lacks_all_of_it(schema):
    del schema["properties"]["status"]
    lacks = missing_fields(schema)
    assert lacks[0] == "status"
    assert set(lacks) == {path for path, _ in walk() if path.startswith("status")}


@pytest.mark.parametrize(
    ("image", "short"),
    [
        ("app", "app"),
        ("app:1.4", "app:1.4"),
        ("registry.example:5000/team/app:1.4", "app:1.4"),
        ("registry.example/app@sha256:" + "ab" * 32, "app@abababababab"),
        ("registry.example/app:1@sha256:" + "ab" * 32, "app:1@abababababab"),
        ("x" * 512, "x" * 96),
    ],
)
def test_images_are_short_enough_for_a_list(image, short):
    assert short_image(image) == short
    status = {"image": image, "shortImage": short}
    assert QueueStatus.model_validate(status).short_image == short
