"""`awa migrate`: the schema, the lanes, and who may use it."""

import json
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import asyncpg
import pytest
from typer.testing import CliRunner

import awa_migrations
from awa import AsyncClient, JobState, PermissionMissing, UniqueConflict
from awa.cli.app import app
from awa.errors import AwaError
from support.waiting import eventually

LATEST = awa_migrations.packaged_catalog().latest
PUBLIC_FUNCTIONS = (
    "select proname::text from pg_proc where pronamespace = 'awa'::regnamespace"
    " and has_function_privilege('public', oid, 'execute')"
)
FUNCTIONS_OF = (
    "select proname::text from pg_proc where pronamespace = 'awa'::regnamespace"
    " and has_function_privilege($1, oid, 'execute') order by 1"
)
TABLES_OF = (
    "select relname::text from pg_class where relnamespace = 'awa'::regnamespace"
    " and relkind in ('r', 'p', 'v', 'S') and (case when relkind = 'S'"
    " then has_sequence_privilege($1, oid, 'usage, select, update')"
    " else has_table_privilege($1, oid, 'select, insert, update, delete, truncate') end) order by 1"
)
WATCHES = {"queue_ids_v1", "signals_v1", "workers_v1", "pod_loads_v1", "rescue_lost_v1"}
READS = {"get_job_v1", "get_job_v2", "list_jobs_v1", "queue_counts_v1", "queue_ids_v1",
         "signals_v1", "size_of", "rank_in", "unknown_kinds_v1"}  # fmt: skip
WRITES = {"enqueue_v1", "reserve_v1", "register_lane_v1", "cancel_v1", "retry_v1"}


@dataclass(frozen=True)
class Ended:
    """How the command ended."""

    returncode: int
    stdout: str
    stderr: str


def awa_migrate(*arguments: str, address: str | None, log: Path | None = None) -> Ended:
    """Run the command in a thread, as it has an event loop of its own."""

    def run() -> Ended:
        named = None if log is None else str(log)
        environ = {"AWA_DATABASE_URL": address, "AWA_TERMINATION_LOG": named, "COLUMNS": "100"}
        done = CliRunner().invoke(app, ["migrate", *arguments], env=environ, prog_name="awa")
        if done.exception is not None and not isinstance(done.exception, SystemExit):
            raise done.exception
        return Ended(done.exit_code, done.stdout, done.stderr)

    with ThreadPoolExecutor(1) as thread:
        return thread.submit(run).result()


@pytest.fixture
async def role(database) -> AsyncIterator[str]:
    """A role that may log in and nothing else, dropped after the test."""
    name = f"role_{database.name}"
    admin = await asyncpg.connect(database.dsn)
    await admin.execute(f"create role {name} login")
    yield name
    await admin.execute(f"drop owned by {name}; drop role {name}")
    await admin.close()


@pytest.fixture
def address(database, role):
    """The address of the database for that role."""
    return database.server.dsn(database.name, user=role)


def test_it_migrates_and_says_so_for_people_and_for_a_job(empty_database, tmp_path):
    log = tmp_path / "termination"
    done = awa_migrate(
        "--json", "--lane-pool", "260", "--termination-log", str(log), address=empty_database.dsn
    )
    assert done.returncode == 0
    facts = json.loads(done.stdout)
    assert done.stdout.count("\n") == 1
    assert (facts["from"], facts["to"], facts["schemaVersion"]) == (0, LATEST, LATEST)
    assert facts["applied"] == list(range(43, LATEST + 1))
    assert facts["lanes"] == 260
    assert json.loads(log.read_text()) == facts
    again = awa_migrate(address=empty_database.dsn)
    assert again.returncode == 0
    assert again.stdout.startswith(f'schema "awa" is at version {LATEST} (was {LATEST}; 0 applied')


def test_it_stops_where_it_is_told_shows_status_and_prints_sql(empty_database):
    stopped = awa_migrate("--to", "51", "--schema", "other", address=empty_database.dsn)
    assert 'schema "other" is at version 51' in stopped.stdout
    status = awa_migrate("--status", "--json", "--schema", "other", address=empty_database.dsn)
    assert json.loads(status.stdout)["pending"] == [52]
    script = awa_migrate("--sql", "--from", "51", "--schema", "other", address=None)
    assert script.returncode == 0
    assert 'alter table "other".receipt_completion_batches' in script.stdout.lower() or (
        "receipt_completion_batches add column" in script.stdout
    )


