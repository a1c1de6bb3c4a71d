"""What is wrong with a job is told at the call, alike on every path, and nothing is written."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import asyncpg
import psycopg
import pytest
from pydantic import BaseModel
from sqlalchemy import create_engine
from sqlalchemy.ext.asyncio import create_async_engine

from awa import AsyncClient, AwaError, Client, SerializationError, ValidationError
from awa.bridge import insert_job, insert_job_sync
from support.clients import Mail, job_count, unique_claims
from support.postgres import Database

GOOD = {"to": "good"}
MIB = 1024 * 1024


class Loose(BaseModel):
    value: Any = None


@dataclass
class Wrong:
    """A job that must not be enqueued, why, and a part of what is said."""

    args: Any
    options: dict[str, Any]
    error: type[Exception]
    says: str


def _args(value: Any, says: str, error: type[Exception] = SerializationError) -> Wrong:
    return Wrong(value, {}, error, says)


def _option(name: str, value: Any, says: str, error: type[Exception] = ValidationError) -> Wrong:
    return Wrong(GOOD, {name: value}, error, says)


TOO_DEEP: Any = []
for _ in range(100):
    TOO_DEEP = [TOO_DEEP]
NOON = datetime(2030, 1, 1, 12)  # noqa: DTZ001 - naive is what is tested

TABLE = {
    "too large": _args({"x": "y" * MIB}, "the limit is 1048576"),
    "NUL in a text": _args({"x": ["a\0b"]}, r"args\.x\[0\]: the str contains a NUL"),
    "NUL in a key": _args({"a\0b": 1}, "NUL"),
    "NUL in a dataclass": _args(Mail("a\0b"), r"args\.to: .*NUL"),
    "NUL in a model": _args(Loose(value="a\0b"), r"args\.value: .*NUL"),
    "lone surrogate": _args({"x": "\ud800"}, "surrogate"),
    "NaN": _args({"x": float("nan")}, "not finite"),
    "NaN in a model": _args(Loose(value=float("nan")), "not finite"),
    "infinity": _args({"x": float("-inf")}, "not finite"),
    "large number": _args({"x": 10**30}, "64 bits"),
    "set": _args({"x": {1}}, r"args\.x: a set has no JSON form; pass a sorted list"),
    "bytes": _args({"x": b"y"}, "base64"),
    "decimal": _args({"x": Decimal(1)}, "Decimal has no JSON form"),
    "time": _args({"x": datetime.now(UTC)}, "isoformat"),
    "key that is no text": _args({1: 2}, "keys are str"),
    "too deep": _args({"x": TOO_DEEP}, "nested deeper than 100"),
    "list": _args([1], "not a list", ValidationError),
    "text": _args("x", "not a str", ValidationError),
    "nothing": _args(None, "not a NoneType", ValidationError),
    "priority 0": _option("priority", 0, "priority is 0; it takes 1 to 4"),
    "priority 5": _option("priority", 5, "priority is 5"),
    "priority text": _option("priority", "1", "priority is an int"),
    "priority bool": _option("priority", True, "priority is an int"),
    "no queue name": _option("queue", "", "queue has 0 characters"),
    "long queue name": _option("queue", "q" * 201, "queue has 201 characters"),
    "NUL in a queue name": _option("queue", "a\0b", "queue contains a character"),
    "newline in a queue name": _option("queue", "a\nb", "queue contains a character"),
    "queue of a wrong type": _option("queue", 7, "queue is a str"),
    "no attempts": _option("max_attempts", 0, "max_attempts is 0"),
    "many attempts": _option("max_attempts", 1001, "max_attempts is 1001"),
    "naive time": _option("run_at", NOON, "run_at has no time zone"),
    "naive time as text": _option("run_at", "2030-01-01T12:00:00", "run_at has no time zone"),
    "text that is no time": _option("run_at", "soon", "run_at is not a time"),
    "time of a wrong type": _option("run_at", 1_900_000_000, "run_at is a datetime"),
    "delay": _option("run_at", timedelta(hours=1), "run_at is a datetime"),
    "one tag": _option("tags", "new", "tags are a list"),
    "many tags": _option("tags", [f"t{n}" for n in range(21)], "takes up to 20"),
    "empty tag": _option("tags", ["a", ""], r"tags\[1\] has 0 characters"),
    "NUL in a tag": _option("tags", ["a\0"], r"tags\[0\] contains"),
    "large metadata": _option("metadata", {"x": "y" * 65536}, "the limit is 65536",
                              SerializationError),
    "NUL in metadata": _option("metadata", {"x": "\0"}, r"metadata\.x: .*NUL", SerializationError),
    "metadata of a wrong type": _option("metadata", [1], "metadata is a dict"),
    "unknown unique option": _option("unique_opts", {"by_moon": True}, "no option 'by_moon'"),
    "no unique states": _option("unique_opts", {"states": []}, "states"),
    "unknown unique state": _option("unique_opts", {"states": ["asleep"]}, "state"),
    "option that does not exist": _option("prio", 1, "unknown option 'prio'", TypeError),
    "kind with a NUL": _option("kind", "a\0b", "kind contains"),
    "empty kind": _option("kind", "", "kind has 0 characters"),
    "long kind": _option("kind", "k" * 201, "kind has 201 characters"),
}  # fmt: skip

type Enqueue = Callable[[Database, Wrong], Awaitable[Any]]


async def _client(database: Database, work: Callable[[AsyncClient], Awaitable[Any]]) -> None:
    async with AsyncClient(database.dsn, 1) as client:
        await work(client)


def _kind(wrong: Wrong) -> dict[str, Any]:
    return {"kind": "mail", **wrong.options}


async def single(database: Database, wrong: Wrong) -> None:
    await _client(database, lambda c: c.insert(wrong.args, **_kind(wrong)))


async def many(database: Database, wrong: Wrong) -> None:
    await _client(database, lambda c: c.insert_many([GOOD, wrong.args], **_kind(wrong)))


async def forgiving(database: Database, wrong: Wrong) -> None:
    await _client(database, lambda c: c.insert_many_copy([GOOD, wrong.args], **_kind(wrong)))


async def copy(database: Database, wrong: Wrong) -> None:
    await _client(database, lambda c: c.enqueue_many_copy([GOOD, wrong.args], **_kind(wrong)))


async def transaction(database: Database, wrong: Wrong) -> None:
    async with AsyncClient(database.dsn, 1) as client, client.transaction() as opened:
        await opened.insert(GOOD, kind="mail")
        await opened.insert(wrong.args, **_kind(wrong))


async def blocking(database: Database, wrong: Wrong) -> None:
    def work() -> None:
        with Client(database.dsn, 1) as client, client.transaction() as opened:
            opened.insert(GOOD, kind="mail")
            client.insert(wrong.args, **_kind(wrong))

    await asyncio.to_thread(work)


async def by_asyncpg(database: Database, wrong: Wrong) -> None:
    connection = await asyncpg.connect(database.dsn)
    try:
        async with connection.transaction():
            await insert_job(connection, GOOD, kind="mail")
            await insert_job(connection, wrong.args, **_kind(wrong))
    finally:
        await connection.close()


async def by_psycopg(database: Database, wrong: Wrong) -> None:
    async with await psycopg.AsyncConnection.connect(database.dsn) as connection:
        await insert_job(connection, GOOD, kind="mail")
        await insert_job(connection, wrong.args, **_kind(wrong))


async def by_psycopg_blocking(database: Database, wrong: Wrong) -> None:
    with psycopg.connect(database.dsn) as connection:
        insert_job_sync(connection, GOOD, kind="mail")
        insert_job_sync(connection, wrong.args, **_kind(wrong))


async def by_sqlalchemy(database: Database, wrong: Wrong) -> None:
    engine = create_async_engine(_address(database, "asyncpg"))
    try:
        async with engine.begin() as connection:
            await insert_job(connection, GOOD, kind="mail")
            await insert_job(connection, wrong.args, **_kind(wrong))
    finally:
        await engine.dispose()


async def by_sqlalchemy_blocking(database: Database, wrong: Wrong) -> None:
    engine = create_engine(_address(database, "psycopg"))
    try:
        with engine.begin() as connection:
            insert_job_sync(connection, GOOD, kind="mail")
            insert_job_sync(connection, wrong.args, **_kind(wrong))
    finally:
        engine.dispose()


def _address(database: Database, driver: str) -> str:
    return database.dsn.replace("postgresql://", f"postgresql+{driver}://", 1)


PATHS: list[Enqueue] = [
    single, many, forgiving, copy, transaction, blocking, by_asyncpg, by_psycopg,
    by_psycopg_blocking, by_sqlalchemy, by_sqlalchemy_blocking,
]  # fmt: skip


@pytest.mark.parametrize("path", PATHS, ids=lambda path: path.__name__)
async def test_a_wrong_job_is_refused_on_every_path_and_nothing_is_written(
    database: Database, session: asyncpg.Connection, path: Enqueue
) -> None:
    for name, wrong in TABLE.items():
        with pytest.raises(wrong.error, match=wrong.says) as refusal:
            await path(database, wrong)
        assert isinstance(refusal.value, AwaError | TypeError), name
        assert len(str(refusal.value)) < 300, name
    assert (await job_count(session), await unique_claims(session)) == (0, 0)


@pytest.mark.parametrize("call", ["insert_many", "insert_many_copy", "enqueue_many_copy"])
@pytest.mark.parametrize("at", [0, 1, 999])
async def test_one_wrong_job_of_a_thousand_is_named_by_its_position(
    client: AsyncClient, session: asyncpg.Connection, call: str, at: int
) -> None:
    args: list[Any] = [Mail("a", n) for n in range(1000)]
    args[at] = {"x": {1}}

    with pytest.raises(SerializationError) as refusal:
        await getattr(client, call)(args, kind="mail", queue="new")

    assert refusal.value.__notes__ == [f"job at position {at}; nothing was enqueued"]
    assert await job_count(session) == 0
    assert await session.fetchval("select count(*) from awa.queue_meta") == 0


async def test_a_wrong_option_of_one_job_is_named_by_its_position(client: AsyncClient) -> None:
    with pytest.raises(ValidationError, match="priority is 9") as refusal:
        await client.insert_many([Mail("a"), Mail("b")], opts=[None, {"priority": 9}])
    assert refusal.value.__notes__ == ["job at position 1; nothing was enqueued"]


NUL_JSON = json.dumps({"x": "\0"})


@pytest.mark.parametrize(
    ("arguments", "sqlstate"),
    [
        ("'q', 0::smallint, array['k'], array['{}']::jsonb[]", "22023"),
        ("'q', 5::smallint, array['k'], array['{}']::jsonb[]", "22023"),
        ("null, 2::smallint, array['k'], array['{}']::jsonb[]", "22023"),
        ("'', 2::smallint, array['k'], array['{}']::jsonb[]", "22023"),
        ("repeat('q', 201), 2::smallint, array['k'], array['{}']::jsonb[]", "22023"),
        ("e'a\\nb', 2::smallint, array['k'], array['{}']::jsonb[]", "22023"),
        ("'q', 2::smallint, array[''], array['{}']::jsonb[]", "22023"),
        ("'q', 2::smallint, array[null::text], array['{}']::jsonb[]", "22023"),
        ("'q', 2::smallint, array[repeat('k', 201)], array['{}']::jsonb[]", "22023"),
        ("'q', 2::smallint, array['k', 'k'], array['{}']::jsonb[]", "22023"),
        ("'q', 2::smallint, null, array['{}']::jsonb[]", "22023"),
        ("'q', 2::smallint, array['k'], array['{}']::jsonb[], null, array[0]::smallint[]", "22023"),
        ("'q', 2::smallint, array['k'], array[null]::jsonb[]", "23502"),
        (f"'q', 2::smallint, array['k'], array['{NUL_JSON}']::jsonb[]", "22P05"),
    ],
)
async def test_the_sql_function_refuses_it_too(
    session: asyncpg.Connection, arguments: str, sqlstate: str
) -> None:
    with pytest.raises(asyncpg.PostgresError) as refusal:
        await session.fetchval(f"select awa.enqueue_v1({arguments})")
    assert refusal.value.sqlstate == sqlstate
    assert await job_count(session) == 0
