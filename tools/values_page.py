"""Write docs/reference/helm-values.md from the chart's values and schema; `--check` compares only.

The comment above a value is its description.
"""

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parent.parent
CHART = ROOT / "charts" / "awa"
PAGE = ROOT / "docs" / "reference" / "helm-values.md"

HEAD = """\
# Values of the chart

Made by `python tools/values_page.py` from the chart `awa`; do not edit.

Unknown values are refused, and so are those of another kind. The chart `awa-crds` has none. How to
install: [Kubernetes](../guides/kubernetes.md).

| value | kind | default | |
|---|---|---|---|
"""


def page() -> str:
    """Return the whole page. Raises ValueError for a value without a comment."""
    text = (CHART / "values.yaml").read_text(encoding="utf-8")
    schema = json.loads((CHART / "values.schema.json").read_text(encoding="utf-8"))
    lines = text.splitlines()
    defaults = yaml.safe_load(text)
    described = _described(yaml.compose(text, Loader=yaml.SafeLoader), lines, ())
    rows = [_row(row, schema, defaults) for row in described]
    return HEAD + "".join(rows)


def _described(
    node: Any, lines: list[str], path: tuple[str, ...]
) -> Iterator[tuple[tuple[str, ...], str]]:
    """Yield the path and the description of every value; groups have none of their own."""
    for key, value in node.value:
        here = (*path, key.value)
        words = _comment_above(lines, key.start_mark.line)
        if words:
            yield here, words
        elif isinstance(value, yaml.MappingNode) and value.value:
            yield from _described(value, lines, here)
        else:
            raise ValueError(f"{'.'.join(here)} has no comment in values.yaml")


def _comment_above(lines: list[str], number: int) -> str:
    found: list[str] = []
    while number > 0 and lines[number - 1].lstrip().startswith("# "):
        number -= 1
        found.insert(0, lines[number].strip().removeprefix("# "))
    return " ".join(found)


def _row(described: tuple[tuple[str, ...], str], schema: Any, defaults: Any) -> str:
    path, words = described
    here = schema
    for step in path:
        here = _resolved(here["properties"][step], schema)
        defaults = defaults[step]
    default = json.dumps(defaults) if defaults not in ("", [], {}) else ""
    cells = (f"`{'.'.join(path)}`", _kind(here), f"`{default}`" if default else "", words)
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |\n"


def _resolved(here: Any, schema: Any) -> Any:
    reference = here.get("$ref", "")
    return schema["definitions"][reference.rpartition("/")[2]] if reference else here


def _kind(here: Any) -> str:
    if words := here.get("enum"):
        return ", ".join(f"`{word}`" for word in words)
    if choices := here.get("oneOf"):
        return " or ".join(_kind(choice) for choice in choices)
    names = {"integer": "int", "boolean": "bool", "string": "text", "array": "list"}
    name: str = names.get(here["type"], here["type"])
    if "minimum" in here and "maximum" in here:
        return f"{name}, {here['minimum']} to {here['maximum']}"
    return name


def main(arguments: list[str]) -> int:
    """Write the page, or say whether it is stale."""
    text = page()
    if "--check" in arguments:
        if PAGE.exists() and PAGE.read_text(encoding="utf-8") == text:
            return 0
        print(f"{PAGE.name} is stale: run python tools/values_page.py", file=sys.stderr)
        return 1
    PAGE.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
