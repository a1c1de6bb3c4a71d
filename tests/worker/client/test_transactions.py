"""Jobs in a transaction: they exist when it commits, and what goes wrong in it is told."""

import asyncio

import asyncpg
import pytest

from awa import AsyncClient, DatabaseError, DatabaseUnreachable, UniqueConflict, ValidationError
from support.clients import Mail, MakeClient, Resize, job_count
from support.waiting import eventually


async def test_jobs_exist_when_the_transaction_commits(
    client: AsyncClient, session: asyncpg.Connection
) -> None:
    await session.execute("create table public.orders (id int primary key)")

    async with client.transaction() as transaction:
        assert await transaction.execute("insert into public.orders values ($1)", 7) == "INSERT 0 1"
        job = await transaction.insert(Mail("a"), queue="mails")
        await transaction.insert_many([Resize("x"), Resize("y")], opts=[{"queue": "images"}, None])
        assert await transaction.fetch("select id from public.orders") == [{"id": 7}]
        assert await job_count(session) == 0

    assert (await client.get_job(job.id)).queue == "mails"
    assert await job_count(session) == 3
    assert {counts.queue for counts in await client.queue_counts()} == {
        "mails", "images", "default",
    }  # fmt: skip


class Refused(Exception):
    pass


@pytest.mark.parametrize("error", [Refused(), TimeoutError("mine"), OSError("mine")])
async def test_an_error_in_the_block_rolls_back_and_comes_out_as_it_is(
    client: AsyncClient, session: asyncpg.Connection, error: Exception
) -> None:
    async def work() -> None:
        async with client.transaction() as transaction:
            await transaction.insert(Mail("a"))
            raise error

    with pytest.raises(type(error)) as raised:
        await work()

    assert raised.value is error
    assert await job_count(session) == 0


async def test_a_conflict_rolls_the_whole_transaction_back(
    client: AsyncClient, session: asyncpg.Connection
) -> None:
    await client.insert(Mail("a"), unique_opts={})

    async def work() -> None:
        async with client.transaction() as transaction:
            await transaction.insert(Mail("b"))
            await transaction.insert(Mail("a"), unique_opts={})

    with pytest.raises(UniqueConflict):
        await work()

    assert await job_count(session) == 1


async def test_a_swallowed_error_does_not_look_like_a_commit(
    client: AsyncClient, session: asyncpg.Connection
) -> None:
    await client.insert(Mail("a"), unique_opts={})

    async def work() -> None:
        async with client.transaction() as transaction:
            await transaction.insert(Mail("b"))
            with pytest.raises(UniqueConflict):
                await transaction.insert(Mail("a"), unique_opts={})

    with pytest.raises(DatabaseError, match="can only be rolled back") as raised:
        await work()

    assert raised.value.sqlstate == "25P02"
    assert await job_count(session) == 1


async def test_a_savepoint_of_the_callers_own_saves_the_transaction(
    client: AsyncClient, session: asyncpg.Connection
) -> None:
    await client.insert(Mail("a"), unique_opts={})

    async with client.transaction() as transaction:
        await transaction.insert(Mail("b"))
        await transaction.execute("savepoint here")
        with pytest.raises(UniqueConflict):
            await transaction.insert(Mail("a"), unique_opts={})
        await transaction.execute("rollback to savepoint here")

    assert await job_count(session) == 2


async def test_an_error_in_a_statement_of_the_callers_own_is_not_about_our_schema(
    client: AsyncClient,
) -> None:
    async def work() -> None:
        async with client.transaction() as transaction:
            await transaction.execute("insert into no_such_table values (1)")

    with pytest.raises(DatabaseError, match='relation "no_such_table" does not exist') as raised:
        await work()

    assert raised.value.sqlstate == "42P01"


async def test_a_transaction_takes_one_call_at_a_time_and_says_so(
    client: AsyncClient, session: asyncpg.Connection
) -> None:
    async def work() -> None:
        async with client.transaction() as transaction:
            await asyncio.gather(*(transaction.insert(Mail("a", n)) for n in range(5)))

    with pytest.raises(ValidationError, match="one call at a time"):
        await work()

    assert await job_count(session) == 0


