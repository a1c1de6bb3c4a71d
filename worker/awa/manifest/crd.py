"""The CustomResourceDefinition of the Queue resource, written from the models.

A structural schema: no references, no choices between types, every text, list and map with a
maximum, so that the cost of the rules is bounded. Defaults are those of the models, but for the
ones that depend on another field: those stay out of the stored resource.
"""

from collections.abc import Iterator, Mapping
from typing import Any

import yaml
from pydantic import BaseModel
from pydantic_core import to_jsonable_python

from awa.manifest.part import Part
from awa.manifest.queue import GROUP, KIND, VERSION, Queue
from awa.manifest.rules import cel_rules
from awa.manifest.status import ConditionType
from awa.manifest.tree import Field, fields_of, walk

type Schema = dict[str, Any]

PLURAL = "queues"
CRD_NAME = f"{PLURAL}.{GROUP}"
SHORT_NAME = "jobq"
CATEGORY = "awa"
COMMAND = "python -m awa.manifest --crd"

_KEPT = (
    "type",
    "format",
    "enum",
    "pattern",
    "minLength",
    "maxLength",
    "minimum",
    "maximum",
    "maxItems",
    "maxProperties",
)
_UNSEEN = {
    "type": ConditionType.READY.value,
    "status": "Unknown",
    "reason": "Pending",
    "message": "No operator has looked at it yet: is one there that serves this namespace?",
    "lastTransitionTime": "1970-01-01T00:00:00Z",
}
"""What a Queue without a status says, so that nobody who waits takes it for done."""

_READY = '.status.conditions[?(@.type=="Ready")]'
_COLUMNS = (
    # Name, type, path; those from `Queue` on are for `kubectl get -o wide`.
    ("Ready", "string", f"{_READY}.status"),
    ("Reason", "string", f"{_READY}.reason"),
    ("Image", "string", ".status.shortImage"),
    ("Replicas", "integer", ".status.replicas"),
    ("Desired", "integer", ".status.desiredReplicas"),
    ("Schema", "integer", ".status.database.schemaVersion"),
    ("Scaling", "string", ".spec.scaling.mode"),
    ("Age", "date", ".metadata.creationTimestamp"),
    ("Queue", "string", ".spec.queueName"),
    ("Database", "string", ".status.database.identity"),
    ("LastScale", "date", ".status.scaling.lastScaleTime"),
    ("Message", "string", f"{_READY}.message"),
)
_WIDE_FROM = "Queue"


def crd(annotations: Mapping[str, str] | None = None) -> dict[str, Any]:
    """Return the definition, as plain JSON values."""
    metadata: dict[str, Any] = {"name": CRD_NAME}
    if annotations:
        metadata["annotations"] = dict(annotations)
    metadata["labels"] = {"app.kubernetes.io/part-of": "awa"}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": metadata,
        "spec": {
            "group": GROUP,
            "names": {
                "kind": KIND,
                "listKind": f"{KIND}List",
                "plural": PLURAL,
                "singular": KIND.lower(),
                "shortNames": [SHORT_NAME],
                "categories": [CATEGORY],
            },
            "scope": "Namespaced",
            "versions": [_version()],
        },
    }


def render_crd(annotations: Mapping[str, str] | None = None) -> str:
    """Return the definition as the text of a YAML file."""
    head = f"# Written by `{COMMAND}` from the models. Change those, not this file.\n"
    text: str = yaml.dump(
        crd(annotations), Dumper=_Dumper, sort_keys=False, width=100, allow_unicode=True
    )
    return head + text


def missing_fields(served: Mapping[str, Any]) -> list[str]:
    """Return the paths of spec and status that a served schema of the resource does not know.

    `served` is the schema of a Queue as the API server publishes it (OpenAPI v3) or as a
    definition carries it. What it does not know it drops without a word, so an operator that
    needs such a field must say so.
    """
    return [
        path
        for path, _ in walk()
        if path.startswith(("spec", "status")) and not _is_served(served, path)
    ]


def _is_served(served: Mapping[str, Any], path: str) -> bool:
    here: Any = served
    for step in path.split("."):
        here = here.get("properties", {}).get(step.removesuffix("[]"))
        if here is not None and step.endswith("[]"):
            here = here.get("items")
        if here is None:
            return False
    return True


def _version() -> Schema:
    return {
        "name": VERSION,
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": _root()},
        "subresources": {
            "status": {},
            "scale": {
                "specReplicasPath": ".spec.replicas",
                "statusReplicasPath": ".status.replicas",
                "labelSelectorPath": ".status.selector",
            },
        },
        "additionalPrinterColumns": list(_columns()),
    }


def _columns() -> Iterator[Schema]:
    priority = 0
    for name, kind, path in _COLUMNS:
        if name == _WIDE_FROM:
            priority = 1
        column = {"name": name, "type": kind, "jsonPath": path}
        yield {**column, "priority": priority} if priority else column


def _root() -> Schema:
    """Return the resource's schema. Metadata is Kubernetes' own; a rule speaks of the name."""
    schema = _object(Queue, "", skip=("apiVersion", "kind", "metadata"))
    schema["properties"] = {
        "apiVersion": {"type": "string"},
        "kind": {"type": "string"},
        "metadata": {"type": "object", "properties": {"name": {"type": "string"}}},
        **schema["properties"],
    }
    schema["properties"]["status"]["default"] = {"conditions": [_UNSEEN]}
    schema["required"] = ["spec"]
    return schema


