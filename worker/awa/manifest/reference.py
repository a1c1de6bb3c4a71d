"""The reference page of the Queue resource, written from the models."""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from pydantic import BaseModel
from pydantic_core import to_jsonable_python

from awa.manifest.part import Part
from awa.manifest.queue import API_VERSION, KIND, QueueSpec
from awa.manifest.rules import PlacedRule, cel_rules
from awa.manifest.status import CONDITIONS, QueueStatus
from awa.manifest.tree import Field, fields_of, walk
from awa.manifest.values import PERCENT, QUANTITY

COMMAND = "python -m awa.manifest"

_TYPE_NAMES = {"integer": "int", "boolean": "bool", "string": "text", "array": "list"}
_EXAMPLES = {PERCENT: "25%", QUANTITY: "500m"}

_HEAD = f"""<!-- Written by `{COMMAND}` from the models. Change those, not this page. -->

# The `{KIND}` resource

`{API_VERSION}`, the same file for `awa up -f queue.yaml` and for `kubectl apply -f queue.yaml`.
How replica counts are decided: [scaling](../guides/scaling.md).

```yaml
apiVersion: {API_VERSION}
kind: {KIND}
metadata:
  name: email
spec:
  database:
    connectionSecretRef: {{name: app-db}}
  worker:
    image: registry.example/app:1.4.2
    command: [awa, worker, handlers]
  migration:
    command: [awa, migrate]
  scaling:
    mode: Native
    minReplicas: 0
    maxReplicas: 20
    targetJobsPerReplica: 10
    targetLagSeconds: 60
```

Durations are whole numbers with the unit in the name. Unknown fields, duplicate keys, tags, merge
keys and documents that grow through aliases beyond measure are refused; `yes`, `no`, `on` and `off`
are texts. A file may hold further documents of other kinds. Nothing is written back into the spec:
where a default depends on another field, the field stays empty and the default is worked out when
it is needed.

## Locally

`awa up` runs `worker.command` with `worker.args`, and with the environment variables that have a
`value`, as processes of this machine. `$(NAME)` is filled in as in Kubernetes. These variables are
set for every worker, and win over a variable of the same name in `worker.env`:

| variable | value |
|---|---|
| `AWA_DATABASE_URL` | connection string; from the local server, or from `connectionSecretRef` |
| `AWA_QUEUE` | name of the queue |
| `AWA_QUEUES` | the queue and its concurrency, as `name:concurrency` |
| `AWA_SCHEMA` | `database.schema` |
| `AWA_DRAIN_TIMEOUT_SECONDS` | `worker.drainTimeoutSeconds` |

Fields marked *cluster* have no meaning there; `awa up` lists those that are set. `awa up` needs
`worker.command`, because it cannot see the entry point of an image.
"""


def render_reference() -> str:
    """Return the page, as Markdown."""
    parts = [
        _HEAD,
        "## Fields of `spec`\n",
        *_sections(QueueSpec, "spec"),
        "## Rules\n",
        "Checked by the API server and by `awa up` alike, on top of the bounds above.\n",
        _rules(cel_rules()),
        "## Fields of `status`\n",
        "Written by the operator.\n",
        *_sections(QueueStatus, "status"),
        "## Conditions\n",
        _conditions(),
    ]
    return "\n".join(parts).rstrip() + "\n"


def _sections(root: type[Part], path: str) -> Iterator[str]:
    """Yield one table for each kind of part below a root; others link to it."""
    places = {root: path}
    for here, field in walk(root, path):
        if field.part is not None:
            places.setdefault(field.part, f"{here}[]" if field.is_list else here)
    for part, place in places.items():
        yield f"### `{place}`\n"
        yield _table(part, places)


def _table(part: type[Part], places: Mapping[type[Part], str]) -> str:
    schema = part.model_json_schema()
    rows = ["| field | type | default | |", "|---|---|---|---|"]
    for field in fields_of(part).values():
        kind = _type(_resolved(schema["properties"][field.name], schema.get("$defs", {})))
        if field.part is not None:
            kind = f"[{kind}](#{re.sub('[^a-z]', '', places[field.part].lower())})"
        mark = field.cluster_only
        words = f"{field.help} *Cluster: {mark.why}.*" if mark else field.help
        cells = (f"`{field.name}`", kind, _default(field), words)
        rows.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    return "\n".join(rows) + "\n"


def _resolved(described: dict[str, Any], definitions: Mapping[str, Any]) -> dict[str, Any]:
    """Return the schema of a value without a reference and without `null`."""
    kinds = [kind for kind in described.get("anyOf", ()) if kind.get("type") != "null"]
    if len(kinds) == 1:
        return _resolved(kinds[0], definitions)
    if reference := described.get("$ref"):
        return dict(definitions[reference.rpartition("/")[2]])
    return described


def _type(described: dict[str, Any]) -> str:
    if described.get("x-kubernetes-int-or-string"):
        return " or ".join(_type(kind) for kind in described["anyOf"])
    if words := described.get("enum"):
        return ", ".join(f"`{word}`" for word in words)
    if described.get("format") == "date-time":
        return "time"
    kind = described.get("type", "any")
    name = _TYPE_NAMES.get(kind, kind)
    if kind == "object" and "maxProperties" in described:
        name = "map"
    return ", ".join(filter(None, (name, _bounds(described))))


def _bounds(described: dict[str, Any]) -> str:
    least, most = described.get("minimum"), described.get("maximum")
    if least is not None:
        return f"at least {least}" if most is None else f"{least} to {most}"
    for name in ("maxItems", "maxProperties"):
        if name in described:
            return f"at most {described[name]}"
    if example := _EXAMPLES.get(described.get("pattern", "")):
        return f"such as `{example}`"
    if "maxLength" in described:
        return f"{described.get('minLength', 0)} to {described['maxLength']} characters"
    return ""


def _default(field: Field) -> str:
    if field.info.is_required():
        return "required"
    value = field.info.get_default(call_default_factory=True, validated_data={})
    if value is None or value == () or isinstance(value, BaseModel | dict):
        return ""
    return f"`{_yaml(to_jsonable_python(value, by_alias=True))}`"


def _yaml(value: Any) -> str:
    if isinstance(value, list):
        return f"[{', '.join(_yaml(item) for item in value)}]"
    if isinstance(value, dict):
        return f"{{{', '.join(f'{name}: {_yaml(item)}' for name, item in value.items())}}}"
    if isinstance(value, bool):
        return str(value).lower()
    return str(value) or "''"


def _rules(rules: list[PlacedRule]) -> str:
    rows = ["| where | rule | meaning |", "|---|---|---|"]
    for rule in rules:
        cel = rule.cel.replace("|", "\\|")
        when = " (updates)" if rule.is_transition else ""
        rows.append(f"| `{rule.path or KIND}`{when} | `{cel}` | {rule.message} |")
    return "\n".join(rows) + "\n"


def _conditions() -> str:
    rows = ["| condition | true means |", "|---|---|"]
    rows += [f"| `{kind.value}` | {meaning} |" for kind, meaning in CONDITIONS.items()]
    return "\n".join(rows) + "\n"
