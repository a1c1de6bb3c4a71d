"""A handler that looks at how its process gets its memory."""

from ctypes import CDLL, Structure, c_size_t
from typing import Any

from awa import AsyncClient, Job

client = AsyncClient()
LARGE, LARGER = 2**20, 20 * 2**20
NAMES = (
    "arena", "ordblks", "smblks", "hblks", "hblkhd", "usmblks", "fsmblks", "uordblks", "fordblks",
    "keepcost",
)  # fmt: skip


class Info(Structure):
    """What glibc tells of its heap; `hblkhd` are the bytes of blocks that are mapped alone."""

    _fields_ = [(name, c_size_t) for name in NAMES]


@client.task(dict, kind="blocks")
async def blocks(job: Job[Any]) -> None:
    """Free a block and take a smaller one; tell how many bytes of it are mapped alone."""
    info = CDLL(None).mallinfo2
    info.restype = Info
    bytearray(LARGER)
    before = info().hblkhd
    kept = bytearray(LARGE)
    job.set_output(info().hblkhd - before)
    del kept
