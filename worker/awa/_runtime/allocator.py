"""What a worker process asks of the C library's allocator."""

import os
import sys

try:
    from ctypes import CDLL
except ImportError:  # an interpreter without ctypes
    CDLL = None  # type: ignore[assignment, misc]

MMAP_THRESHOLD = -3
"""Of `mallopt`: from which size on a block is mapped alone and goes back when it is freed."""
LARGE_BYTES = 65_536


def return_large_blocks() -> bool:
    """Have glibc give the memory of large blocks back as soon as they are freed; True if it does.

    It raises the size of such blocks whenever one is freed. The buffers of claims and flushes then
    come from the heap, between small things that stay, and the process grows with the jobs that it
    has done although it holds nothing of them. A user's own MALLOC_MMAP_THRESHOLD_ is left alone.
    """
    if sys.platform != "linux" or CDLL is None or "MALLOC_MMAP_THRESHOLD_" in os.environ:
        return False
    try:
        return bool(CDLL(None).mallopt(MMAP_THRESHOLD, LARGE_BYTES) == 1)
    except AttributeError:  # another C library
        return False
