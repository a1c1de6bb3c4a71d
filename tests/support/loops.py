"""The end of an event loop that serves in a thread of its own: nothing of it is left open.

Clients connect until the last moment, and what a loop leaves open is found by a collection of
garbage in the middle of another test.
"""

import asyncio
import socket
from collections.abc import Iterable

ROUNDS = 5


async def accept_no_more(listening: Iterable[socket.socket]) -> None:
    """Take no more connections, and let those that were accepted become transports."""
    loop = asyncio.get_running_loop()
    for one in listening:
        loop.remove_reader(one.fileno())
    for _ in range(ROUNDS):
        await asyncio.sleep(0)


async def leave_nothing() -> None:
    """Cancel every other task of this loop and reset every connection."""
    loop = asyncio.get_running_loop()
    rest = asyncio.all_tasks() - {asyncio.current_task()}
    for task in rest:
        task.cancel()
    await asyncio.gather(*rest, return_exceptions=True)
    for transport in list(loop._transports.values()):  # type: ignore[attr-defined]
        transport.abort()
    for _ in range(ROUNDS):
        await asyncio.sleep(0)
