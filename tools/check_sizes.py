"""Fail when a module, function, SQL function or named query is longer than its limit.

Limits are in lines. A docstring does not count as body; blank lines do not count in SQL.
Split by responsibility rather than to satisfy the number.
"""

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path

from tracked import ROOT, files

MODULE, TEST_MODULE, FUNCTION_BODY = 600, 800, 60
SQL_FUNCTION, NAMED_QUERY = 150, 80

SQL_BODY = re.compile(
    r"create\s+(?:or\s+replace\s+)?(?:function|procedure)\s+([\w.{}\"]+).*?"
    r"as\s+(\$\w*\$)(.*?)\2",
    re.IGNORECASE | re.DOTALL,
)
QUERY_NAME = re.compile(r"^-- name:", re.MULTILINE)


def python_findings(path: Path) -> Iterator[str]:
    """Yield what is too long in one Python file."""
    text = path.read_text()
    is_test = "tests" in path.relative_to(ROOT).parts
    limit = TEST_MODULE if is_test else MODULE
    if (lines := text.count("\n")) > limit:
        yield f"module has {lines} lines, limit {limit}"
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            has_docstring = ast.get_docstring(node, clean=False) is not None
            body = node.body[1 if has_docstring else 0 :]
            lines = (body[-1].end_lineno or 0) - body[0].lineno + 1 if body else 0
            if lines > FUNCTION_BODY:
                yield f"{node.name}: body has {lines} lines, limit {FUNCTION_BODY}"


def sql_findings(path: Path) -> Iterator[str]:
    """Yield what is too long in one SQL file."""
    text = path.read_text()
    for found in SQL_BODY.finditer(text):
        if (lines := _filled(found[3])) > SQL_FUNCTION:
            yield f"{found[1]}: {lines} lines, limit {SQL_FUNCTION}"
    for query in QUERY_NAME.split(text)[1:]:
        name, _, body = query.partition("\n")
        if (lines := _filled(body)) > NAMED_QUERY:
            yield f"query {name.strip()}: {lines} lines, limit {NAMED_QUERY}"


def _filled(text: str) -> int:
    return sum(1 for line in text.splitlines() if line.strip())


def main() -> int:
    """Print every finding; 1 if there is one."""
    found = False
    for pattern, findings in (("*.py", python_findings), ("*.sql", sql_findings)):
        for path in files(pattern):
            for finding in findings(path):
                found = True
                print(f"{path.relative_to(ROOT)}: {finding}")
    return int(found)


if __name__ == "__main__":
    sys.exit(main())
