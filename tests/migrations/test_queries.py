"""Which files of named queries are accepted."""

import sys
from pathlib import Path

import pytest

from awa_migrations import InvalidSchemaName, QueriesInvalid, load_queries
from awa_migrations.queries import parse_queries

TWO = """\
-- Queries of the shelf.

-- name: count_books
-- How many books there are.
-- Counts by hand.
select count(*)
-- of all shelves
from {schema}.book;

-- name: find_book
-- One book, or none.
select title from {schema}.book where id = $1 and owner = '{schema_name}'
"""


def test_queries_are_found_by_name_without_their_heads() -> None:
    assert parse_queries(TWO, "shelf.sql") == {
        "count_books": "select count(*)\n-- of all shelves\nfrom {schema}.book",
        "find_book": "select title from {schema}.book where id = $1 and owner = '{schema_name}'",
    }


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("select 1;\n" + TWO, r"shelf\.sql:1: SQL without"),
        (TWO + TWO, r"shelf\.sql:15: there is another query 'count_books'"),
        ("-- name: a\nselect 1;", r"shelf\.sql:1: say .* what 'a' promises"),
        ("-- name: a\n--\n--   \nselect 1;", "promises"),
        ("-- name: a\n\n-- Too late.\nselect 1;", "promises"),
        ("-- name:\n-- Says.\nselect 1;", "'' is not a name"),
        ("-- name: Count\n-- Says.\nselect 1;", "'Count' is not a name"),
        ("-- name: a b\n-- Says.\nselect 1;", "'a b' is not a name"),
        ("-- name: a\n-- Says.\n;", "'a' has no SQL"),
        ("-- name: a\n-- Says.\n\n-- name: b\n-- Says.\nselect 1;", "'a' has no SQL"),
    ],
)
def test_a_file_that_breaks_the_rules_is_refused_with_its_line(text: str, problem: str) -> None:
    with pytest.raises(QueriesInvalid, match=problem):
        parse_queries(text, "shelf.sql")


def test_a_resource_of_a_package_is_rendered_for_a_schema(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "awa_test_library" / "sql"
    folder.mkdir(parents=True)
    (folder.parent / "__init__.py").touch()
    (folder / "shelf.sql").write_text(TWO)
    monkeypatch.syspath_prepend(tmp_path)

    queries = load_queries("awa_test_library", "sql/shelf.sql", "user")

    assert queries["find_book"] == (
        "select title from \"user\".book where id = $1 and owner = 'user'"
    )
    with pytest.raises(InvalidSchemaName):
        load_queries("awa_test_library", "sql/shelf.sql", 'a";--')
    del sys.modules["awa_test_library"]


def test_the_migrators_own_statements_follow_the_rules() -> None:
    assert "record" in load_queries("awa_migrations", "statements.sql", "awa")
