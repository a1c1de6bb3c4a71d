"""The place of a folder's database is found once, however many look for it at the same moment."""

import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from awa._local.place import locate

MANY = 8


@pytest.mark.parametrize("mode", [0o755, 0o700], ids=["open to all", "closed to others"])
@pytest.mark.parametrize("again", range(10))
def test_those_who_look_at_once_find_the_same_place(workplace: Path, mode: int, again: int) -> None:
    project = workplace / "project"
    project.mkdir(mode=mode)
    at_once = threading.Barrier(MANY)

    def look(_: int) -> Path:
        at_once.wait()
        return locate(project / ".awa", workplace / "store").home

    with ThreadPoolExecutor(MANY) as pool:
        homes = set(pool.map(look, range(MANY)))

    assert len(homes) == 1
    assert [home.is_dir() for home in homes] == [True]
    assert len([*(workplace / "store").glob("*")]) <= 1
