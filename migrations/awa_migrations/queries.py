"""Named queries: SQL lives in .sql files, Python asks for it by name.

    -- name: pause_queue
    -- Stop claims of one queue. Returns whether it existed.
    update {schema}.queue_meta set paused = true where queue = $1 returning true;

Every query has a name and at least one line that says what it promises. The schema is the only
thing ever substituted.
"""

import re
from importlib.resources import files

from awa_migrations.errors import QueriesInvalid
from awa_migrations.schema_name import SchemaName

_NAME = re.compile(r"--\s*name:\s*(?P<name>.*)")
_VALID_NAME = re.compile(r"[a-z][a-z0-9_]*")


def load_queries(package: str, resource: str, schema: str) -> dict[str, str]:
    """Read a resource of `package` and return its queries by name, ready for `schema`.

    Raises InvalidSchemaName, or QueriesInvalid for a query that is unnamed, undocumented, empty or
    named twice.
    """
    name = SchemaName(schema)
    text = files(package).joinpath(resource).read_text(encoding="utf-8")
    return {query: name.render(sql) for query, sql in parse_queries(text, resource).items()}


def parse_queries(text: str, source: str) -> dict[str, str]:
    """Split a file into its queries, comments of the head removed. `source` is for messages."""
    queries: dict[str, str] = {}
    for number, block in _blocks(text, source):
        name = _checked_name(block[0], f"{source}:{number}")
        if name in queries:
            raise QueriesInvalid(f"{source}:{number}: there is another query {name!r}")
        described = 1
        while described < len(block) and block[described].startswith("--"):
            described += 1
        if not any(line.strip("- ") for line in block[1:described]):
            raise QueriesInvalid(f"{source}:{number}: say below the name what {name!r} promises")
        body = "\n".join(block[described:]).strip().removesuffix(";").rstrip()
        if not body:
            raise QueriesInvalid(f"{source}:{number}: {name!r} has no SQL")
        queries[name] = body
    return queries


def _checked_name(line: str, place: str) -> str:
    match = _NAME.match(line)
    name = match["name"].strip() if match else ""
    if not _VALID_NAME.fullmatch(name):
        raise QueriesInvalid(f"{place}: {name!r} is not a name like `pause_queue`")
    return name


def _blocks(text: str, source: str) -> list[tuple[int, list[str]]]:
    """Return (line number, lines) of every part that a name line opens."""
    blocks: list[tuple[int, list[str]]] = []
    for number, line in enumerate(text.splitlines(), start=1):
        if _NAME.match(line):
            blocks.append((number, [line]))
        elif blocks:
            blocks[-1][1].append(line.rstrip())
        elif line.strip() and not line.startswith("--"):
            raise QueriesInvalid(f"{source}:{number}: SQL without a `-- name:` line above it")
    return blocks
