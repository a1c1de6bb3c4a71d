"""What is given up because of a stop is cleaned up whole, whoever else gives it up too."""

import asyncio

import pytest

from awa._fleet.stop import Stop, Stopped


class Work:
    """Work that needs a while to clean up, and notes whether it could."""

    def __init__(self) -> None:
        self.begun = asyncio.Event()
        self.cleaning = asyncio.Event()
        self.may_end = asyncio.Event()
        self.is_clean = False

    async def run(self) -> None:
        self.begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            self.cleaning.set()
            await self.may_end.wait()
            self.is_clean = True


async def test_work_that_ends_returns_its_value():
    async def work():
        return 7

    assert await Stop().unless_asked(work()) == 7


async def test_an_error_of_the_work_goes_through():
    async def work():
        raise ValueError("broken")

    with pytest.raises(ValueError, match="broken"):
        await Stop().unless_asked(work())


async def test_a_stop_waits_for_the_clean_up_of_the_work():
    stop, work = Stop(), Work()
    waiting = asyncio.create_task(stop.unless_asked(work.run()))
    await work.begun.wait()
    stop.ask()
    await work.cleaning.wait()
    assert not waiting.done()
    work.may_end.set()
    with pytest.raises(Stopped):
        await waiting
    assert work.is_clean


async def test_a_cancellation_during_the_clean_up_does_not_cut_it_short():
    stop, work = Stop(), Work()
    waiting = asyncio.create_task(stop.unless_asked(work.run()))
    await work.begun.wait()
    stop.ask()
    await work.cleaning.wait()
    waiting.cancel()
    work.may_end.set()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert work.is_clean


async def test_a_cancelled_caller_waits_for_the_clean_up_too():
    work = Work()
    waiting = asyncio.create_task(Stop().unless_asked(work.run()))
    await work.begun.wait()
    waiting.cancel()
    await work.cleaning.wait()
    work.may_end.set()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert work.is_clean


async def test_the_second_request_stops_at_once():
    stop = Stop()
    stop.ask()
    assert (stop.drain.is_set(), stop.at_once.is_set()) == (True, False)
    stop.ask()
    assert stop.at_once.is_set()
