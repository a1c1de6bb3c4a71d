"""Which attempts had started, readable after the process is gone.

A memory-mapped file of a worker process, made where its supervisor and their successors find it:

    magic, worker id, process id, places    four 64-bit numbers
    claim id, lane number                   for each place; zero when free

The claim and place of an attempt are noted before its handler is called and cleared when the
attempt has ended. The kernel keeps the pages of a process that dies, so whoever reads the file
afterwards knows which attempts had started; all others of its claims can go back uncounted.
"""

import contextlib
import mmap
import os
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
        """Open a recorder in `folder`, or in memory that nobody else can read for None."""
        self._path = None if folder is None else folder / f"{worker_id}{_SUFFIX}"
        self._worker_id = worker_id
        self._map, self._numbers = self._open(places)
        self._free = list(range(places - 1, -1, -1))

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
        """Close and remove the file: every attempt has been accounted for."""
        self._numbers.release()
        self._map.close()
        if self._path is not None:
            self._path.unlink(missing_ok=True)

    def _open(self, places: int) -> tuple[mmap.mmap, memoryview]:
        size = 8 * (_HEAD + 2 * places)
        if self._path is None:
            mapped = mmap.mmap(-1, size)
        else:
            descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT, 0o600)
            try:
                os.ftruncate(descriptor, size)
                mapped = mmap.mmap(descriptor, size)
            finally:
                os.close(descriptor)
        numbers = memoryview(mapped).cast("q")
        numbers[1], numbers[2], numbers[3] = self._worker_id, os.getpid(), places
        numbers[0] = _MAGIC
        return mapped, numbers

    def _grow(self) -> None:
        places = self._numbers[3]
        noted = bytes(self._numbers)
        self._numbers.release()
        self._map.close()
        self._map, self._numbers = self._open(2 * places)
        if self._path is None:
            self._map[len(noted[:32]) : len(noted)] = noted[32:]
        self._free = list(range(2 * places - 1, places - 1, -1))


def recordings(folder: Path) -> list[tuple[Path, Recording]]:
    """Return the recordings that lie in a folder, unreadable ones left out."""
    found = []
    for path in sorted(folder.glob(f"*{_SUFFIX}")):
        with contextlib.suppress(OSError, ValueError):
            found.append((path, read_recording(path)))
    return found


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
