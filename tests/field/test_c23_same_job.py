"""C23: what counts as the same job is exact, and the same on every way into the queue.

How long a key is held (line 3) is in tests/worker/engine/test_unique.py, state by state and beyond
pruning; the form of keys in tests/worker/values/test_unique.py.
"""

import random
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from itertools import count
from typing import Any

import asyncpg
import pytest
from hypothesis import HealthCheck, Phase, example, given, settings
from hypothesis import strategies as st

from awa import AsyncClient, UniqueConflict, period_bucket
from awa.unique import unique_key
from support.insert_paths import Insert, InsertPaths
from support.json_values import shuffled, storable_objects, typed
from support.postgres import Database
from support.sizes import sized

ARG_SETS = sized(200_000, 1_000_000)
STORED_SETS = 20_000
QUEUES = ("one", "two")
property_of_a_database = settings(
    max_examples=40,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
    # An example costs dozens of calls: looking for a smaller one would take minutes.
    phases=[Phase.explicit, Phase.reuse, Phase.generate],
)
NESTED = {"a": 1, "b": {"c": 2, "d": [{"e": 3, "f": 4}]}}
REORDERED = {"b": {"d": [{"f": 4, "e": 3}], "c": 2}, "a": 1}
kinds = (f"kind{n}" for n in count())


@pytest.fixture
async def paths(database: Database) -> AsyncIterator[InsertPaths]:
    async with InsertPaths(database) as opened:
        yield opened


async def tried(insert: Insert, args: Any, **options: Any) -> int | None:
    """Enqueue a job; return it, or None when another one holds the key."""
    try:
        return await insert(args, **options)
    except (UniqueConflict, asyncpg.UniqueViolationError):
        return None


def variants(args: Any) -> st.SearchStrategy[Any]:
    """Return the same args with keys in another order, others, or a part of them."""
    return (
        st.randoms(use_true_random=False).map(lambda chance: shuffled(args, chance))
        | storable_objects
        | st.just({**args, "field": 1})
        | st.just(dict(list(args.items())[1:]))
    )


def shows(left: Any, right: Any) -> Any:
    """Say that two args must be told apart, or be the same, when nothing else counts."""
    return example(case=((left, right), ("one", "one"), (None, None), False, "insert"))


@pytest.mark.slow
@pytest.mark.timeout(300)
@property_of_a_database
@shows({}, {"field": 1})
@shows({"field": 1}, {})
@shows(NESTED, REORDERED)
@shows({"a": 1}, {"a": 1.0})
@shows({"a": 1}, {"a": True})
@shows({"a": 1}, {"a": "1"})
@shows({"a": 0.0}, {"a": -0.0})
@shows({"a": 1e16}, {"a": 10**16})
@shows({"a": "é"}, {"a": "e\u0301"})
@shows({"a": None}, {})
@given(
    case=st.tuples(
        storable_objects.flatmap(lambda args: st.tuples(st.just(args), variants(args))),
        st.tuples(st.sampled_from(QUEUES), st.sampled_from(QUEUES)),
        st.tuples(st.sampled_from([None, 0, 1]), st.sampled_from([None, 0, 1])),
        st.booleans(),
        st.sampled_from(["insert", "enqueue_many_copy", "django", "sql"]),
    )
)
async def test_every_way_in_agrees_on_what_the_same_job_is(paths: InsertPaths, case: Any) -> None:
    args, queues, periods, by_queue, first = case
    kind = next(kinds)
    ways = {**paths.all, "sql": paths.by_sql}

    async def insert(way: Insert, at: int) -> int | None:
        unique = {"by_queue": by_queue, "by_period": periods[at]}
        return await tried(way, args[at], kind=kind, queue=queues[at], unique_opts=unique)

    holder = await insert(ways[first], 0)
    assert holder is not None
    differs = (
        typed(args[0]) != typed(args[1])
        or periods[0] != periods[1]
        or (by_queue and queues[0] != queues[1])
    )
    order = list(ways)
    random.Random(kind).shuffle(order)  # noqa: S311 - chance, not secrets
    kept = [name for name in order if await insert(ways[name], 1) is not None]
    assert kept == order[:1] if differs else kept == []


def some_args(chance: random.Random, number: int) -> str:
    """Return JSON of args that no other number has, here at the top and there further down."""
    others = [f'"x":{chance.random()}', f'"t":"{chance.randrange(100)}"']
    inner = f'"n":{number}' if chance.random() < 0.5 else f'"in":{{"n":[{number}]}}'
    parts = [inner, *others[: chance.randint(0, 2)]]
    chance.shuffle(parts)
    return f"{{{','.join(parts)}}}"


@pytest.mark.slow
def test_random_args_give_no_false_conflict() -> None:
    chance = random.Random(23)  # noqa: S311 - chance, not secrets
    keys = {unique_key("k", args_json=some_args(chance, n)) for n in range(ARG_SETS)}
    assert len(keys) == ARG_SETS


async def test_stored_args_give_no_false_conflict(database: Database) -> None:
    chance = random.Random(23)  # noqa: S311 - chance, not secrets
    args = [{"n": n, "x": chance.random(), "t": [chance.randrange(9)]} for n in range(STORED_SETS)]
    async with AsyncClient(database.dsn, 1) as client:
        made = await client.insert_many_copy(args, kind="k", unique_opts={})
        again = await client.insert_many_copy(reversed(args), kind="k", unique_opts={})
    assert (len(made), again) == (STORED_SETS, [])


async def test_a_period_ends_exactly_at_its_boundary_on_every_way_in(paths: InsertPaths) -> None:
    hour, start = timedelta(hours=1), datetime(2030, 1, 1, 12, tzinfo=UTC)
    moments = [start - timedelta(microseconds=1), start, start + hour / 2, start + hour]
    for name, insert in {**paths.all, "sql": paths.by_sql}.items():
        found = [
            await tried(
                insert,
                {"way": name},
                kind="hourly",
                unique_opts={"by_period": period_bucket(at, hour)},
            )
            for at in moments
        ]
        assert [job is not None for job in found] == [True, True, False, True], name
