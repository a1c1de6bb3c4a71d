"""Whether the server has room for one more connection.

A process can work with one. More are taken while a quarter of the server's are free and given back
when less than a tenth is, so that those who have none get one; and they are never waited for, so
that nobody holds what others wait for.
"""

import random
from collections.abc import Mapping

from awa._store.faults import translated
from awa._store.sessions import Session

SERVER_FULL = "53300"
FREE_TO_OPEN, FREE_TO_KEEP = 0.25, 0.1
"""Which part of the server's connections must be free to take one more, and to keep it."""
LOOK_SECONDS = 5.0
"""How often one that has more than one looks whether others need it more; jittered."""
RETRY_SECONDS = 10.0
"""How long to do without one more before asking again; jittered."""


async def has_room(session: Session, sql: Mapping[str, str], needed: float) -> bool:
    """Whether so large a part of the server's connections is free; a pooler's are not counted."""
    if session.is_shared:
        return True
    with translated():
        free: float = await session.fetchval(sql["free_share"])
    return free >= needed


def jittered(seconds: float) -> float:
    """Return about so many seconds, so that not everybody does the same at once."""
    return seconds * random.uniform(0.5, 1.5)  # noqa: S311 - chance, not secrets
