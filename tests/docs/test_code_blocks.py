"""Every Python block of the guides runs, in its page's order, against a real database."""

import ast
import inspect
import re
from collections.abc import Callable
from pathlib import Path
from types import CodeType
from typing import Any

import psycopg
import pytest
from django.db import DEFAULT_DB_ALIAS, connections

from support.django_database import django_wrapper
from support.postgres import Database

ROOT = Path(__file__).resolve().parents[2]
GUIDES = sorted((ROOT / "docs" / "guides").glob("*.md"))
PAGES = [page for page in GUIDES if page.stem in {"enqueue", "handlers"}]
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def blocks(page: Path) -> list[tuple[int, str, str]]:
    """Return line, language and text of every block of a page."""
    text = page.read_text(encoding="utf-8")
    return [
        (text.count("\n", 0, found.start(2)), found[1], found[2]) for found in BLOCK.finditer(text)
    ]


def compiled(page: Path, line: int, source: str) -> CodeType:
    """Compile a block so that tracebacks show the line of the page."""
    flags = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
    padded = "\n" * line + source
    code: CodeType = compile(padded, str(page), "exec", flags=flags)
    return code


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
@pytest.mark.usefixtures("address")
async def test_the_python_blocks_of_a_page_run_in_order(page: Path, database: Database) -> None:
    # Django keeps connections by context, so this is set in that of the blocks.
    connections[DEFAULT_DB_ALIAS] = django_wrapper(database)
    names: dict[str, Any] = {"__name__": "page"}
    for line, language, source in blocks(page):
        if language != "python":
            continue
        outcome = eval(compiled(page, line, source), names)  # noqa: S307 - a page of ours
        if inspect.iscoroutine(outcome):
            await outcome
    tests: list[Callable[..., Any]] = [
        value for name, value in names.items() if name.startswith("test_")
    ]
    for test in tests:
        await test()
    for closing in ("client", "jobs"):
        closed = names[closing].close() if closing in names else None
        if inspect.iscoroutine(closed):
            await closed
    connections[DEFAULT_DB_ALIAS].close()
    del connections[DEFAULT_DB_ALIAS]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_every_block_says_its_language_and_only_python_is_code(page: Path) -> None:
    found = blocks(page)
    assert sum(language == "python" for _, language, _ in found) >= 5
    assert {language for _, language, _ in found} <= {"python", "sql", "text"}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_the_sql_of_a_page_is_valid(page: Path, address: str) -> None:
    with psycopg.connect(address) as session:
        session.execute("create role app")
        for _, language, source in blocks(page):
            if language == "sql":
                session.execute(source.encode())
        session.rollback()