@pytest.mark.parametrize("connections", [1, 16])
async def test_sixteen_transactions_at_once_need_no_connection_but_their_own(
    make_client: MakeClient, session: asyncpg.Connection, connections: int
) -> None:
    client = make_client(max_connections=connections)
    all_open = asyncio.Barrier(connections)

    async def work(number: int) -> None:
        async with client.transaction() as transaction:
            await all_open.wait()
            # A lane that nobody knows yet for each, and one that they all want first.
            await transaction.insert(Mail("a", number), queue=f"own-{number}")
            await transaction.insert(Mail("b", number), queue="common")

    async with asyncio.timeout(30):
        await asyncio.gather(*(work(number) for number in range(connections)))
    assert await job_count(session) == 2 * connections


async def test_an_open_transaction_does_not_hold_up_others_that_use_a_new_queue(
    make_client: MakeClient, session: asyncpg.Connection
) -> None:
    one, other = make_client(), make_client()
    async with one.transaction() as first:
        await first.insert(Mail("a"), queue="fresh")
        async with asyncio.timeout(10), other.transaction() as second:
            await second.insert(Mail("b"), queue="fresh")
        assert await job_count(session) == 1
    assert await job_count(session) == 2


async def test_a_lost_connection_ends_the_transaction_and_the_client_goes_on(
    client: AsyncClient, session: asyncpg.Connection
) -> None:
    async def work() -> None:
        async with client.transaction() as transaction:
            (row,) = await transaction.fetch("select pg_backend_pid() as pid")
            await transaction.insert(Mail("a"))
            await session.execute("select pg_terminate_backend($1, 5000)", row["pid"])
            await transaction.insert(Mail("b"))

    with pytest.raises(DatabaseUnreachable):
        await work()

    assert await job_count(session) == 0
    await client.insert(Mail("c"))
    assert await job_count(session) == 1


async def test_a_cancelled_transaction_rolls_back_and_gives_its_connection_back(
    make_client: MakeClient, session: asyncpg.Connection
) -> None:
    client = make_client(max_connections=1)

    async def work() -> None:
        async with client.transaction() as transaction:
            await transaction.insert(Mail("a"))
            await transaction.execute("select pg_sleep(60)")

    task = asyncio.create_task(work())
    sleeps = "select count(*) from pg_stat_activity where wait_event = 'PgSleep'"
    await eventually(
        lambda: session.fetchval(f"{sleeps} and datname = current_database()"),
        what="the statement runs",
    )
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task

    await client.insert(Mail("b"))
    assert [job.args["to"] for job in await client.list_jobs()] == ["b"]


@pytest.mark.parametrize("ends", ["commits", "rolls back"])
async def test_what_a_statement_of_the_block_sets_is_gone_after_it(
    make_client: MakeClient, ends: str
) -> None:
    client = make_client(max_connections=1)

    async def work() -> None:
        async with client.transaction() as transaction:
            await transaction.execute("select set_config('awa.mine', 'set', false)")
            await transaction.execute("select pg_advisory_lock(1)")
            if ends == "rolls back":
                raise Refused

    if ends == "rolls back":
        with pytest.raises(Refused):
            await work()
    else:
        await work()

    async with client.transaction() as transaction:
        (row,) = await transaction.fetch(
            "select coalesce(current_setting('awa.mine', true), '') as mine,"
            " (select count(*) from pg_locks where locktype = 'advisory' and objsubid = 1"
            " and objid = 1 and database = (select oid from pg_database"
            " where datname = current_database())) as locks"
        )
    assert row == {"mine": "", "locks": 0}


async def test_an_insert_is_one_round_trip(make_client: MakeClient) -> None:
    client = make_client(max_connections=1)
    await client.insert(Mail("a"))
    statements: list[str] = []
    async with client.database.lend() as session:
        session.add_query_logger(lambda record: statements.append(record.query))
    await client.insert(Mail("a"))
    assert len(statements) == 1
    await client.insert_many([Mail("a"), Mail("b")])
    assert len(statements) == 2
