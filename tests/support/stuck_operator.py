"""The operator, whose event loop stands still for a while before its first write."""

import sys
import time

from awa_operator.__main__ import main

SECONDS = 6.0
_done: list[str] = []


async def stand_still(what: str) -> None:
    """Block the loop, once."""
    if not _done:
        _done.append(what)
        time.sleep(SECONDS)  # noqa: ASYNC251 - that is the point


if __name__ == "__main__":
    sys.exit(main(before_write=stand_still))
