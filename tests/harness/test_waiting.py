"""Waiting has a limit and says what it waited for."""

import asyncio
import select
import time
from datetime import timedelta

import pytest

from support.waiting import eventually, eventually_sync

SHORT = timedelta(milliseconds=50)


async def test_eventually_returns_the_first_truthy_value() -> None:
    values = iter([None, 0, "here"])
    assert await eventually(lambda: next(values)) == "here"


async def test_eventually_awaits_a_coroutine_function() -> None:
    async def ready() -> int:
        await asyncio.sleep(0)
        return 7

    assert await eventually(ready) == 7


async def test_eventually_gives_up_and_says_what_was_missing() -> None:
    with pytest.raises(AssertionError, match=r"in vain for: the bus \(last value: 0\)"):
        await eventually(lambda: 0, SHORT, what="the bus")


async def test_eventually_cancels_a_predicate_that_hangs() -> None:
    async def hang() -> None:
        await asyncio.Event().wait()

    with pytest.raises(AssertionError, match="in vain"):
        await eventually(hang, SHORT)


async def test_eventually_does_not_count_time_in_which_nothing_ran_here() -> None:
    began = time.monotonic()
    asyncio.get_running_loop().call_later(0.02, select.select, [], [], [], 1.0)
    assert await eventually(lambda: time.monotonic() - began > 1.1, timedelta(seconds=0.5))


async def test_eventually_lets_an_error_of_the_predicate_through() -> None:
    with pytest.raises(ZeroDivisionError):
        await eventually(lambda: 1 // 0)


def test_eventually_sync_has_a_limit_too() -> None:
    started = time.monotonic()
    with pytest.raises(AssertionError, match="in vain for: nothing"):
        eventually_sync(list, SHORT, what="nothing")
    assert time.monotonic() - started < 5


def test_eventually_sync_returns_the_first_truthy_value() -> None:
    values = iter(["", "here"])
    assert eventually_sync(lambda: next(values)) == "here"