@pytest.mark.parametrize(
    ("arguments", "address", "code", "said"),
    [
        ((), None, 64, "which database?"),
        ((), "mysql://u:hunter2@h/d", 78, "expected postgresql://"),
        (("--to", "7"), "postgresql://127.0.0.1:1/d", 64, "version 7 is not known"),
        ((), "postgresql://127.0.0.1:1/d", 75, "DatabaseUnavailable"),
        (("--schema", "No"), "postgresql://127.0.0.1:1/d", 64, "cannot be a schema name"),
        (("--status", "--sql"), "postgresql://127.0.0.1:1/d", 64, "--status and --sql change"),
        (("--from", "51"), "postgresql://127.0.0.1:1/d", 64, "--from goes with --sql"),
    ],
)
def test_what_goes_wrong_is_one_line_and_a_code_that_tells_whether_to_retry(
    arguments, address, code, said
):
    failed = awa_migrate(*arguments, address=address)
    assert failed.returncode == code
    assert failed.stdout == ""
    (line,) = failed.stderr.splitlines()
    assert line.startswith("awa: ")
    assert said in line
    assert "hunter2" not in line


def test_a_failure_is_one_line_of_json_too(tmp_path):
    log = tmp_path / "termination"
    failed = awa_migrate(
        "--json", "--termination-log", str(log), address="postgresql://127.0.0.1:1/d"
    )
    facts = json.loads(failed.stdout)
    assert (facts["error"], facts["exitCode"]) == ("DatabaseUnavailable", 75)
    assert json.loads(log.read_text()) == facts


def test_a_job_gets_its_report_where_the_environment_says(database, tmp_path):
    log = tmp_path / "termination"
    assert awa_migrate(address=database.dsn, log=log).returncode == 0
    assert json.loads(log.read_text())["schemaVersion"] == LATEST


async def test_a_schema_that_is_too_new_is_reported_with_the_version_that_is_known(
    database, tmp_path
):
    log = tmp_path / "termination"
    admin = await asyncpg.connect(database.dsn)
    await admin.execute(
        "insert into awa.schema_version (version, name, kind, checksum, duration)"
        " select version + 1, 'later', kind, checksum, duration"
        " from awa.schema_version order by version desc limit 1"
    )
    await admin.close()
    assert awa_migrate(address=database.dsn, log=log).returncode == 65
    facts = json.loads(log.read_text())
    assert (facts["error"], facts["knownVersion"]) == ("SchemaTooNew", LATEST)


def test_a_role_that_does_not_exist_is_said_and_nothing_is_granted(database):
    failed = awa_migrate("--grant", "nobody_of_that_name", address=database.dsn)
    assert failed.returncode == 64
    assert "there is no role nobody_of_that_name; create it first" in failed.stderr


def test_who_does_not_own_the_schema_cannot_grant_or_grow(address, role):
    for arguments in (("--grant", role), ("--lane-pool", "300")):
        failed = awa_migrate(*arguments, address=address)
        assert failed.returncode == 78


async def test_nobody_may_call_anything_until_it_is_granted(database, connect, role):
    session = await connect(database.dsn)
    assert await session.fetch(PUBLIC_FUNCTIONS) == []
    assert await session.fetch(FUNCTIONS_OF, role) == []
    assert await session.fetch(TABLES_OF, role) == []


@pytest.mark.parametrize(
    ("level", "functions"),
    [("monitor", WATCHES), ("reader", READS), ("producer", READS | WRITES), ("worker", None)],
)
async def test_a_level_is_exactly_its_functions_and_no_table(
    database, connect, role, level, functions
):
    granted = awa_migrate("--grant", role, "--level", level, "--json", address=database.dsn)
    assert (granted.returncode, granted.stderr) == (0, "")
    assert json.loads(granted.stdout)["granted"] == [role]
    session = await connect(database.dsn)
    found = {row["proname"] for row in await session.fetch(FUNCTIONS_OF, role)}
    if functions is None:
        functions = {
            row["proname"]
            for row in await session.fetch(
                "select proname::text from pg_proc where pronamespace = 'awa'::regnamespace"
                " and (proname ~ '_v[0-9]+$' and proname <> 'grant_v1'"
                " or proname in ('size_of', 'rank_in'))"
            )
        }
        assert {"claim_v1", "finish_v2", "settle_v1", "prune_v1"} < functions
    assert found == functions
    tables = [row["relname"] for row in await session.fetch(TABLES_OF, role)]
    assert tables == ["schema_version", *([] if level == "monitor" else ["terminal_jobs"])]


