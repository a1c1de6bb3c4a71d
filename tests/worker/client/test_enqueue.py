"""Every way to enqueue, its options, and what is returned."""

from datetime import UTC, datetime, timedelta

import asyncpg
import pytest
from pydantic import BaseModel

from awa import AsyncClient, JobState, PermissionMissing, UniqueConflict, ValidationError
from support.clients import Mail, MakeClient, Resize, job_count, unique_claims

LATER = datetime.now(UTC) + timedelta(hours=12)


class Welcome(BaseModel):
    user: int


async def test_a_job_is_returned_as_it_is_read_again(client: AsyncClient) -> None:
    made = await client.insert(
        Mail("a@example.org", 7), queue="mails", priority=1, max_attempts=3,
        tags=["new"], metadata={"by": "test"},
    )  # fmt: skip

    found = await client.get_job(made.id)
    assert made.kind == found.kind == "mail"
    assert made.args == found.args == {"to": "a@example.org", "n": 7}
    assert (found.queue, found.priority, found.max_attempts) == ("mails", 1, 3)
    assert (found.tags, found.metadata) == (["new"], {"by": "test"})
    assert made.state == found.state == JobState.Available
    assert (found.attempt, found.errors, found.output) == (0, [], None)


async def test_defaults_are_those_of_the_documentation(client: AsyncClient) -> None:
    job = await client.get_job((await client.insert(Mail("a"))).id)

    assert (job.queue, job.priority, job.max_attempts) == ("default", 2, 25)
    assert (job.tags, job.metadata) == ([], {})


@pytest.mark.parametrize(
    ("args", "kind", "stored"),
    [
        (Mail("a"), None, "mail"),
        (Mail("a"), "other", "other"),
        (Welcome(user=1), None, "welcome"),
        ({"x": 1}, "plain", "plain"),
    ],
)
async def test_args_are_a_dataclass_a_model_or_a_dict_with_a_kind(
    client: AsyncClient, args: object, kind: str | None, stored: str
) -> None:
    assert (await client.insert(args, kind=kind)).kind == stored


@pytest.mark.parametrize(
    "at", [LATER, LATER.isoformat(), LATER - timedelta(days=1)], ids=["time", "text", "past"]
)
async def test_a_job_with_a_time_is_scheduled_also_for_one_in_the_past(
    client: AsyncClient, at: datetime | str
) -> None:
    job = await client.insert(Mail("a"), run_at=at)

    found = await client.get_job(job.id)
    wanted = datetime.fromisoformat(at) if isinstance(at, str) else at
    assert job.state == found.state == JobState.Scheduled
    assert job.run_at == found.run_at == wanted


async def test_an_option_that_does_not_exist_is_a_type_error(client: AsyncClient) -> None:
    with pytest.raises(TypeError, match="'prioritty'; options are max_attempts"):
        await client.insert(Mail("a"), prioritty=1)  # type: ignore[call-arg]


async def test_many_jobs_come_back_in_order_whatever_lane_each_goes_to(client: AsyncClient) -> None:
    jobs = await client.insert_many(
        [Mail("a", n) for n in range(6)],
        max_attempts=4,
        opts=[{"queue": "x"}, None, {"priority": 4}, {"run_at": LATER}, {"queue": "x"}, None],
    )

    found = [await client.get_job(job.id) for job in jobs]
    assert [job.args["n"] for job in found] == list(range(6))
    assert [job.queue for job in found] == ["x", "default", "default", "default", "x", "default"]
    assert [job.priority for job in found] == [2, 2, 4, 2, 2, 2]
    assert str(found[3].state) == "scheduled"
    assert {job.max_attempts for job in found} == {4}


@pytest.mark.parametrize("call", ["insert_many", "insert_many_copy", "enqueue_many_copy"])
async def test_no_jobs_are_no_error(client: AsyncClient, call: str) -> None:
    assert not await getattr(client, call)([])


async def test_opts_must_be_as_many_as_the_jobs(client: AsyncClient) -> None:
    with pytest.raises(ValidationError, match="opts has 1 entries for 2 jobs"):
        await client.insert_many([Mail("a"), Mail("b")], opts=[None])


async def test_a_unique_job_is_refused_with_the_holder(client: AsyncClient) -> None:
    first = await client.insert(Mail("a"), unique_opts={"by_args": True})

    with pytest.raises(UniqueConflict) as refusal:
        await client.insert(Mail("a"), unique_opts={"by_args": True})

    assert refusal.value.holder_id == first.id
    assert (await client.insert(Mail("b"), unique_opts={"by_args": True})).id != first.id


