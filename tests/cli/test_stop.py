"""What is given up because of a stop is cleaned up whole, whoever else gives it up too."""

import asyncio
import ctypes
import os
import signal
from collections.abc import Iterator

import pytest

from awa._fleet.stop import Stop, Stopped
from awa.cli.signals import deliver_stop_signals
from support.waiting import eventually


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


@pytest.fixture
def signals_put_back() -> Iterator[None]:
    """Put the handlers of signals back at the end, whatever a test has done to them."""
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = {number: signal.getsignal(number) for number in numbers}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.usefixtures("signals_put_back")
async def test_each_signal_is_one_request():
    stop = Stop()
    deliver_stop_signals(asyncio.get_running_loop(), stop.ask)
    os.kill(os.getpid(), signal.SIGTERM)
    await stop.drain.wait()
    assert not stop.at_once.is_set()
    os.kill(os.getpid(), signal.SIGINT)
    await stop.at_once.wait()


@pytest.mark.usefixtures("signals_put_back")
async def test_a_signal_to_a_child_that_still_is_a_copy_of_us_is_none_of_ours():
    # Ctrl-C goes to the whole group, also to what has been forked and is not another program yet.
    asked = []
    deliver_stop_signals(asyncio.get_running_loop(), lambda: asked.append("child or parent"))
    signal_a_copy(signal.SIGINT)
    os.kill(os.getpid(), signal.SIGINT)
    await eventually(lambda: asked, what="the signal to us is heard")
    assert len(asked) == 1


@pytest.mark.usefixtures("signals_put_back")
def test_a_signal_after_the_loop_was_closed_asks_nobody():
    loop, asked = asyncio.new_event_loop(), []
    deliver_stop_signals(loop, lambda: asked.append("too late"))
    handler = signal.getsignal(signal.SIGTERM)
    loop.close()
    assert callable(handler)
    handler(signal.SIGTERM, None)  # as if it had come while the loop was closing
    assert asked == []


def signal_a_copy(number: signal.Signals) -> None:
    """Fork as `subprocess` does, so that Python does not know of it, and signal the child."""
    child = ctypes.PyDLL(None).fork()
    if child == 0:
        os.kill(os.getpid(), number)
        os._exit(0)
    os.waitpid(child, 0)
