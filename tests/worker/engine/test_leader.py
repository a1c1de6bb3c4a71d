"""Leadership of maintenance: one at a time, for as long as it is renewed."""

import asyncio

import pytest

LEAD = "select awa.lead_v1('maintenance', $1, $2::text::interval)"
RESIGN = "select awa.resign_v1('maintenance', $1)"


@pytest.fixture
async def pair(engine) -> tuple[int, int]:
    """Two live workers."""
    return await engine.register(), await engine.register()


async def test_one_of_two_contenders_leads_and_renews(engine, pair):
    one, two = pair
    assert await engine.admin.fetchval(LEAD, one, "1 hour") is True
    assert await engine.admin.fetchval(LEAD, two, "1 hour") is False
    assert await engine.admin.fetchval(LEAD, one, "1 hour") is True


async def test_of_contenders_at_the_same_moment_exactly_one_leads(engine):
    workers = [await engine.register() for _ in range(6)]
    sessions = [await engine.session() for _ in workers]
    for _ in range(10):
        won = await asyncio.gather(
            *(s.fetchval(LEAD, w, "1 hour") for s, w in zip(sessions, workers, strict=True))
        )
        assert sorted(won) == [False] * 5 + [True]
        await engine.admin.execute("delete from awa.leader")


async def test_leadership_that_has_run_out_is_taken_over(engine, pair):
    one, two = pair
    await engine.admin.fetchval(LEAD, one, "0 seconds")
    assert await engine.admin.fetchval(LEAD, two, "1 hour") is True
    assert await engine.admin.fetchval(LEAD, one, "1 hour") is False


async def test_a_leader_that_resigns_is_followed_at_once(engine, pair):
    one, two = pair
    await engine.admin.fetchval(LEAD, one, "1 hour")
    await engine.admin.fetchval(RESIGN, two)  # not its to give
    assert await engine.admin.fetchval(LEAD, two, "1 hour") is False
    await engine.admin.fetchval(RESIGN, one)
    assert await engine.admin.fetchval(LEAD, two, "1 hour") is True


@pytest.mark.parametrize("how", ["dead", "gone"])
async def test_a_dead_leader_is_followed_at_once(engine, pair, how):
    one, two = pair
    await engine.admin.fetchval(LEAD, one, "1 hour")
    if how == "dead":
        await engine.admin.fetchval("select awa.mark_dead_v1($1, 'x')", one)
    else:
        await engine.admin.execute("delete from awa.runtime_instances where worker_id = $1", one)
    assert await engine.admin.fetchval(LEAD, two, "1 hour") is True


async def test_duties_have_leaders_of_their_own(engine, pair):
    one, two = pair
    await engine.admin.fetchval(LEAD, one, "1 hour")
    assert await engine.admin.fetchval("select awa.lead_v1('other', $1, '1 h')", two) is True
