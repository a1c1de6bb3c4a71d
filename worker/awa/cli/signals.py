"""Signals that ask to stop, caught from the first moment on.

As PID 1 of a container a process that has not asked for a signal does not get it, so this is done
before anything that takes time. It imports nothing that does.
"""

import signal
from collections.abc import Callable, Iterable
from typing import Protocol

_early: list[int] = []


class _Loop(Protocol):
    """The part of an event loop that is used here."""

    def add_signal_handler(self, sig: int, callback: Callable[..., object]) -> None: ...

    def is_closed(self) -> bool: ...

    def call_soon_threadsafe(self, callback: Callable[..., object]) -> object: ...


def catch_stop_signals() -> None:
    """Take note of stop signals from now on; safe to repeat."""
    for number in _stop_signals():
        signal.signal(number, _note)


def deliver_stop_signals(loop: _Loop, ask_to_stop: Callable[[], None]) -> None:
    """Let the loop call `ask_to_stop` for each stop signal from now on, and for those noted.

    The loop itself would count twice: a child that has not become another program yet has the
    signal too, and tells the loop of it through the pipe that it shares with this process. So the
    loop is only woken, and the handler, which runs in this process alone, does the rest.
    """

    def ask(number: int, frame: object) -> None:
        if not loop.is_closed():
            loop.call_soon_threadsafe(ask_to_stop)

    numbers = tuple(_stop_signals())
    # Held back meanwhile: one that came in the middle would be noted and delivered, so twice.
    signal.pthread_sigmask(signal.SIG_BLOCK, numbers)
    try:
        for number in numbers:
            loop.add_signal_handler(number, _wake)
            signal.signal(number, ask)
        while _early:
            _early.pop()
            ask_to_stop()
    finally:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, numbers)


def _stop_signals() -> Iterable[signal.Signals]:
    yield signal.SIGTERM
    yield signal.SIGINT
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:  # else this runs under nohup
        yield signal.SIGHUP


def _note(number: int, _: object) -> None:
    _early.append(number)


def _wake() -> None:
    """Nothing: that the loop runs is all."""
