"""Which attempts had started, readable after the process is gone.

A memory-mapped file of a worker process, made where its supervisor and their successors find it:

    magic, worker id, process id, places    four 64-bit numbers
    claim id, lane number                   for each place; zero when free

The claim and place of an attempt are noted before its handler is called and cleared when the
attempt has ended. The kernel keeps the pages of a process that dies, so whoever reads the file
afterwards knows which attempts had started; all others of its claims can go back uncounted.

The process holds a lock on the file as long as it lives (and so do processes forked off it, which
may still act for it). A file that can be locked is that of a process that is gone, whatever process
ids say: in containers the same ones come back. A file appears under its name only once it is
locked and complete, and it is removed before the lock is let go.
"""

import contextlib
import fcntl
import mmap
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

_MAGIC = 0x31_72_65_63_61_77_61  # "awacer1" backwards
_HEAD = 4
_SUFFIX = ".attempts"


@dataclass(frozen=True, slots=True)
class Recording:
    """What a recorder file says. `started` are pairs of claim id and lane number."""

    worker_id: int
    process_id: int
    started: tuple[tuple[int, int], ...]


class Recorder:
    """Notes started attempts of one worker identity. Grows when more run at once."""

    def __init__(self, folder: Path | None, worker_id: int, places: int = 1024) -> None:
        """Open a recorder in `folder`, or in memory that nobody else can read for None.

        Raises OSError when the folder cannot be written to or has no room.
        """
        self._path = None if folder is None else folder / f"{worker_id}{_SUFFIX}"
        self._descriptor = None if folder is None else os.open(
            folder / f".{worker_id}.new", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600
        )  # fmt: skip
        if self._descriptor is not None:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        self._map, self._numbers = self._open(places)
        self._numbers[1], self._numbers[2], self._numbers[0] = worker_id, os.getpid(), _MAGIC
        self._free = list(range(places - 1, -1, -1))
        if folder is not None and self._path is not None:
            (folder / f".{worker_id}.new").rename(self._path)

    def note(self, claim_id: int, seq: int) -> int:
        """Note a start; returns the place to clear."""
        if not self._free:
            self._grow()
        place = self._free.pop()
        at = _HEAD + 2 * place
        # The claim id makes the entry valid, so it is written last.
        self._numbers[at + 1] = seq
        self._numbers[at] = claim_id
        return place

    def clear(self, place: int) -> None:
        """Note the end of the attempt at a place."""
        self._numbers[_HEAD + 2 * place] = 0
        self._free.append(place)

    def close(self) -> None:
        """Remove the file, then let go of it: every attempt has been accounted for."""
        if self._path is not None:
            self._path.unlink(missing_ok=True)
        self._numbers.release()
        self._map.close()
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            os.close(descriptor)

    def _open(self, places: int) -> tuple[mmap.mmap, memoryview]:
        size = 8 * (_HEAD + 2 * places)
        if self._descriptor is None:
            mapped = mmap.mmap(-1, size)
        else:
            _reserve(self._descriptor, size)
            mapped = mmap.mmap(self._descriptor, size)
        numbers = memoryview(mapped).cast("q")
        numbers[3] = places
        return mapped, numbers

    def _grow(self) -> None:
        places = self._numbers[3]
        noted = bytes(self._numbers)
        self._numbers.release()
        self._map.close()
        self._map, self._numbers = self._open(2 * places)
        if self._descriptor is None:
            self._map[: len(noted)] = noted
            self._numbers[3] = 2 * places
        self._free = list(range(2 * places - 1, places - 1, -1))


def _reserve(descriptor: int, size: int) -> None:
    """Give the file its size with real room behind it.

    A page without room would end the process when it is written to, instead of raising here.
    """
    if hasattr(os, "posix_fallocate"):
        os.posix_fallocate(descriptor, 0, size)
    else:
        os.ftruncate(descriptor, size)


@contextlib.contextmanager
def abandoned(path: Path) -> Iterator[Recording | None]:
    """Lend the recording of a process that is gone; None when the process lives or none is left.

    While it is lent nobody else is lent it. Raises ValueError when it cannot be read; remove the
    file inside the block once the recording is settled.
    """
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        yield None
        return
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        yield None
        return
    try:
        # Somebody else may have settled and removed it between the two calls.
        yield read_recording(path) if os.fstat(descriptor).st_nlink else None
    finally:
        os.close(descriptor)


def recording_files(folder: Path) -> list[Path]:
    """Return the recordings in a state folder, one subfolder for each engine."""
    return sorted(folder.glob(f"*/*{_SUFFIX}"))


def read_recording(path: Path) -> Recording:
    """Read a recorder file. Raises ValueError for something else."""
    data = path.read_bytes()
    if len(data) < 8 * _HEAD or len(data) % 8:
        raise ValueError(f"{path.name} is not a recording of attempts")
    numbers = memoryview(data).cast("q")
    if numbers[0] != _MAGIC:
        raise ValueError(f"{path.name} is not a recording of attempts")
    pairs = zip(numbers[_HEAD::2].tolist(), numbers[_HEAD + 1 :: 2].tolist(), strict=False)
    return Recording(numbers[1], numbers[2], tuple(pair for pair in pairs if pair[0]))