def _object(part: type[Part], path: str, skip: tuple[str, ...] = ()) -> Schema:
    """Return the schema of a part that stands at a path."""
    described = part.model_json_schema()
    definitions = described.get("$defs", {})
    schema: Schema = {"type": "object"}
    if words := _words(part.__doc__):
        schema["description"] = words
    schema["properties"] = {
        field.name: _field(field, described["properties"][field.name], definitions, path)
        for field in fields_of(part).values()
        if field.name not in skip
    }
    if required := [name for name in described.get("required", ()) if name not in skip]:
        schema["required"] = required
    if rules := [*_rules(path), *_needed(part)]:
        schema["x-kubernetes-validations"] = rules
    return schema


def _field(field: Field, described: Schema, definitions: Schema, path: str) -> Schema:
    here = f"{path}.{field.name}".removeprefix(".")
    if field.part is None:
        schema = _value(described, definitions)
    elif field.is_list:
        resolved = _resolved(described, definitions)
        schema = {"type": "array", "maxItems": resolved["maxItems"]}
        schema["items"] = _object(field.part, f"{here}[]")
        schema.update(_extensions(resolved))
    else:
        schema = _object(field.part, here)
    if field.help:
        schema["description"] = field.help
    if not here.startswith("status"):
        schema.update(_default(field))
    return {key: schema[key] for key in sorted(schema, key=_place)}


def _place(key: str) -> int:
    """Order keys for reading: what it is, then its bounds, then what is inside."""
    order = ("description", "type", "default", *_KEPT)
    return order.index(key) if key in order else len(order)


def _default(field: Field) -> Schema:
    """Return the default that the API server fills in; none for what may stay away.

    The defaults of an object are written out, beside those of its fields: the API server checks
    the rules of a default before it fills in anything.
    """
    if field.info.is_required() or field.info.default_factory is not None:
        return {}
    value = field.info.get_default()
    if isinstance(value, BaseModel):
        return {"default": _set(value.model_dump(mode="json", by_alias=True))}
    if value is None or value == ():
        return {}
    return {"default": to_jsonable_python(value, by_alias=True)}


def _set(values: dict[str, Any]) -> dict[str, Any]:
    """Return what is neither None nor an empty list, at every level."""
    return {
        name: _set(value) if isinstance(value, dict) else value
        for name, value in values.items()
        if value is not None and value != []
    }


def _needed(part: type[Part]) -> list[Schema]:
    """Return rules for objects whose defaults break their own rules: they have to be given.

    They say what the rule of the object says, because there is no object yet to say it of.
    """
    return [
        {
            "rule": f"has(self.{field.name})",
            "message": "; ".join(f"{rule.field} {rule.message}" for rule in field.part.RULES),
            "fieldPath": f".{field.name}",
            "reason": "FieldValueRequired",
        }
        for field in fields_of(part).values()
        if field.part is not None and field.info.default_factory is not None
    ]


def _value(described: Schema, definitions: Schema) -> Schema:
    """Return the structural schema of a value that is no part."""
    resolved = _resolved(described, definitions)
    schema: Schema = {}
    if resolved.get("x-kubernetes-int-or-string"):
        for choice in resolved["anyOf"]:
            schema.update({key: choice[key] for key in _KEPT if key in choice and key != "type"})
    schema.update({key: resolved[key] for key in _KEPT if key in resolved})
    schema.update(_extensions(resolved))
    if "items" in resolved:
        schema["items"] = _value(resolved["items"], definitions)
    entries = resolved.get("additionalProperties")
    if isinstance(entries, dict):
        schema["additionalProperties"] = _value(entries, definitions)
    if names := resolved.get("propertyNames"):
        schema["x-kubernetes-validations"] = [_names_of_entries(names)]
    return schema


def _names_of_entries(names: Schema) -> Schema:
    """Return a rule for the names of a map's entries: a structural schema cannot bound them."""
    least, most = names["minLength"], names["maxLength"]
    return {
        "rule": f"self.all(name, size(name) >= {least} && size(name) <= {most})",
        "message": f"the name of an entry must have {least} to {most} characters",
    }


def _resolved(described: Schema, definitions: Schema) -> Schema:
    """Return a schema without a reference and without `null`."""
    kinds = [kind for kind in described.get("anyOf", ()) if kind.get("type") != "null"]
    if len(kinds) == 1:
        return _resolved(kinds[0], definitions)
    if reference := described.get("$ref"):
        return dict(definitions[reference.rpartition("/")[2]])
    return described


def _extensions(described: Schema) -> Schema:
    return {key: value for key, value in described.items() if key.startswith("x-kubernetes-")}


def _rules(path: str) -> list[Schema]:
    """Return the rules of the part at a path. Errors name the field, so messages do not."""
    found: list[Schema] = []
    for rule in cel_rules():
        if rule.path.replace("[]", "") == path.replace("[]", ""):
            field = f"{rule.path}{rule.field_path}".lstrip(".")
            found.append(
                {
                    "rule": rule.cel,
                    "message": rule.message.removeprefix(field).strip(),
                    "fieldPath": rule.field_path,
                    "reason": "FieldValueForbidden" if rule.is_transition else "FieldValueInvalid",
                }
            )
    return found


def _words(docstring: str | None) -> str:
    """Return the first paragraph in one line."""
    return " ".join((docstring or "").partition("\n\n")[0].split())


class _Dumper(yaml.SafeDumper):
    """Indents lists and repeats values instead of referring to them."""

    def ignore_aliases(self, data: Any) -> bool:
        return True

    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:
        super().increase_indent(flow, False)