async def test_every_role_may_have_a_level_of_its_own(database, connect, role):
    granted = awa_migrate(
        "--grant", f"{role}:monitor", "--grant", "postgres", "--level", "reader", "--json",
        address=database.dsn,
    )  # fmt: skip
    assert (granted.returncode, granted.stderr) == (0, "")
    assert json.loads(granted.stdout)["levels"] == {role: "monitor", "postgres": "reader"}
    session = await connect(database.dsn)
    found = {row["proname"] for row in await session.fetch(FUNCTIONS_OF, role)}
    assert found == WATCHES
    odd = awa_migrate("--grant", f"{role}:nothing", address=database.dsn)
    assert odd.returncode == 64
    assert f"there is no role {role}:nothing" in odd.stderr


async def test_a_reader_reads_and_a_producer_enqueues_and_no_more(database, address, role):
    async with AsyncClient(database.dsn, 1) as owner, AsyncClient(address, 2) as client:
        job = await owner.insert({"key": "a"}, kind="quick")
        with pytest.raises(AwaError):
            await client.get_job(job.id)
        assert (
            awa_migrate("--grant", role, "--level", "reader", address=database.dsn).returncode == 0
        )
        assert (await client.get_job(job.id)).state is JobState.Available
        assert len(await client.list_jobs()) == 1
        assert (await client.queue_counts("default"))[0].available == 1
        with pytest.raises(PermissionMissing):
            await client.insert({"key": "b"}, kind="quick")
        assert (
            awa_migrate("--grant", role, "--level", "producer", address=database.dsn).returncode
            == 0
        )
        made = await client.insert({"key": "b"}, kind="quick", unique_opts={"by_args": True})
        with pytest.raises(UniqueConflict):
            await client.insert({"key": "b"}, kind="quick", unique_opts={"by_args": True})
        async with client.transaction() as transaction:
            await transaction.insert({"key": "c"}, kind="quick", queue="another")
        assert (await client.cancel(made.id)).state is JobState.Cancelled
        assert (await client.retry(made.id)).state is JobState.Available
        with pytest.raises(PermissionMissing):
            await client.pause_queue("default")


async def test_a_worker_needs_no_more_than_its_level(database, address, role):
    assert awa_migrate("--grant", role, "--level", "worker", address=database.dsn).returncode == 0
    async with AsyncClient(address, 4) as client:

        @client.task(dict, kind="quick")
        async def quick(job):
            job.set_output({"n": job.args["n"]})

        @client.task(dict, kind="fail")
        async def fail(_):
            raise ValueError("no")

        await client.insert_many([{"n": n} for n in range(50)], kind="quick")
        await client.insert({}, kind="fail", max_attempts=1)
        await client.start(cleanup_interval_ms=50, rescue_interval_ms=50, deadline_interval_ms=50)

        async def done():
            (counts,) = await client.queue_counts("default")
            return counts.completed == 50 and counts.failed == 1

        await eventually(done)
        assert client.worker is not None
        duties = client.worker.metrics.duties
        names = (
            "promote",
            "rescue",
            "deadline",
            "rotate",
            "evacuate",
            "prune",
            "retire",
            "transactions",
        )
        await eventually(lambda: all(duties[(name, "done")] for name in names))
        assert not any(count for (_, how), count in duties.items() if how == "failed")
        await client.shutdown()
        assert {job.output["n"] for job in await full(client)} == set(range(50))


async def full(client):
    """Return the completed jobs with their outputs."""
    return [await client.get_job(job.id) for job in await client.list_jobs("completed")]


async def test_a_role_granted_before_outputs_keeps_working_after_them(empty_database, connect):
    await awa_migrations.migrate(empty_database.dsn, to=51)
    session = await connect(empty_database.dsn)
    role = f"early_{empty_database.name}"
    await session.execute(f"create role {role} login")
    try:
        await session.execute(f"select awa.grant_v1('{role}', 'worker')")
        assert awa_migrate(address=empty_database.dsn).returncode == 0
        found = {row["proname"] for row in await session.fetch(FUNCTIONS_OF, role)}
        assert {"finish_v2", "get_job_v2", "rank_in"} <= found
        assert "output_of" not in found
        assert await session.fetch(PUBLIC_FUNCTIONS) == []
    finally:
        await session.execute(f"drop owned by {role}; drop role {role}")
