"""The image maker: real files, of many kinds, the same ones for the same seed."""

import hashlib
import json
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from PIL import Image

from examples.loading import EXAMPLES, load

images = load("thumbnails", "images")


def test_what_is_listed_is_what_lies_in_the_folder(tmp_path):
    made = images.make_images(tmp_path, count=40, damaged=10, seed=3)

    assert sorted(image.path for image in made) == sorted(tmp_path.iterdir())
    for image in made:
        data = image.path.read_bytes()
        assert image.bytes == len(data)
        assert image.digest == hashlib.sha256(data).hexdigest()
    assert sum(image.damage is not None for image in made) == 10
    assert len({image.digest for image in made if image.damage != "empty"}) >= 38


def test_every_format_and_every_damage_occurs(tmp_path):
    made = images.make_images(tmp_path, count=60, damaged=12)

    good = Counter(image.format for image in made if image.damage is None)
    assert set(good) == {"PNG", "JPEG", "GIF", "WEBP", "BMP", "TIFF"}
    assert min(good.values()) > 3
    assert Counter(image.damage for image in made if image.damage is not None) == {
        "truncated": 2, "wrong magic": 2, "empty": 2, "garbage inside": 2, "web page": 2,
        "wrong extension": 2,
    }  # fmt: skip


def test_sizes_vary_within_the_limits(tmp_path):
    made = images.make_images(tmp_path, count=60, damaged=0)
    sides = [side for image in made for side in (image.width, image.height)]
    assert min(sides) >= images.SHORTEST_SIDE
    assert max(sides) <= images.LONGEST_SIDE
    assert min(sides) < 40
    assert max(sides) > 600


def test_good_images_are_what_their_entry_says(tmp_path):
    for image in images.make_images(tmp_path, count=30, damaged=0, seed=9):
        with Image.open(image.path) as opened:
            assert opened.format == image.format
            assert opened.size == (image.width, image.height)


def test_the_same_seed_makes_the_same_files_and_another_seed_others(tmp_path):
    def digests(folder, seed):
        made = images.make_images(tmp_path / folder, count=18, damaged=6, seed=seed)
        return [(image.path.name, image.digest) for image in made]

    assert digests("one", 5) == digests("two", 5)
    assert digests("one", 5) != digests("three", 6)


def test_a_second_run_over_the_same_folder_leaves_the_same_files(tmp_path):
    first = images.make_images(tmp_path, count=12, damaged=3)
    assert images.make_images(tmp_path, count=12, damaged=3) == first
    assert len(list(tmp_path.iterdir())) == 12


@pytest.mark.parametrize("damaged", [-1, 6])
def test_more_damaged_than_made_is_refused(tmp_path, damaged):
    with pytest.raises(ValueError, match="cannot be damaged"):
        images.make_images(tmp_path / "none", count=5, damaged=damaged)
    assert not (tmp_path / "none").exists()


def test_real_files_are_found_by_their_suffix(tmp_path):
    for name in ("b/two.PNG", "a/one.jpeg", "a/deep/er/three.tif", "a/notes.txt", "b/empty.gif"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"" if "empty" in name else b"something")
    (tmp_path / "b" / "link.png").symlink_to(tmp_path / "b" / "two.PNG")
    (tmp_path / "a" / "folder.gif").mkdir()

    found = images.find_images([tmp_path / "a", tmp_path / "b", tmp_path / "missing"])

    assert [str(path.relative_to(tmp_path)) for path in found] == [
        "a/one.jpeg", "a/deep/er/three.tif", "b/two.PNG",
    ]  # fmt: skip
    assert images.find_images([tmp_path], limit=2) == found[:2]
    assert images.find_images([tmp_path], limit=0) == []


def run(*arguments: object) -> list[dict[str, object]]:
    program = EXAMPLES / "thumbnails" / "images.py"
    done = subprocess.run(
        [sys.executable, program, *map(str, arguments)], capture_output=True, text=True, check=True
    )
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_the_program_lists_what_it_made_and_finds_it_again(tmp_path: Path):
    made = run(tmp_path, "--count", 8, "--damaged", 2, "--seed", 4)
    assert len(made) == 8
    assert set(made[0]) == {"path", "format", "width", "height", "bytes", "digest", "damage"}
    assert all(Path(str(line["path"])).is_file() for line in made)

    found = run("--find", 3, tmp_path)
    assert {str(line["path"]) for line in found} <= {str(line["path"]) for line in made}
    assert len(found) == 3
