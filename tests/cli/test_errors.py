"""Each way in which a command can fail has its exit code and says what to do."""

import socket
from importlib.metadata import version

import pytest

from support.command.invoke import run_awa

LOOKS = [["job", "list"], ["queue", "list"], ["job", "show", "1"], ["enqueue", "mail"]]


@pytest.mark.parametrize("words", LOOKS)
async def test_without_any_database_the_command_says_how_to_name_one(bare_awa, words):
    ended = await bare_awa(*words)
    assert (ended.code, ended.output) == (78, "")
    for way in ("--database-url", "AWA_DATABASE_URL", "awa up", "awa demo"):
        assert way in ended.errors


async def test_a_folder_without_a_database_is_named(bare_awa):
    ended = await bare_awa("job", "list", "--dir", "elsewhere")
    assert ended.code == 78
    assert "there is no database in elsewhere" in ended.errors


async def test_a_folder_and_an_address_are_two_databases(bare_awa):
    ended = await bare_awa("job", "list", "--dir", "x", "--database-url", "postgresql://h/d")
    assert ended.code == 2
    assert "not both" in ended.errors


@pytest.mark.parametrize("address", ["mysql://h/d", "localhost", "postgresql://[h/d"])
async def test_an_address_that_is_none_is_a_matter_of_configuration(bare_awa, address):
    ended = await bare_awa("job", "list", "--database-url", address)
    assert ended.code == 78
    assert "postgresql://user@host/database" in ended.errors


async def test_a_server_that_does_not_answer_may_answer_later(bare_awa):
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        port = nobody.getsockname()[1]
        ended = await bare_awa(
            "job", "list", AWA_DATABASE_URL=f"postgresql://u:pw@127.0.0.1:{port}/d"
        )
    assert (ended.code, ended.output) == (75, "")
    assert "check that it runs" in ended.errors
    assert "pw" not in ended.errors


async def test_a_database_that_does_not_exist_will_not_exist_later(bare_awa, postgres):
    ended = await bare_awa("job", "list", "--database-url", postgres.dsn("no_such_database"))
    assert ended.code == 78
    assert "does not exist" in ended.errors


@pytest.mark.parametrize("words", LOOKS)
async def test_a_database_without_the_schema_says_to_migrate(bare_awa, empty_database, words):
    ended = await bare_awa(*words, "--database-url", empty_database.dsn)
    assert ended.code == 78
    assert "run `awa migrate`" in ended.errors


async def test_another_schema_name_is_another_schema(bare_awa, database):
    ended = await bare_awa("queue", "list", "--database-url", database.dsn, "--schema", "other")
    assert ended.code == 78
    ended = await bare_awa("queue", "list", AWA_DATABASE_URL=database.dsn, AWA_SCHEMA="other")
    assert ended.code == 78
    assert (await bare_awa("queue", "list", "--database-url", database.dsn)).code == 0


async def test_a_role_without_rights_is_told_about_rights(bare_awa, database):
    role = f"nobody_{database.name}"
    with database.server.admin() as admin:
        admin.execute(f"create role {role} login")
    try:
        dsn = database.dsn.replace("postgres@", f"{role}@")
        ended = await bare_awa("job", "list", "--database-url", dsn)
        assert ended.code == 78
        assert "right" in ended.errors
    finally:
        with database.server.admin() as admin:
            admin.execute(f"drop role {role}")


async def test_the_option_wins_over_the_environment(bare_awa, database):
    ended = await bare_awa(
        "job", "list", "--database-url", database.dsn, AWA_DATABASE_URL="postgresql://nowhere/x"
    )
    assert ended.code == 0


async def test_without_a_command_the_help_is_shown(bare_awa):
    ended = await bare_awa()
    assert ended.code == 2
    for name in ("up", "demo", "worker", "migrate", "enqueue", "job", "queue"):
        assert f"│ {name} " in ended.errors + ended.output


async def test_the_version_is_that_of_the_distribution():
    assert (await run_awa("--version")).output == f"awa {version('awa-worker')}\n"
