"""What happened, in a file that outlives its process: one write per line, in append mode."""

import os
import time
from collections.abc import Iterator
from pathlib import Path


class Journal:
    """Appends lines. A process that is killed loses at most the line it is writing."""

    def __init__(self, folder: Path, name: str) -> None:
        path = folder / f"{name}.{os.getpid()}.journal"
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)

    def note(self, *lines: tuple[str, ...]) -> None:
        """Write lines of words."""
        os.write(self._file, "".join("\t".join(line) + "\n" for line in lines).encode())


class TimedJournal(Journal):
    """Puts the time before each line: seconds of the machine's steady clock, which all share."""

    def note(self, *lines: tuple[str, ...]) -> None:
        """Write lines of words."""
        now = f"{time.monotonic():.3f}"
        super().note(*((now, *line) for line in lines))


def clock_offset() -> float:
    """Return by how much the time of day is ahead of the steady clock in this process."""
    return time.time() - time.monotonic()


def note_offset(folder: Path) -> None:
    """Let others see which time of day this process has."""
    Journal(folder, "clock").note((str(clock_offset()),))


def read_offsets(folder: Path) -> list[float]:
    """Return what each process noted of its time of day, the last one last."""
    paths = sorted(folder.glob("clock.*.journal"), key=lambda path: path.stat().st_mtime_ns)
    return [float(line) for path in paths for line in path.read_text().split()]


def read_journals(folder: Path, name: str) -> Iterator[list[str]]:
    """Return the lines of every journal of a name; a torn last line is left out."""
    for path in sorted(folder.glob(f"{name}.*.journal")):
        yield from read_journal(path)


def read_journal(path: Path) -> Iterator[list[str]]:
    """Return the lines of one journal; a torn last line is left out."""
    for line in path.read_text().splitlines(keepends=True):
        if line.endswith("\n"):
            yield line.rstrip("\n").split("\t")
