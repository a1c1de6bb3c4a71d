"""Image files for the demo, made by the example's own program in a process of its own."""

import asyncio
import json
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from awa._demo.example import IMAGES
from awa.errors import AwaError

LEAST_DAMAGED = 6
"""So that every kind of damage occurs."""
ONE_DAMAGED_OF = 25
_LOOK_SECONDS = 0.1


class PicturesFailed(AwaError):
    """The program that makes the images has failed."""


@dataclass(frozen=True, slots=True)
class Picture:
    """An image file and what is true of it. `damage` says what was done to it, None for nothing."""

    path: Path
    format: str
    width: int
    height: int
    bytes: int
    digest: str
    damage: str | None

    @property
    def name(self) -> str:
        """The file's name."""
        return self.path.name


def damaged_of(count: int) -> int:
    """Return how many of `count` pictures get damaged."""
    return min(count // 2, max(LEAST_DAMAGED, count // ONE_DAMAGED_OF))


async def make_pictures(
    example: Path, folder: Path, count: int, on_progress: Callable[[int], None]
) -> list[Picture]:
    """Make `count` files in `folder`; `on_progress` hears how many there are.

    The same count makes the same files, over those of an earlier run. Raises PicturesFailed.
    """
    command, marker = _begin(example, folder, count)
    process = await asyncio.create_subprocess_exec(
        *command,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        start_new_session=True,
    )
    counting = asyncio.create_task(_count(folder, marker, on_progress))
    try:
        said, complaint = await process.communicate()
    finally:
        counting.cancel()
        if process.returncode is None:
            process.kill()
            await process.wait()
    if process.returncode:
        reason = (complaint.decode(errors="replace").strip().splitlines() or ["it says nothing"])[
            -1
        ]
        raise PicturesFailed(f"{example / IMAGES} could not make the images: {reason}")
    on_progress(count)
    return [_picture(json.loads(line)) for line in said.splitlines()]


def _begin(example: Path, folder: Path, count: int) -> tuple[list[str], Path]:
    """Return the command that makes the files, and a file that is older than they will be."""
    folder.mkdir(parents=True, exist_ok=True)
    marker = folder / ".begun"
    marker.touch()
    command = [
        sys.executable, str(example / IMAGES), str(folder.absolute()),
        "--count", str(count), "--damaged", str(damaged_of(count)),
    ]  # fmt: skip
    return command, marker


def _picture(said: dict[str, object]) -> Picture:
    return Picture(**{**said, "path": Path(str(said["path"]))})  # type: ignore[arg-type]


async def _count(folder: Path, marker: Path, on_progress: Callable[[int], None]) -> None:
    """Say how many files have been written since the start."""
    begun = marker.stat().st_mtime_ns  # noqa: ASYNC240 - takes microseconds
    while True:
        files = (path for path in folder.iterdir() if path != marker)  # noqa: ASYNC240
        on_progress(sum(path.stat().st_mtime_ns >= begun for path in files))
        await asyncio.sleep(_LOOK_SECONDS)
