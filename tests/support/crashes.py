"""Operators that are killed after every single write, at the moment that is worst: the write was
made, and its answer did not come.
"""

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta

from support.api_proxy import ApiProxy, Seen
from support.operating import Operator, Site, took

QUIET = timedelta(seconds=3)
"""Without a write for so long, and in the state that is waited for, it is at its end."""


@dataclass
class Crashes:
    """What was killed after what."""

    writes: list[str] = field(default_factory=list)
    kills: int = 0


async def crash_after_every_write(
    site: Site,
    proxy: ApiProxy,
    is_done: Callable[[], bool],
    limit: timedelta = timedelta(seconds=200),
) -> Crashes:
    """Run operators, each killed after its first write, until `is_done` and nothing is written.

    Returns what was written. The last one is ended. Raises AssertionError at the limit.
    """
    crashes, began = Crashes(), time.monotonic()
    while took(began) < limit:
        operator = site.start(proxy.address, IDENTITY="crashing")
        proxy.answered = _killer(operator, crashes)
        if await _at_end(operator, is_done, began, limit):
            proxy.answered = lambda *_: None
            await asyncio.to_thread(operator.stop)
            return crashes
    raise AssertionError(f"not done after {crashes.kills} crashes; written: {crashes.writes}")


def _killer(operator: Operator, crashes: Crashes) -> Callable[[Seen, int], None]:
    def answered(seen: Seen, status: int) -> None:
        if not seen.is_write or "/leases" in seen.path or not operator.is_alive:
            return
        crashes.writes.append(f"{seen.method} {seen.path.split('/namespaces/')[-1]} {status}")
        crashes.kills += 1
        operator.kill()

    return answered


async def _at_end(
    operator: Operator, is_done: Callable[[], bool], began: float, limit: timedelta
) -> bool:
    """Return True once it is done and rests, False once the operator was killed."""
    since: float | None = None
    while took(began) < limit and operator.is_alive:
        acts = operator.ready().get("leader") is True
        if not (acts and await asyncio.to_thread(is_done)):
            since = None
        elif since is None:
            since = time.monotonic()
        elif took(since) > QUIET and operator.is_alive:
            return True
        await asyncio.sleep(0.1)
    return False