@pytest.mark.parametrize("call", ["insert_many", "enqueue_many_copy"])
async def test_one_duplicate_refuses_a_whole_batch_and_is_named(
    client: AsyncClient, session: asyncpg.Connection, call: str
) -> None:
    holder = await client.insert(Mail("c"), unique_opts={"by_args": True})

    with pytest.raises(UniqueConflict) as refusal:
        await getattr(client, call)(
            [Mail("a"), Mail("b"), Mail("c"), Mail("d")],
            opts=[None, {"queue": "x"}, {"queue": "x"}, None],
            unique_opts={"by_args": True},
        )

    assert refusal.value.__notes__ == ["job at position 2: nothing was enqueued"]
    assert refusal.value.holder_id == holder.id
    assert (await job_count(session), await unique_claims(session)) == (1, 1)


@pytest.mark.parametrize("call", ["insert_many", "enqueue_many_copy"])
async def test_a_duplicate_inside_a_batch_names_both_positions(
    client: AsyncClient, session: asyncpg.Connection, call: str
) -> None:
    unique = {"unique_opts": {"by_args": True}}

    with pytest.raises(UniqueConflict) as refusal:
        await getattr(client, call)(
            [Mail("x"), Mail("a"), Mail("b"), Mail("a")], opts=[None, unique, unique, unique]
        )

    assert refusal.value.__notes__ == [
        "job at position 3: has the unique key of position 1; nothing was enqueued"
    ]
    assert refusal.value.holder_id is None
    assert (await job_count(session), await unique_claims(session)) == (0, 0)


async def test_the_forgiving_batch_leaves_duplicates_out(
    client: AsyncClient, session: asyncpg.Connection
) -> None:
    await client.insert(Mail("b"), unique_opts={"by_args": True})

    made = await client.insert_many_copy(
        [Mail("a"), Mail("b"), Mail("c"), Mail("a")], unique_opts={"by_args": True}
    )

    assert [job.args["to"] for job in made] == ["a", "c"]
    assert await job_count(session) == 3


async def test_the_copy_form_takes_mixed_lanes_times_and_keys(
    client: AsyncClient, session: asyncpg.Connection
) -> None:
    count = await client.enqueue_many_copy(
        [Mail("a", n) for n in range(50)],
        opts=[
            [None, {"queue": "x"}, {"run_at": LATER}, {"unique_opts": {}}, {"priority": 1}][n % 5]  # type: ignore[misc]
            for n in range(50)
        ],
        tags=["t"],
    )

    assert count == await job_count(session) == 50
    assert await unique_claims(session) == 10
    jobs = await client.list_jobs(limit=100)
    assert sorted(job.args["n"] for job in jobs) == list(range(50))
    assert all(job.tags == ["t"] and job.kind == "mail" for job in jobs)
    assert sum(str(job.state) == "scheduled" for job in jobs) == 10


async def test_a_role_with_no_more_than_the_functions_can_enqueue_in_every_way(
    make_client: MakeClient, session: asyncpg.Connection, app: str
) -> None:
    client = make_client(app)

    await client.insert(Mail("a"))
    await client.insert_many([Mail("b"), Mail("c")])
    assert len(await client.insert_many_copy([Mail("d")], unique_opts={})) == 1
    assert await client.enqueue_many_copy([Mail("e", n) for n in range(10)]) == 10
    async with client.transaction() as transaction:
        await transaction.insert(Resize("f"), queue="new")

    assert await job_count(session) == 15
    assert await session.fetchval("select count(*) from awa.ready_entries where slot is null") == 0


async def test_a_role_without_any_right_is_told_what_it_lacks(
    make_client: MakeClient, session: asyncpg.Connection, app: str, database
) -> None:
    await session.execute(f"revoke usage on schema awa from app_{database.name}")
    client = make_client(app)

    for call in (client.insert_many, client.insert_many_copy, client.enqueue_many_copy):
        with pytest.raises(PermissionMissing, match="schema awa; have the owner"):
            await call([Mail("a")])
    with pytest.raises(PermissionMissing):
        await client.list_jobs()
    with pytest.raises(PermissionMissing):
        async with client.transaction() as transaction:
            await transaction.insert(Mail("a"))
    assert await job_count(session) == 0
