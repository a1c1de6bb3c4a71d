"""`python -m awa_migrations`: what a person, a script and a Job get from it."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from awa_migrations import migrate, packaged_catalog
from awa_migrations.snapshot import difference, dump
from support.migrating import (
    THREE_STEPS,
    Begin,
    Hold,
    Leftovers,
    MakeCatalog,
    Run,
    Waiting,
    WriteFiles,
    end,
)
from support.postgres import Database

NOWHERE = "postgresql://app:s3cret@127.0.0.1:1/app"


async def test_up_prints_one_json_line_and_its_progress_elsewhere(
    run: Run, write_files: WriteFiles, empty_database: Database
) -> None:
    outcome = await run("up", "--json", folder=write_files(), AWA_DATABASE_URL=empty_database.dsn)

    assert outcome.code == 0
    assert outcome.line.pop("seconds") > 0
    assert {key: value for key, value in outcome.line.items() if key != "seconds"} == {
        "from": 0,
        "to": 9,
        "applied": [7, 8, 9],
        "schemaVersion": 9,
    }
    assert [line.rpartition(" in ")[0] for line in outcome.err.splitlines()] == [
        "applied 0007_make_shelf.sql",
        "applied 0008_add_label.sql",
        "applied 0009_add_book.sql",
    ]


async def test_up_tells_people_the_version(
    run: Run, write_files: WriteFiles, empty_database: Database
) -> None:
    outcome = await run(
        "up", "--database-url", empty_database.dsn, "--schema=shop", "--to=8", folder=write_files()
    )

    assert outcome.code == 0
    assert outcome.out.startswith('schema "shop" is at version 8 (was 0; 2 applied in ')


async def test_up_applies_the_packaged_schema(run: Run, empty_database: Database) -> None:
    outcome = await run("up", "--json", AWA_DATABASE_URL=empty_database.dsn)

    assert outcome.code == 0, outcome.err
    assert outcome.line["schemaVersion"] == packaged_catalog().latest


async def test_the_termination_log_gets_the_line_of_a_success(
    run: Run, write_files: WriteFiles, empty_database: Database, tmp_path: Path
) -> None:
    log = tmp_path / "termination-log"

    outcome = await run(
        "up", "--termination-log", str(log),
        folder=write_files(), AWA_DATABASE_URL=empty_database.dsn,
    )  # fmt: skip

    assert outcome.code == 0
    (line,) = log.read_text().splitlines()
    assert json.loads(line)["schemaVersion"] == 9


async def test_the_termination_log_gets_the_reason_of_a_failure(
    run: Run, write_files: WriteFiles, empty_database: Database, tmp_path: Path
) -> None:
    log = tmp_path / "termination-log"
    broken = {**THREE_STEPS, "0009_add_book": f"select '{'é' * 5000}'::integer;"}

    outcome = await run(
        "up", "--json", "--termination-log", str(log),
        folder=write_files(broken), AWA_DATABASE_URL=empty_database.dsn,
    )  # fmt: skip

    assert outcome.code == 65
    (line,) = log.read_text().splitlines()
    # What Kubernetes keeps of it.
    assert len(line) < 4096
    assert json.loads(line) == outcome.line
    assert outcome.line["error"] == "MigrationFailed"
    assert outcome.line["exitCode"] == 65
    assert outcome.line["applied"] == [7, 8]


async def test_a_termination_log_that_cannot_be_written_does_not_undo_the_success(
    run: Run, write_files: WriteFiles, empty_database: Database, tmp_path: Path
) -> None:
    outcome = await run(
        "up", "--json", "--termination-log", str(tmp_path / "missing" / "log"),
        folder=write_files(), AWA_DATABASE_URL=empty_database.dsn,
    )  # fmt: skip

    assert outcome.code == 0
    assert outcome.line["to"] == 9
    assert "missing/log: No such file or directory" in outcome.err


async def test_status_says_what_is_pending_and_what_is_ahead(
    run: Run, write_files: WriteFiles, empty_database: Database
) -> None:
    old = write_files({"0007_make_shelf": THREE_STEPS["0007_make_shelf"]}, folder="old")
    new = write_files()
    where = {"AWA_DATABASE_URL": empty_database.dsn}

    fresh = await run("status", folder=new, **where)
    await run("up", "--to=8", folder=new, **where)
    behind = await run("status", "--json", folder=new, **where)
    ahead = await run("status", folder=old, **where)

    assert fresh.out == 'schema "awa" does not exist yet; this package has 9; to apply: 7, 8, 9\n'
    assert behind.line == {"current": 8, "latest": 9, "pending": [9], "ahead": []}
    assert "at version 8; this package has 7; applied by a later release: 8" in ahead.out
    assert {fresh.code, behind.code, ahead.code} == {0}


async def test_the_environment_gives_defaults_and_arguments_win(
    run: Run, write_files: WriteFiles, empty_database: Database
) -> None:
    environment = {"AWA_DATABASE_URL": NOWHERE, "AWA_SCHEMA": "from_environment"}

    outcome = await run(
        "status", "--database-url", empty_database.dsn, folder=write_files(), **environment
    )

    assert outcome.code == 0
    assert 'schema "from_environment"' in outcome.out


# --- exit codes; the other refusals of servers are told apart in test_access ------------------


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ([], "required: up|status|sql"),
        (["down"], "invalid choice"),
        (["up", "--to=soon"], "invalid int value"),
        (["up", "--lock-timeout=0"], "between 0.001"),
        (["up", "--lock-attempts=0"], "between 1 and 1000"),
        (["up"], "which database? Give --database-url or set AWA_DATABASE_URL"),
        (["up", "--database-url", NOWHERE, "--schema=Awa"], "InvalidSchemaName"),
        (["up", "--database-url", NOWHERE, "--to=10"], "UnknownVersion"),
        (["sql", "--from=9", "--to=8"], "nothing to print"),
    ],
)
async def test_64_for_a_call_that_makes_no_sense(
    run: Run, write_files: WriteFiles, arguments: list[str], told: str
) -> None:
    outcome = await run(*arguments, folder=write_files())

    assert outcome.code == 64
    assert told in outcome.err
    assert outcome.out == ""


async def test_65_for_what_stays_wrong(
    run: Run, write_files: WriteFiles, empty_database: Database
) -> None:
    where = {"AWA_DATABASE_URL": empty_database.dsn}
    newer = write_files({**THREE_STEPS, "0010_more": "select 1;"}, folder="newer")
    broken = write_files({**THREE_STEPS, "0010_more": "selec 1;"}, folder="broken")
    gap = write_files({"0001_a": "select 1;", "0003_b": "select 1;"}, folder="gap")

    sql_error = await run("up", folder=broken, **where)
    await run("up", folder=newer, **where)
    too_new = await run("up", folder=write_files(), **where)
    bad_files = await run("up", folder=gap, **where)

    assert (sql_error.code, "42601" in sql_error.err) == (65, True)
    assert (too_new.code, "SchemaTooNew" in too_new.err) == (65, True)
    assert (bad_files.code, "CatalogInvalid" in bad_files.err) == (65, True)


async def test_a_schema_that_is_too_new_is_reported_with_the_version_that_is_known(
    run: Run, write_files: WriteFiles, empty_database: Database, tmp_path: Path
) -> None:
    log = tmp_path / "termination"
    where = {"AWA_DATABASE_URL": empty_database.dsn, "AWA_TERMINATION_LOG": str(log)}
    newer = write_files({**THREE_STEPS, "0010_more": "select 1;"}, folder="newer")

    await run("up", folder=newer, **where)
    newest = json.loads(log.read_text())["schemaVersion"]
    await run("up", folder=write_files(), **where)

    facts = json.loads(log.read_text())
    assert (facts["error"], facts["knownVersion"]) == ("SchemaTooNew", newest - 1)


async def test_65_for_a_file_that_changed(
    run: Run, write_files: WriteFiles, empty_database: Database
) -> None:
    where = {"AWA_DATABASE_URL": empty_database.dsn}
    await run("up", folder=write_files(), **where)
    changed = {**THREE_STEPS, "0007_make_shelf": "select 7;"}

    outcome = await run("up", folder=write_files(changed, folder="changed"), **where)

    assert outcome.code == 65
    assert "HistoryChanged" in outcome.err
    assert "0007_make_shelf.sql has another checksum" in outcome.err


async def test_75_for_a_server_that_does_not_answer(run: Run, write_files: WriteFiles) -> None:
    outcome = await run("up", "--json", folder=write_files(), AWA_DATABASE_URL=NOWHERE)

    assert outcome.code == 75
    assert outcome.line["error"] == "DatabaseUnavailable"
    assert outcome.line["exitCode"] == 75
    assert "s3cret" not in outcome.out + outcome.err


async def test_78_for_what_somebody_has_to_set_right(
    run: Run, write_files: WriteFiles, empty_database: Database, role: str
) -> None:
    app = empty_database.server.dsn(empty_database.name, user=role)

    no_right = await run("up", folder=write_files(), AWA_DATABASE_URL=app)
    bad_url = await run("up", folder=write_files(), AWA_DATABASE_URL="mysql://app:s3cret@host/x")

    assert (no_right.code, "RightMissing" in no_right.err) == (78, True)
    assert (bad_url.code, "InvalidDatabaseUrl" in bad_url.err) == (78, True)
    assert "s3cret" not in bad_url.out + bad_url.err


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM])
async def test_a_signal_ends_it_at_once_with_nothing_left_behind(
    begin: Begin,
    write_files: WriteFiles,
    empty_database: Database,
    hold: Hold,
    waiting: Waiting,
    leftovers: Leftovers,
    lock_key: int,
    how: signal.Signals,
) -> None:
    holder = await hold(f"select pg_advisory_xact_lock({lock_key})")
    process = await begin("up", folder=write_files(), AWA_DATABASE_URL=empty_database.dsn)
    await waiting()

    process.send_signal(how)
    outcome = await end(process)

    assert outcome.code == (130 if how is signal.SIGINT else -signal.SIGTERM)
    assert "Traceback" not in outcome.err
    await holder.execute("rollback")
    assert await leftovers() == []


# --- sql ---------------------------------------------------------------------------------------


def psql(database: Database, programs: Path, script: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [programs / "psql", "--no-psqlrc", "--quiet", database.dsn],
        input=script, capture_output=True, text=True, check=False,
        env={"PATH": os.environ["PATH"]},
    )  # fmt: skip


async def test_the_printed_sql_makes_the_same_schema_as_up(
    run: Run, database: Database, empty_database: Database, postgres_binaries: Path
) -> None:
    printed = await run("sql")

    done = psql(empty_database, postgres_binaries, printed.out)

    assert (done.returncode, done.stderr) == (0, "")
    expected = await dump(database.dsn, "awa", postgres_binaries)
    assert not difference(expected, await dump(empty_database.dsn, "awa", postgres_binaries))
    # The migrator takes it for its own.
    report = await migrate(empty_database.dsn)
    assert (report.from_version, report.applied) == (packaged_catalog().latest, ())


def test_a_reader_of_the_sql_may_stop_reading(tmp_path: Path) -> None:
    errors = tmp_path / "errors"
    with errors.open("w") as file:
        printing = subprocess.Popen(
            [sys.executable, "-m", "awa_migrations", "sql"], stdout=subprocess.PIPE, stderr=file
        )
        assert printing.stdout is not None
        assert printing.stdout.readline().startswith(b'-- schema "awa"')
        printing.stdout.close()
        code = printing.wait(60)

    assert (code, errors.read_text()) == (0, "")


async def test_sql_of_a_range_continues_where_a_schema_is(
    run: Run,
    write_files: WriteFiles,
    make_catalog: MakeCatalog,
    empty_database: Database,
    postgres_binaries: Path,
) -> None:
    folder = write_files()
    await migrate(empty_database.dsn, schema="shop", catalog=make_catalog(), to=7)

    printed = await run("sql", "--schema=shop", "--from=7", "--to=8", folder=folder)
    done = psql(empty_database, postgres_binaries, printed.out)

    assert (done.returncode, done.stderr) == (0, "")
    assert "0007_make_shelf" not in printed.out
    report = await migrate(empty_database.dsn, schema="shop", catalog=make_catalog())
    assert (report.from_version, report.applied) == (8, (9,))


async def test_sql_that_does_not_fit_the_schema_is_refused_by_itself(
    run: Run,
    write_files: WriteFiles,
    make_catalog: MakeCatalog,
    empty_database: Database,
    postgres_binaries: Path,
) -> None:
    printed = await run("sql", "--from=8", folder=write_files())

    done = psql(empty_database, postgres_binaries, printed.out)
    assert done.returncode == 3
    assert 'schema "awa" is at version 0, this part continues from 8' in done.stderr

    await migrate(empty_database.dsn, catalog=make_catalog())
    whole = await run("sql", folder=write_files())
    again = psql(empty_database, postgres_binaries, whole.out)
    assert again.returncode == 3
    assert 'schema "awa" is at version 9, this part continues from 0' in again.stderr
