"""schema.sql is what the migrations make, whatever the schema is called."""

from pathlib import Path

import pytest

from awa_migrations import ConfigurationError, migrate, packaged_catalog
from awa_migrations.snapshot import (
    SNAPSHOT,
    condensed,
    difference,
    dump,
    main,
    make_snapshot,
)
from support.postgres import Database, Server


async def test_the_packaged_snapshot_is_fresh(postgres: Server, postgres_binaries: Path) -> None:
    made = await make_snapshot(postgres.dsn(), postgres_binaries)

    assert not difference(SNAPSHOT.read_text(encoding="utf-8"), made), (
        "renew it: awa_migrations.snapshot --write"
    )


async def test_every_schema_name_gets_the_same_schema(
    database: Database, empty_database: Database, postgres_binaries: Path
) -> None:
    await migrate(empty_database.dsn, schema="x_order_9")

    default = await dump(database.dsn, "awa", postgres_binaries)
    other = await dump(empty_database.dsn, "x_order_9", postgres_binaries)

    assert "awa.schema_version" in default
    assert "awa." not in other
    assert sorted(other.replace("x_order_9", "awa").split()) == sorted(default.split())


async def test_stopping_on_the_way_makes_the_same_schema(
    database: Database, empty_database: Database, postgres_binaries: Path
) -> None:
    for migration in packaged_catalog():
        await migrate(empty_database.dsn, to=migration.version)

    stepwise = await dump(empty_database.dsn, "awa", postgres_binaries)

    assert not difference(await dump(database.dsn, "awa", postgres_binaries), stepwise)


def test_the_command_compares_and_writes(
    quiet_postgres: Server,
    postgres_binaries: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr("awa_migrations.snapshot.SNAPSHOT", tmp_path / "schema.sql")
    where = [f"--database-url={quiet_postgres.dsn()}", f"--programs={postgres_binaries}"]

    assert main([*where, "--check"]) == 65
    assert "+CREATE SCHEMA awa;" in capsys.readouterr().err
    assert main([*where, "--write"]) == 0
    assert main(where) == 0
    with quiet_postgres.admin() as admin:
        left = admin.execute("select 1 from pg_database where datname like 'awa_snapshot%'")
        assert left.fetchall() == []


async def test_missing_client_programs_are_named(postgres: Server, tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="createdb is not there"):
        await make_snapshot(postgres.dsn(), tmp_path)


def test_definitions_that_differ_in_their_numbers_only_are_shown_once() -> None:
    def table(name: str, column: str = "id") -> str:
        return f"-- Name: {name}; Type: TABLE\n\nCREATE TABLE {name} ({column});\n\n"

    text = table("slot_00") + table("slot_01") + table("other") + table("slot_02", "odd")

    assert condensed(text) == (
        "-- One of 2 that differ in their numbers only.\n"
        + table("slot_00")
        + table("other")
        + table("slot_02", "odd")
    )
