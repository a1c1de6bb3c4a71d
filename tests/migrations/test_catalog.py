"""Which folders of files are accepted as the catalog."""

import hashlib
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from awa_migrations import (
    Catalog,
    CatalogInvalid,
    InvalidSchemaName,
    Kind,
    Migration,
    SchemaName,
    packaged_catalog,
)
from support.migrating import THREE_STEPS, MakeCatalog, header

NAME = "0044_make_queue.sql"


def test_files_are_ordered_by_number(make_catalog: MakeCatalog) -> None:
    catalog = make_catalog(dict(reversed(THREE_STEPS.items())))

    assert [migration.version for migration in catalog] == [7, 8, 9]
    assert (catalog.first, catalog.latest) == (7, 9)


def test_a_gap_is_refused_and_named(make_catalog: MakeCatalog) -> None:
    with pytest.raises(CatalogInvalid, match=r"0003_c\.sql: 0002 is missing"):
        make_catalog({"0001_a": "select 1;", "0003_c": "select 1;"})


def test_a_number_used_twice_is_refused(make_catalog: MakeCatalog) -> None:
    with pytest.raises(CatalogInvalid, match=r"number taken by 0001_a\.sql"):
        make_catalog({"0001_a": "select 1;", "0001_b": "select 1;"})


def test_an_empty_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CatalogInvalid, match="no migration file"):
        Catalog.read(tmp_path)


def test_other_files_beside_the_migrations_are_ignored(
    make_catalog: MakeCatalog, tmp_path: Path
) -> None:
    (tmp_path / "sql").mkdir()
    (tmp_path / "sql" / "README.md").write_text("read me")

    assert make_catalog().latest == 9


@pytest.mark.parametrize(
    "name", ["44_a.sql", "0044.sql", "0044-a.sql", "0044_A.sql", "0044_a_.sql", "a_0044.sql"]
)
def test_a_misnamed_file_is_refused(name: str) -> None:
    with pytest.raises(CatalogInvalid, match=re.escape(name)):
        Migration.parse(name, header() + "select 1;")


def test_the_header_is_read() -> None:
    text = (
        "-- kind: contract\n"
        "-- locks: access exclusive on {schema}.lanes,\n"
        "--   under 10 ms\n"
        "-- previous release: goes on, it has not read\n"
        "-- the column since 0040\n"
        "--\n"
        "-- Why: nobody reads it.\n"
        "-- kind: not part of the header any more\n"
    )

    migration = Migration.parse(NAME, text.replace("-- kind: not", "-- kinds: not"))

    assert migration.kind is Kind.CONTRACT
    assert migration.locks == "access exclusive on {schema}.lanes, under 10 ms"
    assert migration.previous_release == "goes on, it has not read the column since 0040"
    assert (migration.version, migration.name) == (44, "make_queue")
    assert migration.file_name == NAME


@pytest.mark.parametrize("key", ["kind", "locks", "previous release"])
@pytest.mark.parametrize("instead", ["", "-- {key}:\n", "-- {key}:   \n"])
def test_a_header_without_one_of_its_keys_is_refused(key: str, instead: str) -> None:
    lines = [line for line in header().splitlines(keepends=True) if f"-- {key}:" not in line]
    text = instead.format(key=key) + "--\n" + "".join(lines) + "select 1;"

    with pytest.raises(CatalogInvalid, match=key):
        Migration.parse(NAME, text)


def test_a_header_that_does_not_open_the_file_is_refused() -> None:
    with pytest.raises(CatalogInvalid, match="must open the file"):
        Migration.parse(NAME, "select 1;\n" + header())


def test_a_key_said_twice_is_refused() -> None:
    with pytest.raises(CatalogInvalid, match="'kind' twice"):
        Migration.parse(NAME, "-- kind: contract\n" + header())


def test_an_unknown_kind_is_refused() -> None:
    with pytest.raises(CatalogInvalid, match="expand or contract"):
        Migration.parse(NAME, header("rewrite"))


@pytest.mark.parametrize(
    "statement",
    ["commit;", "COMMIT;", "begin;", "begin transaction;", "start transaction;", "rollback;",
     "  commit work;", "abort;", "BEGIN WORK;"],
)  # fmt: skip
def test_a_file_that_ends_the_runners_transaction_is_refused(statement: str) -> None:
    with pytest.raises(CatalogInvalid, match="transaction"):
        Migration.parse(NAME, header() + f"select 1;\n{statement}\n")


@pytest.mark.parametrize(
    "body",
    [
        "do $$\nbegin\n    perform 1;\nend;\n$$;",
        "comment on schema {schema} is 'begin; commit;';",
        "create table {schema}.t () on commit drop;",
        "-- commit; is left to the runner",
    ],
)
def test_what_only_looks_like_the_end_of_a_transaction_is_accepted(body: str) -> None:
    assert body in Migration.parse(NAME, header() + body).text


def test_the_checksum_is_that_of_the_text_whatever_the_line_ends() -> None:
    text = header() + "select 1;\nselect 2;\n"

    unix = Migration.parse(NAME, text)
    windows = Migration.parse(NAME, text.replace("\n", "\r\n"))

    assert unix.checksum == windows.checksum == hashlib.sha256(text.encode()).hexdigest()
    assert unix.checksum != Migration.parse(NAME, text + " ").checksum


def test_only_the_schema_is_substituted() -> None:
    text = header() + "comment on table {schema}.t is '{schema_name} {1,2} {other}';"

    rendered = Migration.parse(NAME, text).render(SchemaName("order"))

    assert rendered.endswith("comment on table \"order\".t is 'order {1,2} {other}';")


@given(st.from_regex(r"[a-z_][a-z0-9_]{0,47}", fullmatch=True))
def test_every_name_of_the_rule_is_a_schema_name(name: str) -> None:
    if name.startswith("pg_") or name == "information_schema":
        with pytest.raises(InvalidSchemaName):
            SchemaName(name)
    else:
        assert SchemaName(name).quoted == f'"{name}"'
        assert -(2**63) <= SchemaName(name).lock_key < 2**63


@given(st.text(max_size=60))
def test_no_other_name_gets_into_sql(name: str) -> None:
    try:
        quoted = SchemaName(name).quoted
    except InvalidSchemaName:
        return
    assert re.fullmatch(r'"[a-z0-9_]{1,48}"', quoted)


def test_lock_keys_of_different_schemas_differ_and_stay() -> None:
    assert SchemaName("awa").lock_key == -5527245481614018619
    assert SchemaName("awa").lock_key != SchemaName("awa2").lock_key


def test_the_packaged_files_start_with_the_engine_and_have_no_gap() -> None:
    catalog = packaged_catalog()

    assert catalog.first == 43
    assert [m.version for m in catalog] == list(range(43, catalog.latest + 1))


def test_the_packaged_files_name_no_schema_of_their_own() -> None:
    for migration in packaged_catalog():
        code = re.sub(r"--.*", "", migration.text)
        named = re.findall(r"\bawa\.\w+|\bpublic\.\w+", code)
        assert not named, f"{migration.file_name} names {named}"
