"""Every named query of the store, prepared as it is sent: nothing but the schema is looked through.

`statements.txt` says what each takes and answers; a change there is a change of what the store's
code must expect.
"""

import re
from pathlib import Path

import pytest

import awa_migrations
from awa._store.database import load_statements

DECLARED = Path(__file__).with_name("statements.txt")
STATEMENTS = load_statements("awa")


@pytest.fixture
async def bare(database, connect):
    """A session with an empty search_path, as every session of the store has it."""
    return await connect(database.dsn, server_settings={"search_path": ""})


def described(name: str, prepared) -> str:
    takes = ", ".join(type_name(kind) for kind in prepared.get_parameters())
    gives = ", ".join(f"{at.name} {type_name(at.type)}" for at in prepared.get_attributes())
    return f"{name}({takes}) -> {gives}"


def type_name(kind) -> str:
    return f"{kind.schema}.{kind.name}" if kind.schema != "pg_catalog" else kind.name


def declarations() -> dict[str, str]:
    lines = DECLARED.read_text().splitlines()
    return {line.partition("(")[0]: line for line in lines}


@pytest.mark.parametrize("name", sorted(STATEMENTS))
async def test_a_query_prepares_and_its_types_are_those_declared(bare, name):
    assert described(name, await bare.prepare(STATEMENTS[name])) == declarations().get(name)


def test_nothing_is_declared_that_does_not_exist():
    assert sorted(declarations()) == sorted(STATEMENTS)


@pytest.mark.parametrize("name", sorted(STATEMENTS))
def test_every_parameter_has_its_type_in_the_text(name):
    """So that no plan and no driver has to guess one."""
    used = set(re.findall(r"\$\d+", STATEMENTS[name]))
    typed = set(re.findall(r"(\$\d+)::", STATEMENTS[name]))
    assert used == typed


async def test_another_schema_is_asked_for_by_its_own_name(empty_database, connect):
    await awa_migrations.migrate(empty_database.dsn, schema="other_one")
    session = await connect(empty_database.dsn, server_settings={"search_path": ""})
    for text in load_statements("other_one").values():
        await session.prepare(text)


async def test_a_worker_s_role_may_do_all_that_the_store_asks_for(engine):
    """Functions with a version run with the owner's rights; hardly anything else is granted."""
    role = f"worker_{engine.database.name}"
    await engine.admin.execute(f"create role {role}")
    try:
        await engine.admin.fetchval("select awa.grant_v1($1, 'worker')", role)
        texts = " ".join(STATEMENTS.values())
        asked = set(re.findall(r"(?<!')awa\.(\w+)", texts)) - {"lanes"}  # by who may alone
        refused = await engine.admin.fetch(
            "select proname as name from pg_proc where pronamespace = 'awa'::regnamespace"
            " and proname = any ($2) and not has_function_privilege($1, oid, 'execute')"
            " union all select relname from pg_class where relnamespace = 'awa'::regnamespace"
            " and relname = any ($2) and not has_table_privilege($1, oid, 'select')",
            role, sorted(asked),
        )  # fmt: skip
    finally:
        await engine.admin.execute(f"drop owned by {role}; drop role {role}")
    assert {row["name"] for row in refused} == set()
