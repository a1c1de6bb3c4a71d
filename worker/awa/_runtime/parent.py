"""A worker process never outlives its supervisor, however that ends."""

import contextlib
import os
import signal
import sys
import threading
from collections.abc import Callable

try:
    from ctypes import CDLL
except ImportError:  # an interpreter built without libffi
    CDLL = None  # type: ignore[assignment, misc]

SET_PARENT_DEATH_SIGNAL = 1  # PR_SET_PDEATHSIG
SET_CHILD_SUBREAPER = 36  # PR_SET_CHILD_SUBREAPER


def die_with_parent(parent: int, pipe: int) -> None:
    """End this process when its parent ends: by the kernel where it can, else by a thread.

    `pipe` is the reading end of a pipe whose other end the parent alone holds. It ends at once
    when the parent is gone already.
    """
    if not _prctl(SET_PARENT_DEATH_SIGNAL, signal.SIGKILL):
        watch_pipe(pipe)
    if os.getppid() != parent:
        end_group()


def at_parents_death(number: signal.Signals) -> Callable[[], None] | None:
    """Return what a forked child calls before it runs its program, to get a signal then.

    The kernel sends it when the thread that forked ends. None where the kernel cannot.
    """
    if sys.platform != "linux" or CDLL is None:
        return None
    parent, set_option = os.getpid(), CDLL(None).prctl

    def in_child() -> None:
        set_option(SET_PARENT_DEATH_SIGNAL, int(number), 0, 0, 0)
        if os.getppid() != parent:
            os._exit(1)

    return in_child


def watch_pipe(pipe: int) -> None:
    """End this process, from a thread, when the other end of a pipe is closed."""

    def watch() -> None:
        with contextlib.suppress(OSError):
            os.read(pipe, 1)
        end_group()

    threading.Thread(target=watch, name="awa parent watch", daemon=True).start()


def adopt_orphans() -> None:
    """Become the parent of processes below whose own parent ends, as PID 1 is anyway."""
    _prctl(SET_CHILD_SUBREAPER, 1)


def end_group() -> None:
    """End this process and what handlers have started, at once."""
    if os.getpgrp() == os.getpid():
        os.killpg(0, signal.SIGKILL)
    os.kill(os.getpid(), signal.SIGKILL)


def _prctl(option: int, value: int) -> bool:
    if sys.platform != "linux" or CDLL is None:
        return False
    return bool(CDLL(None).prctl(option, value, 0, 0, 0) == 0)
