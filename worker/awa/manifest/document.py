"""YAML in, plain values and their lines out.

Narrower than YAML on purpose. Scalars follow YAML 1.2 (`yes` is a text, `010` is ten), so that a
file means the same here and to readers of today; tags, merge keys and duplicate keys are refused;
aliases may not grow the document beyond a limit.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import yaml

MAX_CHARACTERS = 1024 * 1024
MAX_DEPTH = 64
MAX_VALUES = 20_000
"""Values of one file, each counted as often as aliases repeat it."""

type Json = bool | int | float | str | list[Json] | dict[str, Json] | None
type Path = tuple[str | int, ...]

_NULL, _BOOL, _INT, _FLOAT = (
    f"tag:yaml.org,2002:{name}" for name in ("null", "bool", "int", "float")
)


class DocumentError(ValueError):
    """The text is not YAML that a manifest may be. `line` counts from 1."""

    def __init__(self, message: str, line: int | None = None) -> None:
        super().__init__(message)
        self.line = line


@dataclass(frozen=True, slots=True)
class Document:
    """One document: its value, and the line of each value in it by path."""

    value: Json
    lines: Mapping[Path, int]

    def line_of(self, path: Path) -> int:
        """Return the line of a path, or of the nearest one above it that is there."""
        while path and path not in self.lines:
            path = path[:-1]
        return self.lines[path]


class _Loader(yaml.SafeLoader):
    """Composes nodes; its scalars are resolved as in the core schema of YAML 1.2."""

    yaml_implicit_resolvers: dict[str, list[tuple[str, re.Pattern[str]]]] = {}  # noqa: RUF012


for _tag, _pattern, _starts in (
    (_NULL, r"^(?:~|null|Null|NULL|)$", ["~", "n", "N", ""]),
    (_BOOL, r"^(?:true|True|TRUE|false|False|FALSE)$", list("tTfF")),
    (_INT, r"^(?:[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+)$", list("-+0123456789")),
    (
        _FLOAT,
        r"^(?:[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?)$",
        list("-+0123456789."),
    ),
):
    _Loader.add_implicit_resolver(_tag, re.compile(_pattern), _starts)


def read_documents(text: str) -> list[Document]:
    """Return the documents of a text; those without content are left out.

    Raises DocumentError for anything that is not YAML or more than a manifest needs.
    """
    if len(text) > MAX_CHARACTERS:
        raise DocumentError(f"has {len(text)} characters; a manifest has at most {MAX_CHARACTERS}")
    try:
        _check_events(text)
        nodes = list(yaml.compose_all(text, Loader=_Loader))
    except yaml.MarkedYAMLError as error:
        raise _as_document_error(error) from None
    except yaml.YAMLError:
        raise DocumentError("contains a character that YAML does not allow") from None
    budget = _Budget()
    documents = [_Reader(budget).document(node) for node in nodes if node is not None]
    return [document for document in documents if document.value is not None]


def _check_events(text: str) -> None:
    """Refuse tags and depth while the text is still flat."""
    depth = 0
    for event in yaml.parse(text, Loader=_Loader):
        line = event.start_mark.line + 1 if event.start_mark else None
        if isinstance(event, yaml.NodeEvent) and getattr(event, "tag", None) is not None:
            raise DocumentError("has a tag (a word that starts with '!'); remove it", line)
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
            if depth > MAX_DEPTH:
                raise DocumentError(f"is nested deeper than {MAX_DEPTH} levels", line)
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1


def _as_document_error(error: yaml.MarkedYAMLError) -> DocumentError:
    mark = error.problem_mark or error.context_mark
    where = None if mark is None else mark.line + 1
    problem = error.problem or "cannot be read"
    if "cannot start any token" in problem and "\\t" in problem:
        return DocumentError("is indented with a tab; YAML wants spaces", where)
    if "mapping values are not allowed" in problem:
        problem += "; put quotes around a text that contains ': '"
    return DocumentError(f"is not valid YAML: {problem}", where)


class _Budget:
    def __init__(self) -> None:
        self.left = MAX_VALUES

    def spend(self, line: int) -> None:
        self.left -= 1
        if self.left < 0:
            raise DocumentError(
                f"expands to more than {MAX_VALUES} values; write fewer or do without aliases", line
            )


class _Reader:
    """Turns the nodes of one document into values and notes their lines."""

    def __init__(self, budget: _Budget) -> None:
        self._budget = budget
        self._lines: dict[Path, int] = {}
        self._open: set[int] = set()

    def document(self, node: yaml.Node) -> Document:
        return Document(self._value(node, ()), self._lines)

    def _value(self, node: yaml.Node, path: Path, line: int | None = None) -> Json:
        line = line or node.start_mark.line + 1
        self._lines[path] = line
        self._budget.spend(line)
        if isinstance(node, yaml.ScalarNode):
            return _scalar(node, line)
        if id(node) in self._open:
            raise DocumentError("contains itself through an alias", line)
        self._open.add(id(node))
        try:
            if isinstance(node, yaml.SequenceNode):
                return self._sequence(node, path)
            return self._mapping(node, path)
        finally:
            self._open.remove(id(node))

    def _sequence(self, node: yaml.SequenceNode, path: Path) -> list[Json]:
        return [self._value(item, (*path, index)) for index, item in enumerate(node.value)]

    def _mapping(self, node: yaml.Node, path: Path) -> dict[str, Json]:
        values: dict[str, Json] = {}
        for key, line, value in _entries(node):
            if key in values:
                first = self._lines[(*path, key)]
                raise DocumentError(f"has the key '{key}' twice, first on line {first}", line)
            values[key] = self._value(value, (*path, key), line)
        return values


def _entries(node: yaml.Node) -> Iterator[tuple[str, int, yaml.Node]]:
    for key, value in node.value:
        line = key.start_mark.line + 1
        if not isinstance(key, yaml.ScalarNode):
            raise DocumentError("has a key that is not a text", line)
        if key.value == "<<" and key.style is None:
            raise DocumentError("uses the merge key '<<'; write the fields out", line)
        if not isinstance(_scalar(key, line), str):
            raise DocumentError(
                f"has a key that is not a text; write '{key.value}' in quotes", line
            )
        yield key.value, line, value


def _scalar(node: yaml.ScalarNode, line: int) -> Json:
    text: str = node.value
    if node.tag == _NULL:
        return None
    if node.tag == _BOOL:
        return text.lower() == "true"
    if node.tag == _INT:
        return _integer(text, line)
    return float(text) if node.tag == _FLOAT else text


def _integer(text: str, line: int) -> int:
    bases = {"0o": 8, "0x": 16}
    try:
        return int(text, bases.get(text[:2], 10))
    except ValueError:
        raise DocumentError("has a number with too many digits", line) from None
